/// lyre-sim: runs simulator scenarios. Each line of output is one run; the same seed gives the same
/// trace.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/sim/scenarios.h"
#include "tests/sim/world/world_drivers.h"
#include "tests/sim/world/world_scenarios.h"

namespace lyre::sim {
namespace {

struct Options {
  std::string scenario = "all";
  std::string driver;  ///< empty: the scenario's
  uint64_t seed = 1;
  uint64_t count = 1;
  double hours = 0;
  uint64_t replace_every = 0;
  bool prints_packets = false;
  bool prints_summary = false;
  bool is_quiet = false;
  bool checks_all = false;
  bool is_unmerged = false;
};

/// Totals over all runs.
struct Total {
  uint64_t runs = 0;
  uint64_t failed = 0;
  uint64_t connections = 0;
  uint64_t bytes = 0;
  uint64_t frames = 0;
  uint64_t turns = 0;
  Nanos span;
};

double as_seconds(Nanos span) { return static_cast<double>(span.value) * 1e-9; }

/// Prints the throughput and losses of the first connection in each direction.
void print_summary(const Outcome& outcome) {
  for (const auto* apps : {&outcome.dialer_apps, &outcome.listener_apps}) {
    if (apps->empty() || apps->front().all_acked_at == kNever) continue;
    const App& app = apps->front();
    const double span = as_seconds(app.all_acked_at - seconds(1));
    std::printf(
        "  %.3f Mbit/s, %u timeouts, %u fast recoveries, %.2f %% sent again, srtt %.3f ms\n",
        static_cast<double>(app.acked_bytes) * 8e-6 / span, app.last_info.timeouts,
        app.last_info.fast_recoveries,
        100.0 * static_cast<double>(app.last_info.bytes_retransmitted) /
            static_cast<double>(app.last_info.bytes_sent + 1),
        static_cast<double>(app.last_info.srtt.value) * 1e-6);
  }
}

void report(const std::string& name, uint64_t seed, const std::string& wrong, uint64_t steps,
            Nanos span, uint64_t trace, const Options& options) {
  if (wrong.empty() && options.is_quiet) return;
  std::printf("%s seed %" PRIu64 ": %s, %" PRIu64 " steps, %.3f s virtual, trace %016" PRIx64 "\n",
              name.c_str(), seed, wrong.empty() ? "ok" : wrong.c_str(), steps, as_seconds(span),
              trace);
  if (!wrong.empty()) {
    const std::string driver = options.driver.empty() ? "" : " --driver " + options.driver;
    std::printf("replay: lyre-sim --scenario %s%s --seed %" PRIu64 "\n", name.c_str(),
                driver.c_str(), seed);
  }
  std::fflush(stdout);
}

void run_engines(const std::string& name, uint64_t seed, const Options& options, Total& total) {
  auto scenario = make_scenario(name, seed);
  scenario->replace_engine_every_steps = options.replace_every;
  scenario->dialer.prints_packets = scenario->listener.prints_packets = options.prints_packets;
  const Outcome outcome = run_scenario(*scenario, seed);
  const std::string wrong = judge(name, *scenario, outcome);
  const Nanos span = outcome.ended_at - seconds(1);
  report(name, seed, wrong, outcome.step_count, span, outcome.trace_hash, options);
  if (options.prints_summary) print_summary(outcome);
  total.failed += wrong.empty() ? 0 : 1;
  total.connections += outcome.dialer_apps.size();
  for (const auto* apps : {&outcome.dialer_apps, &outcome.listener_apps}) {
    for (const App& app : *apps) total.bytes += app.acked_bytes;
  }
  total.frames += outcome.sent_count;
  total.turns += outcome.step_count;
  total.span += span;
}

void run_world(const std::string& name, uint64_t seed, const Options& options, Total& total) {
  auto plan = make_world(name, seed);
  if (!options.driver.empty()) use_driver(*plan, options.driver);
  if (options.checks_all) plan->checked_connections = UINT32_MAX;
  for (WorldHostOptions& host : plan->hosts) host.merge_received = !options.is_unmerged;
  const WorldOutcome outcome = World(std::move(*plan)).run();
  report(name, seed, outcome.failure, outcome.turns, outcome.span, outcome.trace_hash, options);
  if (options.prints_summary) {
    std::printf("  %" PRIu64 " connections, %" PRIu64 " bytes, %" PRIu64 " frames, %" PRIu64
                " lost, %" PRIu64 " upgrades, streams %016" PRIx64 "\n",
                outcome.connections, outcome.bytes, outcome.frames, outcome.frames_lost,
                outcome.upgrades, outcome.stream_hash);
  }
  total.failed += outcome.failure.empty() ? 0 : 1;
  total.connections += outcome.connections;
  total.bytes += outcome.bytes;
  total.frames += outcome.frames;
  total.turns += outcome.turns;
  total.span += outcome.span;
}

std::vector<std::string> chosen(const std::string& name) {
  std::vector<std::string> engines = scenario_names();
  std::vector<std::string> worlds = world_names();
  if (name == "hosts") return worlds;
  std::vector<std::string> all = worlds;
  all.insert(all.end(), engines.begin(), engines.end());
  if (name == "all") return all;
  if (std::find(all.begin(), all.end(), name) == all.end()) return {};
  return {name};
}

void run_one(const std::string& name, uint64_t seed, const Options& options, Total& total) {
  ++total.runs;
  name.starts_with("hosts_") ? run_world(name, seed, options, total)
                             : run_engines(name, seed, options, total);
}

/// Runs each seed once for each scenario. With --hours, runs seed after seed until the given
/// virtual time is covered.
Total run_all(const std::vector<std::string>& names, const Options& options) {
  Total total;
  const auto is_enough = [&](uint64_t seed) {
    if (options.hours > 0) return as_seconds(total.span) >= options.hours * 3600;
    return seed == options.seed + options.count;
  };
  for (uint64_t seed = options.seed; !is_enough(seed); ++seed) {
    for (const std::string& name : names) run_one(name, seed, options, total);
  }
  return total;
}

void print_total(const Total& total, double wall_s) {
  std::printf("%" PRIu64 " runs, %" PRIu64 " failed, %" PRIu64 " connections, %" PRIu64
              " bytes, %" PRIu64 " frames, %" PRIu64
              " turns, %.2f virtual hours in %.1f s: %.0f connections/s, %.0f virtual s/s\n",
              total.runs, total.failed, total.connections, total.bytes, total.frames, total.turns,
              as_seconds(total.span) / 3600, wall_s,
              static_cast<double>(total.connections) / wall_s, as_seconds(total.span) / wall_s);
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("Runs simulator scenarios; the same scenario and seed give the same run");
  std::string names;
  for (const std::string& name : chosen("all")) names += " " + name;
  app.add_option("--scenario", options.scenario, "A name, hosts, or all:" + names);
  app.add_option("--driver", options.driver, "Host scenarios: what the ports' driver does")
      ->check(CLI::IsMember(driver_names()));
  app.add_option("--seed", options.seed, "The first");
  app.add_option("--count", options.count, "Number of seeds");
  app.add_option("--hours", options.hours, "Run until this many virtual hours are covered");
  app.add_option("--replace-every", options.replace_every,
                 "Engine scenarios: a fresh engine goes on every so many steps");
  app.add_flag("--packets", options.prints_packets, "Engine scenarios: print each segment");
  app.add_flag("--summary", options.prints_summary, "Print statistics of each run");
  app.add_flag("--quiet", options.is_quiet, "Print failures and the total only");
  app.add_flag("--check-all", options.checks_all, "Check every connection after every turn");
  app.add_flag("--no-merge", options.is_unmerged,
               "Host scenarios: every received segment reaches TCP by itself");
  CLI11_PARSE(app, argc, argv);
  const std::vector<std::string> wanted = chosen(options.scenario);
  if (wanted.empty()) {
    std::fprintf(stderr, "no such scenario; there are:%s\n", names.c_str());
    return 2;
  }
  const auto begin = std::chrono::steady_clock::now();
  const Total total = run_all(wanted, options);
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  print_total(total, wall.count());
  return total.failed > 0 ? 1 : 0;
}

}  // namespace
}  // namespace lyre::sim

int main(int argc, char** argv) { return lyre::sim::run(argc, argv); }
