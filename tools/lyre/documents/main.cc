#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <stdexcept>
#include <string>

#include "tools/lyre/command_line.h"
#include "tools/lyre/documents/completion.h"
#include "tools/lyre/documents/lyred_pages.h"
#include "tools/lyre/documents/man_page.h"

/// Writes the manual pages of `lyre` and `lyred`, and the completions of `lyre`, into a directory,
/// while Lyre is built.
namespace {

using namespace lyre::tools;

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::trunc);
  file << text;
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
}

void write_documents(const std::filesystem::path& folder, std::set<std::string> expected) {
  CLI::App app;
  GlobalOptions globals;
  define_command_line(app, globals);
  const CommandText root = describe(app);
  const auto write_page = [&](const CommandText& command) {
    const std::string name = man_page_name(command) + ".1";
    if (expected.erase(name) == 0) throw std::runtime_error(name + " is not in meson.build");
    write(folder / name, man_page(root, command));
  };
  write_page(root);
  for (const CommandText& command : root.commands) write_page(command);
  if (!expected.empty()) throw std::runtime_error("no command has the page " + *expected.begin());
  write(folder / "lyred.8", lyred_page());
  write(folder / "lyred.toml.5", config_page());
  write(folder / "lyre", bash_completion(root));
  write(folder / "_lyre", zsh_completion(root));
  write(folder / "lyre.fish", fish_completion(root));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 3) throw std::runtime_error("usage: lyre_documents FOLDER PAGE...");
    write_documents(argv[1], {argv + 2, argv + argc});
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "lyre_documents: " << error.what() << std::endl;
    return 1;
  }
}
