#include "tools/lyre/metrics.h"

#include <memory>

#include "tools/lyre/comms.h"
#include "tools/lyre/metrics/exporter.h"

namespace lyre::tools {

void add_metrics(CLI::App& app, const GlobalOptions& globals) {
  CLI::App* command = app.add_subcommand("metrics", "Serve the counters to Prometheus");
  auto options = std::make_shared<MetricsOptions>();
  auto directory = std::make_shared<std::string>();
  command
      ->add_option("--listen", options->listen,
                   "Where to serve /metrics: ADDR:PORT, or the path of a UNIX socket")
      ->type_name("ADDRESS")
      ->capture_default_str();
  command->add_option("--directory", *directory, kTelemetryDirectoryHelp)
      ->type_name("PATH")
      ->envname("LYRE_TELEMETRY_DIR");
  command->add_flag("--per-comm", options->is_per_comm,
                    "Serve lyre_comm_* of each connection of NCCL, too: 12 series for each, under "
                    "new names with each job");
  command->add_flag("--once", options->is_once, "Print what a scrape gets, and end");
  command->callback([&globals, options, directory] {
    refuse_json(globals, "metrics");
    check_telemetry_directory(*directory);
    options->telemetry_directories = telemetry_directories(*directory);
    run_metrics(globals, *options);
  });
}

}  // namespace lyre::tools
