#include "tests/sim/scenarios.h"

#include <algorithm>
#include <array>

namespace lyre::sim {

namespace {

using tcp::EndReason;

/// Draws the options and sizes that every scenario varies.
void draw_hosts(Scenario& s, Rng& rng) {
  static constexpr std::array<uint16_t, 4> kMss = {536, 1220, 1460, 8960};
  for (HostConfig* host : {&s.dialer, &s.listener}) {
    host->connection.mss_bytes = kMss[rng.below(kMss.size())];
    host->connection.slot_bytes = host->connection.mss_bytes > 2048 ? 9216 : 2048;
    host->charge_bytes = host->connection.slot_bytes;
    host->connection.timestamps = rng.chance_ppm(800'000);
    host->connection.sack = rng.chance_ppm(800'000);
    host->connection.window_scaling = rng.chance_ppm(800'000);
    host->connection.nagle = rng.chance_ppm(200'000);
    host->connection.receive_buffer_bytes = 1u << (15 + rng.below(7));
    host->connection.receive_buffer_start_bytes = 1u << (13 + rng.below(8));
    host->connection.pacing = rng.chance_ppm(200'000);
    host->connection.send_buffer_bytes = 1u << (14 + rng.below(8));
    static constexpr std::array<tcp::CongestionAlgorithm, 3> kAlgorithms = {
        tcp::CongestionAlgorithm::kNewReno, tcp::CongestionAlgorithm::kCubic,
        tcp::CongestionAlgorithm::kDctcp};
    host->connection.congestion = kAlgorithms[rng.below(kAlgorithms.size())];
    static constexpr std::array<tcp::EcnMode, 3> kEcnModes = {
        tcp::EcnMode::kOff, tcp::EcnMode::kAccept, tcp::EcnMode::kOn};
    host->connection.ecn = kEcnModes[rng.below(kEcnModes.size())];
    // Longer than any sequence of losses.
    host->connection.user_timeout_ms = host->connection.orphan_timeout_ms = 3'600'000;
    host->connection.connect_timeout_ms = 3'600'000;
    host->connection.syn_received_timeout_s = 3'600;
    host->connection.time_wait_ms = 1'800'000;
    host->tso_bytes = rng.chance_ppm(500'000) ? 65535 : 0;
    host->app.chunk_bytes = static_cast<uint32_t>(1 + rng.below(100'000));
    host->app.send_bytes = rng.below(300'000);
  }
  s.listener.listens = true;
  s.there.delay = s.back.delay = micros(static_cast<int64_t>(10 + rng.below(2000)));
}

void impair(Scenario& s, Rng& rng, uint32_t loss_ppm, uint32_t reorder_ppm, uint32_t dup_ppm) {
  for (LinkConfig* link : {&s.there, &s.back}) {
    link->loss_ppm = loss_ppm;
    link->reorder_ppm = reorder_ppm;
    link->duplicate_ppm = dup_ppm;
    link->loss_burst_packets = static_cast<uint32_t>(1 + rng.below(4));
  }
}

void make_slow_reader(Scenario& s, Rng& rng) {
  s.dialer.app.send_bytes = 60'000;
  s.listener.connection.receive_buffer_bytes = 1u << (13 + rng.below(3));
  s.listener.app.send_bytes = rng.below(1000);
  s.listener.app.read_bytes_a_step = static_cast<uint32_t>(100 + rng.below(6000));
  s.listener.app.read_pause = millis(static_cast<int64_t>(1 + rng.below(400)));
}

/// A fixed workload, to compare congestion control and recovery between versions.
void make_lossy_bulk(Scenario& s) {
  s.dialer = s.listener = HostConfig{};
  s.listener.listens = true;
  s.listener.app.ending = Ending::kShutdownWhenHeard;
  s.dialer.engine.sent_records_max = s.listener.engine.sent_records_max = 8192;
  s.dialer.app.send_bytes = 20'000'000;
  s.there.delay = s.back.delay = micros(500);
  s.there.loss_ppm = s.back.loss_ppm = 20'000;
  s.there.queue_bytes = s.back.queue_bytes = 4 << 20;
}

void make_small_pools(Scenario& s, Rng& rng) {
  s.connection_count = 8;
  for (HostConfig* host : {&s.dialer, &s.listener}) {
    host->engine = {.connections_max = 8, .sent_records_max = 4, .received_runs_max = 4};
    host->app.send_bytes = rng.below(60'000);
  }
  impair(s, rng, 10'000, 20'000, 0);
}

/// A queue that marks long before it drops, as RFC 8257 4.1 recommends.
void make_marking_queue(Scenario& s) {
  s.there.rate_bytes_per_s = s.back.rate_bytes_per_s = 12'500'000;
  s.there.queue_bytes = s.back.queue_bytes = 60'000;
  s.there.mark_bytes = s.back.mark_bytes = 15'000;
  s.dialer.app.send_bytes = s.listener.app.send_bytes = 500'000;
}

Ending draw_ending(Rng& rng) {
  static constexpr std::array<Ending, 3> kEndings = {
      Ending::kShutdownWhenSent, Ending::kShutdownWhenHeard, Ending::kCloseWhenHeard};
  return kEndings[rng.below(kEndings.size())];
}

void draw_endings(Scenario& s, Rng& rng) {
  s.dialer.app.ending = draw_ending(rng);
  // At least one side must send, or neither ever ends.
  s.listener.app.ending = s.dialer.app.ending == Ending::kShutdownWhenSent
                              ? draw_ending(rng)
                              : Ending::kShutdownWhenSent;
}

void make_cut(Scenario& s) {
  s.dialer.app.send_bytes = s.listener.app.send_bytes = 4'000'000;
  s.there.cut_from = s.back.cut_from = seconds(1) + millis(3);
  s.dialer.connection.user_timeout_ms = s.listener.connection.user_timeout_ms = 20'000;
  s.dialer.app.ending = s.listener.app.ending = Ending::kNever;
}

std::string describe(const App& app) {
  return "sent " + std::to_string(app.appended_bytes) + "/" + std::to_string(app.plan.send_bytes) +
         " acked " + std::to_string(app.acked_bytes) + " read " + std::to_string(app.read_bytes) +
         " end reason " + std::to_string(static_cast<int>(app.reason)) +
         (app.is_over ? " over" : " open");
}

std::string judge_pair(const App& from, const App& to) {
  const bool is_complete = to.read_bytes == from.plan.send_bytes &&
                           from.acked_bytes == from.plan.send_bytes && to.has_peer_finished;
  const bool is_clean = from.is_over && to.is_over && from.reason == EndReason::kClosed &&
                        to.reason == EndReason::kClosed;
  if (is_complete && is_clean) return {};
  return "from {" + describe(from) + "} to {" + describe(to) + "}";
}

std::string judge_clean(const Scenario& s, const Outcome& outcome) {
  if (outcome.dialer_apps.size() != s.connection_count) return "dialer lost connections";
  uint32_t accepted = 0;
  for (const App& app : outcome.listener_apps) accepted += app.is_established ? 1 : 0;
  if (accepted != s.connection_count) return "listener accepted too few or too many";
  for (uint32_t i = 0; i < s.connection_count; ++i) {
    // Connections may be accepted in another order than they were opened: streams are compared by
    // seed.
    for (const App& listener : outcome.listener_apps) {
      // A forged SYN leaves a half-open connection that never becomes established.
      const bool is_other = listener.receive_seed != outcome.dialer_apps[i].send_seed;
      if (is_other || !listener.is_established) continue;
      std::string wrong = judge_pair(outcome.dialer_apps[i], listener);
      if (wrong.empty()) wrong = judge_pair(listener, outcome.dialer_apps[i]);
      if (!wrong.empty()) return wrong;
    }
  }
  return {};
}

std::string judge_all(const std::vector<App>& apps, EndReason reason) {
  for (const App& app : apps) {
    if (!app.is_over || app.reason != reason) return describe(app);
  }
  return {};
}

struct NamedScenario {
  const char* name;
  void (*make)(Scenario&, Rng&);
};

constexpr auto kScenarios = std::to_array<NamedScenario>({
    {"bulk", [](Scenario& s, Rng&) { s.dialer.app.send_bytes = 2'000'000; }},
    {"loss",
     [](Scenario& s, Rng& rng) {
       impair(s, rng, static_cast<uint32_t>(1000 + rng.below(30'000)), 0, 0);
     }},
    {"heavy_loss",
     [](Scenario& s, Rng& rng) {
       impair(s, rng, 200'000, 0, 0);
       s.dialer.app.send_bytes = rng.below(40'000);
       s.listener.app.send_bytes = rng.below(40'000);
     }},
    {"reorder",
     [](Scenario& s, Rng& rng) {
       impair(s, rng, 0, static_cast<uint32_t>(rng.below(300'000)), 0);
     }},
    {"duplicate",
     [](Scenario& s, Rng& rng) {
       impair(s, rng, 0, 0, static_cast<uint32_t>(rng.below(300'000)));
     }},
    {"everything",
     [](Scenario& s, Rng& rng) {
       impair(s, rng, 20'000, 50'000, 20'000);
       s.dialer.app.chunk_pause = micros(static_cast<int64_t>(rng.below(3) * 500));
     }},
    {"closes",
     [](Scenario& s, Rng& rng) {
       impair(s, rng, 100'000, 100'000, 100'000);
       s.dialer.app.send_bytes = rng.below(3000);
       s.listener.app.send_bytes = rng.below(3000);
     }},
    {"slow_reader", make_slow_reader},
    {"slow_reader_loss",
     [](Scenario& s, Rng& rng) {
       make_slow_reader(s, rng);
       impair(s, rng, 30'000, 30'000, 10'000);
     }},
    {"simultaneous_open",
     [](Scenario& s, Rng& rng) {
       s.opens_simultaneously = true;
       s.listener.listens = false;
       impair(s, rng, rng.chance_ppm(500'000) ? 50'000 : 0, 0, 0);
     }},
    {"many",
     [](Scenario& s, Rng& rng) {
       s.connection_count = 20;
       s.dialer.app.send_bytes = rng.below(30'000);
       s.listener.app.send_bytes = rng.below(30'000);
       impair(s, rng, 10'000, 10'000, 10'000);
     }},
    // On a clean wire text never starts at the window's edge.
    {"forged", [](Scenario& s, Rng&) { s.forged_packets_ppm = 100'000; }},
    {"small_queue",
     [](Scenario& s, Rng&) {
       s.there.rate_bytes_per_s = s.back.rate_bytes_per_s = 12'500'000;
       s.there.queue_bytes = s.back.queue_bytes = 30'000;
       s.dialer.app.send_bytes = 1'000'000;
     }},
    {"trickle",
     [](Scenario& s, Rng& rng) {
       s.dialer.app.send_bytes = 20'000;
       s.dialer.app.chunk_bytes = static_cast<uint32_t>(1 + rng.below(300));
       s.dialer.app.chunk_pause = micros(static_cast<int64_t>(rng.below(50'000)));
       impair(s, rng, 10'000, 10'000, 0);
     }},
    {"abort",
     [](Scenario& s, Rng&) {
       s.dialer.app.ending = Ending::kAbortWhenSent;
       s.listener.app.ending = Ending::kNever;
     }},
    {"cut", [](Scenario& s, Rng&) { make_cut(s); }},
    {"refused", [](Scenario& s, Rng&) { s.listener.listens = false; }},
    {"small_pools", make_small_pools},
    {"lossy_bulk", [](Scenario& s, Rng&) { make_lossy_bulk(s); }},
    {"marks", [](Scenario& s, Rng&) { make_marking_queue(s); }},
    {"marks_loss",
     [](Scenario& s, Rng& rng) {
       make_marking_queue(s);
       impair(s, rng, 20'000, 30'000, 10'000);
     }},
});

}  // namespace

std::vector<std::string> scenario_names() {
  std::vector<std::string> names;
  for (const NamedScenario& scenario : kScenarios) names.emplace_back(scenario.name);
  return names;
}

std::optional<Scenario> make_scenario(const std::string& name, uint64_t seed) {
  const auto* found = std::ranges::find(kScenarios, name, &NamedScenario::name);
  if (found == kScenarios.end()) return std::nullopt;
  Scenario s;
  Rng rng(seed * 7919 + 17);
  draw_hosts(s, rng);
  draw_endings(s, rng);
  found->make(s, rng);
  return s;
}

std::string judge(const std::string& name, const Scenario& scenario, const Outcome& outcome) {
  if (!outcome.failure.empty()) {
    std::string text = outcome.failure;
    if (!outcome.dialer_apps.empty()) text += " | dialer " + describe(outcome.dialer_apps[0]);
    if (!outcome.listener_apps.empty()) text += " | listener " + describe(outcome.listener_apps[0]);
    return text;
  }
  if (name == "abort") return judge_all(outcome.dialer_apps, EndReason::kAborted);
  if (name == "refused") return judge_all(outcome.dialer_apps, EndReason::kRefused);
  if (name == "cut") {
    const std::string wrong = judge_all(outcome.dialer_apps, EndReason::kTimedOut);
    return wrong.empty() ? judge_all(outcome.listener_apps, EndReason::kTimedOut) : wrong;
  }
  return judge_clean(scenario, outcome);
}

}  // namespace lyre::sim
