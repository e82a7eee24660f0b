#include "daemon/command_line.h"

#include "daemon/memory/helper_program.h"

namespace lyre {

void define_daemon_command_line(CLI::App& app, DaemonOptions& options) {
  app.name("lyred");
  app.description("The Lyre daemon: a user-space TCP stack for the programs of this machine");
  app.add_option("--config", options.config_path, "Configuration file")
      ->type_name("PATH")
      ->capture_default_str();
  app.add_flag("--check", options.only_check, "Check the configuration and this machine, and exit");
  app.add_flag("--upgrade", options.only_upgrade,
               "Have the running daemon of this configuration go on in a new process, as `lyre "
               "upgrade` does, and exit")
      ->excludes("--check");
  app.add_flag("--take-over", options.takes_over)->group("");  // for the daemon itself
  app.add_flag(kMappingHelperArgument, options.is_memory_helper)->group("");  // likewise
  app.add_option("--check-nics", options.nics_to_check)->group("");           // for `lyre`
  app.set_version_flag("--version", "lyred " LYRE_VERSION);
}

}  // namespace lyre
