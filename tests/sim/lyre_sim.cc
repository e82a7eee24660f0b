/// lyre-sim --scenario NAME --seed N [--count N] [--replace-every STEPS] [--packets 1] [--summary
/// 1]: replays TCP over a simulated wire. Prints one line a seed; the same seed gives the same
/// trace hash.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/sim/scenarios.h"

namespace {

struct Options {
  std::string scenario = "all";
  uint64_t seed = 1;
  uint64_t count = 1;
  uint64_t replace_every = 0;
  bool prints_packets = false;
  bool prints_summary = false;
};

int usage() {
  std::fputs(
      "usage: lyre-sim [--scenario NAME|all] [--seed N] [--count N] [--replace-every STEPS] "
      "[--packets 1] [--summary 1]\n",
      stderr);
  std::fputs("scenarios:", stderr);
  for (const std::string& name : lyre::sim::scenario_names())
    std::fprintf(stderr, " %s", name.c_str());
  std::fputs("\n", stderr);
  return 2;
}

bool read_options(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 >= argc) return false;
    const std::string key = argv[i];
    if (key == "--scenario") {
      options.scenario = argv[i + 1];
    } else if (key == "--seed") {
      options.seed = std::strtoull(argv[i + 1], nullptr, 10);
    } else if (key == "--count") {
      options.count = std::strtoull(argv[i + 1], nullptr, 10);
    } else if (key == "--replace-every") {
      options.replace_every = std::strtoull(argv[i + 1], nullptr, 10);
    } else if (key == "--packets") {
      options.prints_packets = std::string(argv[i + 1]) != "0";
    } else if (key == "--summary") {
      options.prints_summary = std::string(argv[i + 1]) != "0";
    } else {
      return false;
    }
  }
  return true;
}

/// How well the first connection did in each direction.
void print_summary(const lyre::sim::Outcome& outcome) {
  for (const auto* apps : {&outcome.dialer_apps, &outcome.listener_apps}) {
    if (apps->empty() || apps->front().all_acked_at == lyre::kNever) continue;
    const lyre::sim::App& app = apps->front();
    const double span = static_cast<double>((app.all_acked_at - lyre::seconds(1)).value) * 1e-9;
    std::printf(
        "  %.3f Mbit/s, %u timeouts, %u fast recoveries, %.2f %% sent again, srtt %.3f ms\n",
        static_cast<double>(app.acked_bytes) * 8e-6 / span, app.last_info.timeouts,
        app.last_info.fast_recoveries,
        100.0 * static_cast<double>(app.last_info.bytes_retransmitted) /
            static_cast<double>(app.last_info.bytes_sent + 1),
        static_cast<double>(app.last_info.srtt.value) * 1e-6);
  }
}

bool run_one(const std::string& name, uint64_t seed, const Options& options) {
  auto scenario = lyre::sim::make_scenario(name, seed);
  scenario->replace_engine_every_steps = options.replace_every;
  scenario->dialer.prints_packets = scenario->listener.prints_packets = options.prints_packets;
  const lyre::sim::Outcome outcome = lyre::sim::run_scenario(*scenario, seed);
  const std::string wrong = lyre::sim::judge(name, *scenario, outcome);
  std::printf("%s seed %llu: %s, %llu steps, %.3f s virtual, %llu packets lost, trace %016llx\n",
              name.c_str(), static_cast<unsigned long long>(seed),
              wrong.empty() ? "ok" : wrong.c_str(),
              static_cast<unsigned long long>(outcome.step_count),
              static_cast<double>(outcome.ended_at.value) * 1e-9,
              static_cast<unsigned long long>(outcome.lost_count),
              static_cast<unsigned long long>(outcome.trace_hash));
  if (options.prints_summary) print_summary(outcome);
  return wrong.empty();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!read_options(argc, argv, options)) return usage();
  if (options.scenario != "all" && !lyre::sim::make_scenario(options.scenario, 1)) return usage();
  uint64_t failed = 0;
  for (const std::string& name : lyre::sim::scenario_names()) {
    if (options.scenario != "all" && options.scenario != name) continue;
    for (uint64_t seed = options.seed; seed < options.seed + options.count; ++seed) {
      std::fflush(stdout);
      if (!run_one(name, seed, options)) ++failed;
    }
  }
  if (failed > 0)
    std::fprintf(stderr, "lyre-sim: %llu failed\n", static_cast<unsigned long long>(failed));
  return failed > 0 ? 1 : 0;
}
