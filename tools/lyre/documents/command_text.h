#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

/// The command line of `lyre` as plain data, from which its manual pages and completions are made.
namespace lyre::tools {

struct OptionText {
  std::vector<std::string> names;  ///< "-V", "--version": at least one, the long ones last
  std::string value;               ///< what follows it, such as "SECONDS"; empty: a flag
  bool is_value_optional = false;
  std::vector<std::string> choices;  ///< the values that are allowed; empty: any
  std::string text;
  std::string default_value;

  const std::string& long_name() const { return names.back(); }
  /// A word that follows always belongs to the option.
  bool takes_word() const { return !value.empty() && !is_value_optional; }
};

struct ArgumentText {
  std::string name;
  std::string text;
  bool is_required = false;
  std::vector<std::string> choices;
};

struct CommandText {
  std::vector<std::string> path;  ///< "lyre", "perf", "client"
  std::string text;
  std::vector<OptionText> options;
  std::vector<ArgumentText> arguments;
  std::vector<CommandText> commands;

  std::string name() const { return path.back(); }
  /// The words of the path with `separator` between them.
  std::string joined(const char* separator) const;
};

/// Describes a command and all below it. What is hidden from help is left out.
CommandText describe(const CLI::App& app, const std::vector<std::string>& parents = {});

}  // namespace lyre::tools
