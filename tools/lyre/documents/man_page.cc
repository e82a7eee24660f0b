#include "tools/lyre/documents/man_page.h"

#include <algorithm>
#include <cctype>

#ifndef LYRE_VERSION
#error "the build names version and date"
#endif

namespace lyre::tools {
namespace {

constexpr const char* kExitStatus = R"(.SH EXIT STATUS
.TP
.B 0
Done.
.TP
.B 1
Failed.
.TP
.B 2
Wrong use: an unknown command, option or value.
.TP
.B 3
No daemon at the socket, or no permission to open it.
A watch ends with it when the daemon ends.
)";

constexpr const char* kEnvironment = R"(.SH ENVIRONMENT
.TP
.B LYRE_SOCKET
The daemon's socket, where
.B \-\-socket
is not given.
)";

/// Text of a line of roff: no character of it is a command.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if ((c == '.' || c == '\'') && out.empty()) {
      out += std::string("\\&") + c;
    } else {
      out += c;
    }
  }
  return out;
}

/// A sentence that ends.
std::string sentence(const std::string& text) {
  std::string out = escaped(text);
  if (!out.empty()) out[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(out[0])));
  return out.empty() || out.back() == '.' ? out : out + ".";
}

std::string words(const std::vector<std::string>& choices) {
  std::string out;
  for (const std::string& choice : choices) {
    out += (out.empty() ? "" : ", ") + ("\\fB" + escaped(choice) + "\\fR");
  }
  return out;
}

std::string option_item(const OptionText& option) {
  std::string out = ".TP\n";
  std::string names;
  for (const std::string& name : option.names) {
    names += (names.empty() ? "" : ", ") + ("\\fB" + escaped(name) + "\\fR");
  }
  if (!option.value.empty()) {
    const std::string value = "\\fI" + escaped(option.value) + "\\fR";
    names += option.is_value_optional ? " [" + value + "]" : " " + value;
  }
  out += names + "\n" + sentence(option.text) + "\n";
  if (!option.choices.empty()) out += "One of " + words(option.choices) + ".\n";
  if (!option.default_value.empty()) {
    out += "Default: " + escaped(option.default_value) + ".\n";
  }
  return out;
}

std::string arguments_of(const CommandText& command) {
  std::string out;
  for (const ArgumentText& argument : command.arguments) {
    const std::string name = "\\fI" + escaped(argument.name) + "\\fR";
    out += argument.is_required ? " " + name : " [" + name + "]";
  }
  return out;
}

std::string synopsis(const CommandText& command) {
  std::string out = "\\fB" + escaped(command.joined(" ")) + "\\fR";
  if (!command.options.empty()) out += " [\\fIoption\\fR...]";
  if (!command.commands.empty()) out += " \\fIcommand\\fR [\\fIargument\\fR...]";
  return out + arguments_of(command) + "\n";
}

std::string items_of(const CommandText& command) {
  std::string out;
  for (const ArgumentText& argument : command.arguments) {
    out += ".TP\n\\fI" + escaped(argument.name) + "\\fR\n" + sentence(argument.text) + "\n";
  }
  for (const OptionText& option : command.options) out += option_item(option);
  return out;
}

/// Commands below one that has a page: a part of that page.
std::string nested_commands(const CommandText& command) {
  std::string out;
  for (const CommandText& nested : command.commands) {
    out += ".SS " + escaped(nested.joined(" ")) + escaped("") + "\n";
    out += synopsis(nested) + ".PP\n" + sentence(nested.text) + "\n" + items_of(nested);
  }
  return out.empty() ? "" : ".SH COMMANDS\n" + out;
}

std::string list_of_pages(const CommandText& root) {
  std::string out = ".SH COMMANDS\nEach command has a page of its own.\n";
  for (const CommandText& command : root.commands) {
    out += ".TP\n.BR " + escaped(man_page_name(command)) + " (1)\n" + sentence(command.text) + "\n";
  }
  return out;
}

std::string see_also(const CommandText& root, const CommandText& command) {
  const bool is_root = command.path.size() == 1;
  const CommandText& first = root.commands.front();
  return ".SH SEE ALSO\n.BR " + (is_root ? escaped(man_page_name(first)) : "lyre") + " (1)\n";
}

}  // namespace

std::string man_page_name(const CommandText& command) { return command.joined("-"); }

std::string man_page(const CommandText& root, const CommandText& command) {
  const bool is_root = command.path.size() == 1;
  std::string title = man_page_name(command);
  std::transform(title.begin(), title.end(), title.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  std::string out = ".\\\" Made from the command line's tables.\n";
  out += ".TH " + escaped(title) + " 1 \"" LYRE_DATE "\" \"Lyre " LYRE_VERSION "\"\n";
  out += ".SH NAME\n" + escaped(man_page_name(command)) + " \\- " + escaped(command.text) + "\n";
  out += ".SH SYNOPSIS\n" + synopsis(command);
  out += ".SH DESCRIPTION\n" + sentence(command.text) + "\n";
  out += ".SH OPTIONS\n" + items_of(command);
  if (!is_root) {
    for (const OptionText& option : root.options) {
      const bool is_own = std::any_of(
          command.options.begin(), command.options.end(),
          [&option](const OptionText& own) { return own.long_name() == option.long_name(); });
      if (!is_own && option.long_name() != "--version") out += option_item(option);
    }
  }
  out += is_root ? list_of_pages(root) : nested_commands(command);
  return out + kExitStatus + kEnvironment + see_also(root, command);
}

}  // namespace lyre::tools
