/// lyre-adapter-sim: replays worlds of the NCCL plugin. Each line is a run; the same seed gives the
/// same trace.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/sim/adapter/world.h"

namespace lyre::adapter_sim {
namespace {

struct Options {
  std::string scenario = "all";
  uint64_t seed = 1;
  uint64_t count = 1;
  bool prints = false;
  bool is_quiet = false;
};

struct Total {
  uint64_t runs = 0;
  uint64_t failed = 0;
  uint64_t messages = 0;
  uint64_t bytes = 0;
  int64_t span_ns = 0;
  uint64_t rdma_bytes = 0;
  uint64_t rdma_written_bytes = 0;
  uint64_t rdma_late = 0;
  uint64_t rdma_broken = 0;
};

void run(const std::string& scenario, uint64_t seed, const Options& options, Total& total) {
  World world(make_plan(scenario, seed), options.prints);
  const Outcome outcome = world.run();
  ++total.runs;
  total.failed += outcome.wrong.empty() ? 0 : 1;
  total.messages += outcome.messages;
  total.bytes += outcome.bytes;
  total.span_ns += outcome.span_ns;
  total.rdma_bytes += outcome.rdma_bytes;
  total.rdma_written_bytes += outcome.rdma_written_bytes;
  total.rdma_late += outcome.rdma_late;
  total.rdma_broken += outcome.rdma_broken;
  if (outcome.wrong.empty() && options.is_quiet) return;
  std::printf("%s seed %" PRIu64 ": %s, %" PRIu64 " messages, %" PRIu64
              " events, %.3f s virtual, "
              "%" PRIu64 " ranks failed, trace %016" PRIx64 "\n",
              scenario.c_str(), seed, outcome.wrong.empty() ? "ok" : outcome.wrong.c_str(),
              outcome.messages, outcome.events, static_cast<double>(outcome.span_ns) * 1e-9,
              outcome.failed_ranks, outcome.trace);
  if (!outcome.wrong.empty()) {
    std::printf("replay: lyre-adapter-sim --scenario %s --seed %" PRIu64 " --print\n",
                scenario.c_str(), seed);
  }
  std::fflush(stdout);
}

int main_of(const Options& options) {
  std::vector<std::string> names = {options.scenario};
  if (options.scenario == "all") names = scenarios();
  const auto begin = std::chrono::steady_clock::now();
  Total total;
  for (uint64_t seed = options.seed; seed < options.seed + options.count; ++seed) {
    for (const std::string& name : names) run(name, seed, options, total);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf("%" PRIu64 " runs, %" PRIu64 " failed, %" PRIu64
              " messages, %.1f GB, %.2f virtual "
              "hours in %.1f s\n",
              total.runs, total.failed, total.messages, static_cast<double>(total.bytes) * 1e-9,
              static_cast<double>(total.span_ns) * 1e-9 / 3600, took.count());
  if (total.rdma_bytes > 0) {
    std::printf("queue pairs: %.1f GB, %.3f GB of it written, %" PRIu64 " broken, %" PRIu64
                " packets late\n",
                static_cast<double>(total.rdma_bytes) * 1e-9,
                static_cast<double>(total.rdma_written_bytes) * 1e-9, total.rdma_broken,
                total.rdma_late);
  }
  return total.failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace lyre::adapter_sim

int main(int argc, char** argv) {
  lyre::adapter_sim::Options options;
  CLI::App app("replays worlds of the NCCL plugin");
  std::string names = "all";
  for (const std::string& name : lyre::adapter_sim::scenarios()) names += ", " + name;
  app.add_option("--scenario", options.scenario, names);
  app.add_option("--seed", options.seed, "the first one");
  app.add_option("--count", options.count, "so many seeds");
  app.add_flag("--print", options.prints, "what the plugin logs and what breaks");
  app.add_flag("--quiet", options.is_quiet, "failures and the total only");
  CLI11_PARSE(app, argc, argv);
  return lyre::adapter_sim::main_of(options);
}
