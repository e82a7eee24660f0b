#include "tools/lyre/allreduce/command.h"

#include <iostream>
#include <nlohmann/json.hpp>

#include "tools/lyre/allreduce/failure.h"
#include "tools/lyre/allreduce/hub.h"
#include "tools/lyre/allreduce/rank.h"
#include "tools/lyre/allreduce/report.h"
#include "tools/lyre/failure.h"
#include "tools/lyre/progress_line.h"

namespace lyre::allreduce {
namespace {

int fail(int exit_code, const std::string& line) {
  std::cerr << "lyre allreduce: " << line << std::endl;
  return exit_code;
}

std::string progress_text(const char* transport, const nlohmann::json& progress) {
  return std::string(transport) + ": iteration " + std::to_string(progress.value("iteration", 0U)) +
         ", bucket " + std::to_string(progress.value("bucket", 0U) + 1) + " of " +
         std::to_string(progress.value("buckets", 0U));
}

Measurement run_transport(Hub& hub, Job job, const char* transport) {
  tools::ProgressLine line;
  job.transport = transport;
  const auto show = [&](const nlohmann::json& progress) {
    line.show(progress_text(transport, progress));
  };
  return measure(job, hub.run(job, show));
}

Report run_hub(const Options& options, const Machine& machine) {
  const Job job = make_job(options, make_buckets(options));
  Hub hub(options, machine);
  Report report{.collective = job.collective,
                .hosts = hub.hosts_by_rank(),
                .buckets = job.buckets,
                .iterations = job.iterations,
                .seed = job.seed,
                .plugin = run_transport(hub, job, kTransportPlugin),
                .kernels = {}};
  check_daemon_counters(report.hosts, report.plugin.ranks);
  if (!options.no_kernel) {
    for (const char* transport : {kTransportKernelOne, kTransportKernelStriped}) {
      report.kernels.push_back(run_transport(hub, job, transport));
    }
  }
  hub.finish(0);
  return report;
}

}  // namespace

int run_command(const Options& options) {
  if (options.rank_process_fd >= 0) return run_rank(options.rank_process_fd);
  catch_interrupts();
  try {
    const Machine machine = make_machine(options);
    // Before it waits for other machines. Each rank asks its daemon, too.
    if (!options.listen.empty() || !options.join.empty()) check_daemons(machine);
    if (!options.join.empty()) return run_joined(options, machine);
    const Report report = run_hub(options, machine);
    if (options.json) {
      print_json(report, std::cout);
    } else {
      print_table(report, std::cout);
    }
    return 0;
  } catch (const tools::Failure& failure) {
    return fail(failure.exit_code(), failure.what());
  } catch (const std::exception& error) {
    return fail(tools::kExitFailure, error.what());
  }
}

}  // namespace lyre::allreduce
