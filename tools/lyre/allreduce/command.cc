#include "tools/lyre/allreduce/command.h"

#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "tools/lyre/allreduce/failure.h"
#include "tools/lyre/allreduce/hub.h"
#include "tools/lyre/allreduce/rank.h"
#include "tools/lyre/allreduce/report.h"
#include "tools/lyre/failure.h"

namespace lyre::allreduce {
namespace {

int fail(int exit_code, const std::string& line) {
  std::cerr << "lyre allreduce: " << line << std::endl;
  return exit_code;
}

/// One line on a terminal that is overwritten while the job runs; nothing elsewhere.
class ProgressLine {
 public:
  ~ProgressLine() {
    if (shown_) std::fputs("\r\033[K", stderr);
  }
  void show(const std::string& transport, const nlohmann::json& progress) {
    if (::isatty(STDERR_FILENO) == 0) return;
    shown_ = true;
    std::fprintf(stderr, "\r\033[K%s: iteration %u, bucket %u of %u", transport.c_str(),
                 progress.value("iteration", 0U), progress.value("bucket", 0U) + 1,
                 progress.value("buckets", 0U));
    std::fflush(stderr);
  }

 private:
  bool shown_ = false;
};

Measurement run_transport(Hub& hub, Job job, const char* transport) {
  ProgressLine line;
  job.transport = transport;
  return measure(
      job, hub.run(job, [&](const nlohmann::json& progress) { line.show(transport, progress); }));
}

Report run_hub(const Options& options, const Machine& machine) {
  const Job job = make_job(options, make_buckets(options));
  Hub hub(options, machine);
  Report report{.hosts = hub.hosts_by_rank(),
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
  Machine machine;
  try {
    machine = make_machine(options);
    if (options.join.empty() && options.listen.empty() && machine.local_ranks < options.ranks) {
      throw Failure("--local-ranks needs --listen or --join");
    }
  } catch (const Failure& failure) {
    return fail(tools::kExitUsage, failure.what());
  }
  try {
    if (!options.join.empty()) return run_joined(options, machine);
    const Report report = run_hub(options, machine);
    if (options.json) {
      std::cout << to_json(report).dump(2) << std::endl;
    } else {
      print_table(report, std::cout);
    }
    return 0;
  } catch (const std::exception& failure) {
    return fail(tools::kExitFailure, failure.what());
  }
}

}  // namespace lyre::allreduce
