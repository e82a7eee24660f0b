#include "tools/lyre/documents/man_page.h"

#include <algorithm>

#include "tools/lyre/documents/roff.h"

namespace lyre::tools {
namespace {

constexpr const char* kExitStatus = R"(.SH EXIT STATUS
.TP
.B 0
Done.
.TP
.B 1
Failed, or standard output could not be written.
A reader that closed the pipe is no failure.
.TP
.B 2
Wrong use: an unknown command, option or value.
.TP
.B 3
No daemon at the socket, no permission to open it, a daemon that does not speak with this
.B lyre
or has disconnected it, or one that does not answer for two seconds, as during a long upgrade.
A watch ends with it, too, when the daemon ends or does not answer for so long.
.TP
.B 4
A daemon of another release answers, whose statistics this
.B lyre
cannot read, or left what
.B \-\-last
should show.
)";

constexpr const char* kEnvironment = R"(.SH ENVIRONMENT
.TP
.B LYRE_SOCKET
The daemon's socket, where
.B \-\-socket
is not given.
.TP
.B LYRE_TELEMETRY_DIR
The directory in which
.BR lyre\-comms (1)
and
.BR lyre\-metrics (1)
look for what NCCL's plugin writes, where
.B \-\-directory
is not given.
.PP
Each other variable that begins with LYRE_ and that no program of Lyre reads is named in a warning.
)";

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
  return ".SH SEE ALSO\n.BR " + (is_root ? escaped(man_page_name(first)) : "lyre") +
         " (1),\n.BR lyred (8)\n";
}

}  // namespace

std::string man_page_name(const CommandText& command) { return command.joined("-"); }

std::string man_page(const CommandText& root, const CommandText& command) {
  const bool is_root = command.path.size() == 1;
  std::string out = page_head(man_page_name(command), 1, command.text);
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
