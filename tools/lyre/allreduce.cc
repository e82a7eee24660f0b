#include "tools/lyre/allreduce.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "tools/lyre/allreduce/command.h"
#include "tools/lyre/value_checks.h"

namespace lyre::tools {
namespace {

using lyre::allreduce::kAllReduce;
using lyre::allreduce::kRanksMax;
using lyre::allreduce::kSendRecv;
using lyre::allreduce::Options;

constexpr uint64_t kBucketBytesMax = uint64_t{1} << 40;

void apply_quick(Options* options, bool has_models, bool has_iterations) {
  if (!options->quick) return;
  if (!has_iterations) options->iterations = 1;
  if (!has_models) options->models = {"resnet50"};
}

void add_placement_options(CLI::App& command, Options& options) {
  command.add_option("--ranks", options.ranks, "number of ranks")
      ->check(count_between(2, kRanksMax));
  command
      .add_option(
          "--host", options.hosts,
          "NAME=SOCKET: a host and the socket of its daemon (NAME alone: without a daemon); "
          "repeated for each host")
      ->take_all();
  command
      .add_option("--placement", options.placement,
                  "spread: rank by rank to the next host; block: all ranks of a host in a row")
      ->check(CLI::IsMember({"spread", "block"}));
  command.add_option("--listen", options.listen,
                     "ADDR:PORT: wait there until other machines have joined");
  command
      .add_option("--join", options.join, "ADDR:PORT: run ranks for the command that listens there")
      ->excludes("--listen");
  command.add_option("--local-ranks", options.local_ranks, "ranks on this machine")
      ->check(count_between(1, kRanksMax));
  command.add_flag("--setsid", options.own_sessions,
                   "start each rank of this machine in a session of its own, as a service has; "
                   "Linux's scheduler takes it for a group (autogroup)");
}

void add_work_options(CLI::App& command, Options& options) {
  command
      .add_option("--collective", options.collective,
                  "sendrecv: each rank sends to the next one and receives from the one before")
      ->check(CLI::IsMember({kAllReduce, kSendRecv}));
  command.add_option("--model", options.models, "models whose gradients are reduced")->take_all();
  command
      .add_option("--bytes", options.bytes,
                  "size to use instead of models, as 4MiB or 65536; may be repeated")
      ->transform(size_between(4, kBucketBytesMax))
      ->take_all();
  command
      .add_option("--iterations", options.iterations, "measured passes; one warm-up comes first")
      ->check(count_between(1, 100'000));
  command
      .add_option("--rest-ms", options.rest_ms,
                  "rest for this time to twice this time before each measured collective")
      ->check(count_between(0, 10'000));
  command.add_option("--seed", options.seed, "seed of the input values")
      ->check(count_between(0, UINT64_MAX));
  command.add_flag("--quick", options.quick, "ResNet-50 only, one iteration");
}

void add_network_options(CLI::App& command, Options& options) {
  command.add_option("--plugin", options.plugin, "NCCL net plugin: a path or a library's name");
  command.add_option("--abi", options.abi, "use ncclNetPlugin_vN instead of the newest version")
      ->check(count_between(8, 12));
  command.add_option("--channels", options.channels, "number of rings")
      ->check(count_between(1, 32));
  command
      .add_option(
          "--slice-steps", options.slice_steps,
          "all-reduce: 512 KiB slots of a message: 2 (four messages in flight) or 1 (eight)")
      ->check(count_between(1, 2));
  command.add_option("--protocol", options.protocol, "NCCL's wire protocol; auto chooses by size")
      ->check(CLI::IsMember({"auto", "simple", "ll"}));
  command.add_flag("--device-thread", options.device_thread,
                   "reduce on a separate thread, not on the progress thread");
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
  command.add_flag("--verbose", options.verbose, "print the plugins' log");
  command.add_option("--timeout", options.timeout_s, "end after this many seconds")
      ->check(count_between(1, 86'400));
  command
      .add_option("--stall-timeout", options.stall_timeout_s,
                  "end after this many seconds without progress")
      ->check(count_between(1, 86'400));
  command
      .add_option("--connect-timeout", options.connect_timeout_s,
                  "end after this many seconds without a connection")
      ->check(count_between(1, 3'600));
  command.add_option("--rank-process", options.rank_process_fd, "")->group("");
}

}  // namespace

void add_allreduce(CLI::App& app, const GlobalOptions& globals) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "allreduce", "all-reduce the gradients of real models through the NCCL plugin, verified");
  add_placement_options(*command, *options);
  add_work_options(*command, *options);
  add_network_options(*command, *options);
  add_output_options(*command, *options);
  command->callback([&app, &globals, command, options] {
    options->socket_path = globals.socket_path;
    // `lyre --json allreduce` means the same as `lyre allreduce --json`.
    const CLI::Option* global = app.get_option_no_throw("--json");
    options->json = options->json || (global != nullptr && global->count() > 0);
    apply_quick(options.get(), command->count("--model") > 0, command->count("--iterations") > 0);
    if (const int code = allreduce::run_command(*options); code != 0) throw CLI::RuntimeError(code);
  });
}

bool is_rank_process(const CLI::App& app) {
  return app.get_subcommand("allreduce")->count("--rank-process") > 0;
}

}  // namespace lyre::tools
