#include "tools/lyre/command_line.h"

#include <string>

#include "libclient/include/lyre/lyre.h"
#include "tools/lyre/allreduce.h"
#include "tools/lyre/doctor.h"
#include "tools/lyre/help.h"
#include "tools/lyre/look_commands.h"
#include "tools/lyre/metrics.h"
#include "tools/lyre/nic.h"
#include "tools/lyre/pcap.h"
#include "tools/lyre/perf.h"
#include "tools/lyre/top.h"
#include "tools/lyre/upgrade.h"

namespace lyre::tools {

void define_command_line(CLI::App& app, GlobalOptions& globals) {
  app.name("lyre");
  app.description("Shows the state of the Lyre network stack, and measures it");
  app.set_version_flag("-V,--version", std::string("lyre ") + lyre_version());
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--socket", globals.socket_path,
                 "The daemon's socket ($LYRE_SOCKET, /run/lyre/lyred.sock)")
      ->type_name("PATH");
  app.add_flag("--json", globals.is_json, "Print JSON");
  add_look_commands(app, globals);
  add_top(app, globals);
  add_pcap(app, globals);
  add_doctor(app, globals);
  add_nic(app, globals);
  add_perf(app, globals);
  add_allreduce(app, globals);
#ifdef LYRE_HAS_METRICS
  add_metrics(app, globals);
#endif
  add_upgrade(app, globals);
  add_help(app, globals);
}

}  // namespace lyre::tools
