#include "tools/lyre/documents/completion.h"

#include <algorithm>
#include <functional>

namespace lyre::tools {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

void for_each(const CommandText& command, const std::function<void(const CommandText&)>& visit) {
  visit(command);
  for (const CommandText& below : command.commands) for_each(below, visit);
}

std::vector<std::string> names_of(const std::vector<CommandText>& commands) {
  std::vector<std::string> out;
  for (const CommandText& command : commands) out.push_back(command.name());
  return out;
}

/// The options of a command and, as they are taken anywhere, those of `lyre`.
std::vector<OptionText> options_of(const CommandText& root, const CommandText& command) {
  std::vector<OptionText> out = command.options;
  if (&root == &command) return out;
  for (const OptionText& option : root.options) {
    const bool is_there = std::any_of(out.begin(), out.end(), [&option](const OptionText& own) {
      return own.long_name() == option.long_name();
    });
    if (!is_there && option.long_name() != "--version") out.push_back(option);
  }
  return out;
}

/// What may stand where no option is: commands, or the words of an argument.
std::vector<std::string> words_of(const CommandText& command) {
  std::vector<std::string> out = names_of(command.commands);
  for (const ArgumentText& argument : command.arguments) {
    out.insert(out.end(), argument.choices.begin(), argument.choices.end());
  }
  return out;
}

constexpr const char* kBashHead = R"(# bash completion for lyre, made from the command line's tables
_lyre() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
  local path=lyre words options takes i
  for ((i = 1; i <= COMP_CWORD; ++i)); do
    _lyre_table "$path"
    [ "$i" -lt "$COMP_CWORD" ] || break
    if [[ " $takes " == *" ${COMP_WORDS[i]} "* ]]; then
      ((++i))
    elif [[ " $words " == *" ${COMP_WORDS[i]} "* ]]; then
      path+=" ${COMP_WORDS[i]}"
    fi
  done
  case "$path $prev" in
)";

constexpr const char* kBashTail = R"(  esac
  if [[ " $takes " == *" $prev "* ]]; then
    COMPREPLY=($(compgen -f -- "$cur"))
  elif [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$cur"))
  else
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
  fi
}
complete -o filenames -F _lyre lyre
)";

/// Inside single quotes of a shell.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

/// Inside a specification of zsh's _arguments, where brackets and colons divide.
std::string spec_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_option(const OptionText& option) {
  std::string value;
  if (!option.value.empty()) {
    const std::string action = option.choices.empty() ? (option.value == "PATH" ? "_files" : " ")
                                                      : "(" + joined(option.choices) + ")";
    value = (option.is_value_optional ? "::" : ":") + option.value + ":" + action;
  }
  std::string out;
  for (const std::string& name : option.names) {
    out += " \\\n    " + quoted(name + "[" + spec_text(option.text) + "]" + value);
  }
  return out;
}

std::string zsh_function(const CommandText& root, const CommandText& command) {
  const std::string name = "_" + command.joined("_");
  std::string out = name + "() {\n  local curcontext=$curcontext state line\n  _arguments -C";
  for (const OptionText& option : options_of(root, command)) out += zsh_option(option);
  if (command.commands.empty()) {
    const std::vector<std::string> words = words_of(command);
    out += words.empty() ? "" : " \\\n    " + quoted("*:word:(" + joined(words) + ")");
    return out + "\n}\n";
  }
  out += " \\\n    '1:command:->command' \\\n    '*::argument:->argument'\n";
  out += "  case $state in\n    command)\n      local -a commands=(";
  for (const CommandText& below : command.commands) {
    out += "\n        " + quoted(below.name() + ":" + spec_text(below.text));
  }
  out += ")\n      _describe command commands ;;\n    argument)\n      case $line[1] in\n";
  for (const CommandText& below : command.commands) {
    out += "        " + below.name() + ") _" + below.joined("_") + " ;;\n";
  }
  return out + "      esac ;;\n  esac\n}\n";
}

/// True where the command and none below it was typed.
std::string fish_condition(const CommandText& command) {
  std::string out;
  for (size_t i = 1; i < command.path.size(); ++i) {
    out += (out.empty() ? "" : "; and ") + ("__fish_seen_subcommand_from " + command.path[i]);
  }
  const std::string below = joined(names_of(command.commands));
  if (below.empty()) return out;
  return out + (out.empty() ? "" : "; and ") + "not __fish_seen_subcommand_from " + below;
}

std::string fish_option(const OptionText& option, const std::string& condition) {
  std::string out = "complete -c lyre";
  if (!condition.empty()) out += " -n " + quoted(condition);
  for (const std::string& name : option.names) {
    out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  if (option.value == "PATH")
    out += " -r -F";
  else if (option.takes_word())
    out += " -x";
  if (!option.choices.empty()) out += " -a " + quoted(joined(option.choices));
  return out + " -d " + quoted(option.text) + "\n";
}

}  // namespace

std::string bash_completion(const CommandText& root) {
  std::string out = kBashHead;
  std::string table = "_lyre_table() {\n  case $1 in\n";
  for_each(root, [&](const CommandText& command) {
    std::vector<std::string> options;
    std::vector<std::string> takes;
    for (const OptionText& option : options_of(root, command)) {
      options.insert(options.end(), option.names.begin(), option.names.end());
      if (option.takes_word()) takes.insert(takes.end(), option.names.begin(), option.names.end());
      if (option.choices.empty()) continue;
      out += "    " + quoted(command.joined(" ") + " " + option.long_name()) +
             ") COMPREPLY=($(compgen -W " + quoted(joined(option.choices)) +
             " -- \"$cur\")); return ;;\n";
    }
    table += "    " + quoted(command.joined(" ")) +
             ")\n      words=" + quoted(joined(words_of(command))) +
             "\n      options=" + quoted(joined(options)) +
             "\n      takes=" + quoted(joined(takes)) + " ;;\n";
  });
  return out + kBashTail + table + "  esac\n}\n";
}

std::string zsh_completion(const CommandText& root) {
  std::string out = "#compdef lyre\n# Made from the command line's tables.\n";
  for_each(root, [&](const CommandText& command) {
    if (command.path.size() > 1) out += zsh_function(root, command);
  });
  return out + zsh_function(root, root) + "_lyre \"$@\"\n";
}

std::string fish_completion(const CommandText& root) {
  std::string out = "# fish completion for lyre, made from the command line's tables\n";
  out += "complete -c lyre -f\n";
  for (const OptionText& option : root.options) out += fish_option(option, "");
  for_each(root, [&](const CommandText& command) {
    const std::string condition = fish_condition(command);
    for (const CommandText& below : command.commands) {
      out += "complete -c lyre -n " + quoted(condition) + " -a " + below.name() + " -d " +
             quoted(below.text) + "\n";
    }
    for (const ArgumentText& argument : command.arguments) {
      if (argument.choices.empty()) continue;
      out += "complete -c lyre -n " + quoted(condition) + " -a " +
             quoted(joined(argument.choices)) + "\n";
    }
    if (command.path.size() == 1) return;
    for (const OptionText& option : command.options) {
      // The help option of `lyre` is completed everywhere.
      if (option.long_name() != "--help") out += fish_option(option, condition);
    }
  });
  return out;
}

}  // namespace lyre::tools
