#include "tools/lyre/top.h"

#include <map>
#include <memory>
#include <string>

#include "tools/lyre/top/run.h"
#include "tools/lyre/value_checks.h"

namespace lyre::tools {

void add_top(CLI::App& app, const GlobalOptions& globals) {
  CLI::App* command = app.add_subcommand(
      "top", "Workers, ports, clients and sessions on a full screen; key q ends it, s sorts");
  auto options = std::make_shared<TopOptions>();
  command->add_option("--interval", options->interval_s, "Seconds between two looks")
      ->check(seconds_between(0.1, 3600))
      ->type_name("SECONDS")
      ->capture_default_str();
  command->callback([&globals, options] { run_top(globals, *options); });
}

}  // namespace lyre::tools
