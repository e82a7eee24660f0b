#include "tools/lyre/allreduce.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <memory>

#include "tools/lyre/allreduce/failure.h"
#include "tools/lyre/allreduce/hub.h"
#include "tools/lyre/allreduce/options.h"
#include "tools/lyre/allreduce/rank.h"
#include "tools/lyre/allreduce/report.h"

namespace lyre::tools {
namespace {

using namespace lyre::allreduce;

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;

[[noreturn]] void end_with(int code, const std::string& line) {
  std::cerr << "lyre allreduce: " << line << std::endl;
  throw CLI::RuntimeError(code);
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

void apply_quick(Options* options, bool has_models, bool has_iterations) {
  if (!options->quick) return;
  if (!has_iterations) options->iterations = 1;
  if (!has_models) options->models = {"resnet50"};
}

void run(const Options& options) {
  if (options.rank_process_fd >= 0) throw CLI::RuntimeError(run_rank(options.rank_process_fd));
  catch_interrupts();
  Machine machine;
  try {
    machine = make_machine(options);
    if (options.join.empty() && options.listen.empty() && machine.local_ranks < options.ranks) {
      throw Failure("--local-ranks needs --listen or --join");
    }
  } catch (const Failure& failure) {
    end_with(kExitUsage, failure.what());
  }
  try {
    if (!options.join.empty()) throw CLI::RuntimeError(run_joined(options, machine));
    const Report report = run_hub(options, machine);
    if (options.json) {
      std::cout << to_json(report).dump(2) << std::endl;
    } else {
      print_table(report, std::cout);
    }
  } catch (const CLI::RuntimeError&) {
    throw;
  } catch (const std::exception& failure) {
    end_with(kExitFailure, failure.what());
  }
}

void add_placement_options(CLI::App& command, Options& options) {
  command.add_option("--ranks", options.ranks, "ranks in all")->check(CLI::Range(2, 8));
  command
      .add_option("--host", options.hosts,
                  "NAME=SOCKET: a host and the socket of its daemon (NAME alone: it has none); "
                  "give two or more")
      ->take_all();
  command
      .add_option("--placement", options.placement,
                  "spread: ranks go to the hosts in turn; block: host after host")
      ->check(CLI::IsMember({"spread", "block"}));
  command.add_option("--listen", options.listen,
                     "ADDR:PORT: wait there for the launchers of other machines");
  command
      .add_option("--join", options.join,
                  "ADDR:PORT: run ranks for the launcher that listens there")
      ->excludes("--listen");
  command.add_option("--local-ranks", options.local_ranks, "ranks of this machine")
      ->check(CLI::Range(1, 8));
}

void add_work_options(CLI::App& command, Options& options) {
  command.add_option("--model", options.models, "models whose gradients are reduced")->take_all();
  command
      .add_option("--bytes", options.bytes,
                  "sizes to reduce instead of models, as 4MiB or 65536; may be given several times")
      ->transform(CLI::AsSizeValue(false))
      ->take_all();
  command.add_option("--iterations", options.iterations, "measured passes, after one warm-up")
      ->check(CLI::Range(1, 100'000));
  command.add_option("--seed", options.seed, "of the input values");
  command.add_flag("--quick", options.quick, "ResNet-50 only, one iteration");
}

void add_network_options(CLI::App& command, Options& options) {
  command.add_option("--plugin", options.plugin, "NCCL net plugin: a path or a library's name");
  command.add_option("--abi", options.abi, "take ncclNetPlugin_vN instead of the newest")
      ->check(CLI::Range(8, 12));
  command.add_option("--channels", options.channels, "rings side by side")
      ->check(CLI::Range(1, 32));
  command
      .add_option("--slice-steps", options.slice_steps,
                  "512 KiB slots a message: 2 (four in flight) or 1 (eight in flight)")
      ->check(CLI::Range(1, 2));
  command.add_option("--protocol", options.protocol, "NCCL's wire protocol; auto: by size")
      ->check(CLI::IsMember({"auto", "simple", "ll"}));
  command.add_flag("--device-thread", options.device_thread,
                   "reduce on a thread of its own instead of the proxy's");
  command.add_flag("--no-kernel", options.no_kernel, "do not measure kernel TCP");
  command.add_option("--kernel-plugin", options.kernel_plugin, "path of libnccl-net-kernel.so");
  command
      .add_option("--kernel-addr", options.kernel_addresses,
                  "NAME=ADDR: that host's address for kernel TCP (default 127.0.0.1)")
      ->take_all();
  command
      .add_option("--kernel-netns", options.kernel_netns,
                  "NAME=NETNS: the network namespace of that host for kernel TCP")
      ->take_all();
}

void add_output_options(CLI::App& command, Options& options) {
  command.add_flag("--json", options.json, "print the result as JSON");
  command.add_flag("--verbose", options.verbose, "show what the plugins log");
  command.add_option("--timeout", options.timeout_s, "seconds for the whole command")
      ->check(CLI::Range(1, 86'400));
  command
      .add_option("--stall-timeout", options.stall_timeout_s, "seconds in which something moves")
      ->check(CLI::Range(1, 86'400));
  command.add_option("--connect-timeout", options.connect_timeout_s, "seconds for a connection")
      ->check(CLI::Range(1, 3'600));
  command.add_option("--rank-process", options.rank_process_fd, "")->group("");
}

}  // namespace

void add_allreduce(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "allreduce", "all-reduce the gradients of real models through the NCCL plugin, verified");
  add_placement_options(*command, *options);
  add_work_options(*command, *options);
  add_network_options(*command, *options);
  add_output_options(*command, *options);
  command->callback([&app, command, options] {
    // `lyre --json allreduce` is as good as `lyre allreduce --json`.
    const CLI::Option* global = app.get_option_no_throw("--json");
    options->json = options->json || (global != nullptr && global->count() > 0);
    apply_quick(options.get(), command->count("--model") > 0, command->count("--iterations") > 0);
    run(*options);
  });
}

}  // namespace lyre::tools
