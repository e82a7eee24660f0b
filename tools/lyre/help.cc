#include "tools/lyre/help.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "tools/lyre/failure.h"

namespace lyre::tools {
namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

void print_help(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* shown = &app;
  std::string path = app.get_name();
  for (const std::string& word : words) {
    const auto commands = commands_of(*shown);
    const auto below =
        std::find_if(commands.begin(), commands.end(),
                     [&word](const CLI::App* command) { return command->get_name() == word; });
    if (below == commands.end()) {
      throw Failure(kExitUsage, "there is no command '" + word + "' (see lyre --help)");
    }
    shown = *below;
    path += " " + word;
  }
  // App::help() of `lyre` would show the command that was parsed: help itself.
  std::cout << shown->get_formatter()->make_help(shown, path, CLI::AppFormatMode::Normal);
}

}  // namespace

void add_help(CLI::App& app, const GlobalOptions& globals) {
  std::vector<std::string> names;
  for (const CLI::App* named : commands_of(app)) names.push_back(named->get_name());
  CLI::App* command = app.add_subcommand("help", "What a command does, and its options");
  auto words = std::make_shared<std::vector<std::string>>();
  command->add_option("command", *words, "A command, such as sessions, or perf client")
      ->type_name("{" + CLI::detail::join(names, ",") + "}");
  command->callback([&app, &globals, words] {
    refuse_json(globals, "help");
    print_help(app, *words);
  });
}

}  // namespace lyre::tools
