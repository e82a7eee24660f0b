#include "tools/lyre/documents/lyred_pages.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

#include "daemon/command_line.h"
#include "daemon/config/config_keys.h"
#include "tools/lyre/documents/command_text.h"
#include "tools/lyre/documents/roff.h"

namespace lyre::tools {
namespace {

constexpr const char* kService = R"(.PP
The service
.B lyred.service
runs it as user
.BR lyre .
The packages do not start the service: the configuration that they install has no port.
.B lyred@.service
is its template for several daemons: the instance
.I NAME
reads
.IR /etc/lyre/NAME.toml .
)";

constexpr const char* kSignalsAndStatus = R"(.SH SIGNALS
.TP
.B SIGTERM, SIGINT
Stop: sessions are reset, ports are closed.
.TP
.B SIGHUP
Read the configuration again.
.B daemon.log_level
takes effect, except on DPDK's log; every other key needs an upgrade or a restart.
.SH EXIT STATUS
.TP
.B 0
It was asked to stop, or
.B \-\-check
found nothing wrong, or
.B \-\-upgrade
was done.
.TP
.B 1
It could not start, or a worker hung while it stopped, or
.B \-\-upgrade
was refused: the running daemon goes on as it was.
What only an opened device shows is of this kind: a NIC that is not bound, an MTU above the
device's, fewer queue pairs than workers.
The service starts it again.
.TP
.B 2
The command line or the configuration is wrong, or a privilege is missing that a port needs, or
.B \-\-check
found something wrong.
The service does not start it again.
)";

constexpr const char* kFiles = R"(.SH FILES
.TP
.I /etc/lyre/lyred.toml
The configuration, see
.BR lyred.toml (5).
.TP
.I /run/lyre/lyred.sock
The control socket, through which programs reach the stack.
.TP
.I /run/lyred
Sockets of memif ports, and DPDK's files.
.TP
.I /usr/share/lyre/lyred.service.d
Drop\-ins of the service, by kind of port.
.SH SEE ALSO
.BR lyre (1),
.BR lyre\-doctor (1),
.BR lyred.toml (5)
)";

constexpr const char* kConfigText = R"(.SH DESCRIPTION
The file is TOML.
A section in double brackets may stand several times: once for each port, route or domain.
At least one port is needed, all other keys have defaults.
An unknown key or section is an error.
.PP
.B lyred \-\-check
reads the file and compares it with the machine.
)";

constexpr const char* kConfigEnd = R"(.SH EXAMPLES
A NIC, with a router to other networks:
.PP
.EX
[[port]]
name = "rail0"
device = "0000:00:06.0"
address = "10.9.0.1/24"
gateway = "10.9.0.254"
.EE
.SH FILES
.I /etc/lyre/lyred.toml
.SH SEE ALSO
.BR lyred (8),
.BR lyre\-doctor (1)
)";

struct SectionText {
  std::string_view name;
  std::string_view text;
};

constexpr SectionText kSections[] = {
    {"daemon", "The daemon and its control socket."},
    {"workers", "The threads that run the stack."},
    {"memory", "Packet memory."},
    {"port", "A NIC, or a virtual port, that the daemon takes. At least one is needed."},
    {"route", "A network behind another router than a port's gateway."},
    {"domain", "Clients that trust each other. Without any, all clients are one domain."},
    {"tcp", "TCP, for all connections."},
    {"clients", "What clients may have."},
};

std::string section_head(std::string_view section) {
  const auto text = std::find_if(std::begin(kSections), std::end(kSections),
                                 [section](const SectionText& one) { return one.name == section; });
  const bool is_array = section == "port" || section == "route" || section == "domain";
  const std::string name(section);
  std::string out = ".SH " + (is_array ? "[[" + name + "]]" : "[" + name + "]") + "\n";
  return text == std::end(kSections) ? out : out + sentence(std::string(text->text)) + "\n";
}

std::string key_item(const Key& key) {
  std::string out = ".TP\n\\fB" + escaped(std::string(key.name)) + "\\fR\n" +
                    sentence(std::string(key.help)) + "\n";
  out += "Allowed: " + escaped(allowed_text(key)) + ".\n";
  if (key.default_toml.empty()) return out + "Required.\n";
  return out + "Default: " + escaped(std::string(key.default_toml)) + ".\n";
}

}  // namespace

std::string lyred_page() {
  CLI::App app;
  DaemonOptions options;
  define_daemon_command_line(app, options);
  const CommandText command = describe(app);
  std::string out = page_head("lyred", 8, command.text);
  out += ".SH SYNOPSIS\n\\fBlyred\\fR [\\fIoption\\fR...]\n.SH DESCRIPTION\n" +
         sentence(command.text) + "\n" + kService + ".SH OPTIONS\n";
  for (const OptionText& option : command.options) out += option_item(option);
  return out + kSignalsAndStatus + kFiles;
}

std::string config_page() {
  std::string out = page_head("lyred.toml", 5, "configuration of the Lyre daemon");
  out += ".SH SYNOPSIS\n.I /etc/lyre/lyred.toml\n";
  out += kConfigText;
  std::string_view section;
  for (const Key& key : config_keys()) {
    if (key.section != section) out += section_head(key.section);
    section = key.section;
    out += key_item(key);
  }
  return out + kConfigEnd;
}

}  // namespace lyre::tools
