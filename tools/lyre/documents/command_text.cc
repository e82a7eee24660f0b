#include "tools/lyre/documents/command_text.h"

#include <sstream>

namespace lyre::tools {
namespace {

/// CLI11 shows the values that are allowed as "TEXT:{a,b}".
std::vector<std::string> choices_of(const std::string& type_name) {
  const size_t begin = type_name.find('{');
  const size_t end = type_name.find('}');
  if (begin == std::string::npos || end == std::string::npos) return {};
  std::vector<std::string> out;
  std::istringstream list(type_name.substr(begin + 1, end - begin - 1));
  for (std::string choice; std::getline(list, choice, ',');) out.push_back(choice);
  return out;
}

std::string value_of(const CLI::Option& option) {
  if (option.get_expected_max() == 0) return "";
  const std::string type = option.get_type_name();
  if (!choices_of(type).empty()) return "WORD";
  const bool is_plain = type.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") == std::string::npos;
  return !type.empty() && is_plain ? type : "VALUE";
}

OptionText option_text(const CLI::Option& option) {
  OptionText out;
  for (const std::string& name : option.get_snames()) out.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) out.names.push_back("--" + name);
  out.value = value_of(option);
  out.is_value_optional = !out.value.empty() && option.get_expected_min() == 0;
  out.choices = choices_of(option.get_type_name());
  out.text = option.get_description();
  out.default_value = option.get_default_str();
  return out;
}

}  // namespace

std::string CommandText::joined(const char* separator) const {
  std::string out;
  for (const std::string& word : path) out += (out.empty() ? "" : separator) + word;
  return out;
}

CommandText describe(const CLI::App& app, const std::vector<std::string>& parents) {
  CommandText out;
  out.path = parents;
  out.path.push_back(app.get_name());
  out.text = app.get_description();
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    if (option->get_positional()) {
      out.arguments.push_back({option->get_name(true), option->get_description(),
                               option->get_required(), choices_of(option->get_type_name())});
    } else {
      out.options.push_back(option_text(*option));
    }
  }
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!command->get_group().empty()) out.commands.push_back(describe(*command, out.path));
  }
  return out;
}

}  // namespace lyre::tools
