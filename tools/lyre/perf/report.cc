#include "tools/lyre/perf/report.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

#include "tools/lyre/units.h"

namespace lyre::perf {
namespace {

/// One direction of all sessions.
struct Flow {
  uint64_t bytes = 0;
  int64_t duration_ns = 0;
  bool is_intact = true;
  std::vector<Hash> hashes;
  std::vector<Hash> peer_hashes;

  double bits_per_second() const {
    return duration_ns <= 0 ? 0
                            : 8e9 * static_cast<double>(bytes) / static_cast<double>(duration_ns);
  }
};

void add(Flow& flow, const Totals& mine, const Totals& peers, bool has_hash) {
  flow.bytes += mine.bytes;
  flow.is_intact = flow.is_intact && mine.is_intact && peers.is_intact && mine.bytes == peers.bytes;
  if (!has_hash) return;
  flow.hashes.push_back(mine.hash);
  flow.peer_hashes.push_back(peers.hash);
}

struct Flows {
  Flow sent;
  Flow received;
};

/// From the first session's start to the last one's end.
struct Period {
  int64_t started_ns = INT64_MAX;
  int64_t completed_ns = 0;

  int64_t duration_ns() const { return completed_ns - started_ns; }
};

Period period_of(const std::vector<Result>& results) {
  Period period;
  for (const Result& result : results) {
    period.started_ns = std::min(period.started_ns, result.started_ns);
    period.completed_ns = std::max(period.completed_ns, result.completed_ns);
  }
  return period;
}

/// Sent bytes have arrived when the trailer arrives; received bytes have arrived at the end frame.
Flows flows_of(const std::vector<Result>& results) {
  Flows flows;
  const Period period = period_of(results);
  int64_t received_ns = 0;
  for (const Result& result : results) {
    add(flows.sent, result.outcome.sent, result.outcome.peer_received, result.plan.has_hash);
    add(flows.received, result.outcome.received, result.outcome.peer_sent, result.plan.has_hash);
    received_ns = std::max(received_ns, result.started_ns + result.outcome.received.duration_ns);
  }
  flows.sent.duration_ns = period.duration_ns();
  flows.received.duration_ns = received_ns - period.started_ns;
  return flows;
}

std::string verdict(const Flow& flow, const Plan& plan) {
  std::string out = plan.is_untouched ? "payload not touched"
                    : flow.is_intact  ? "every byte as expected"
                                      : "BYTES DIFFER";
  for (size_t i = 0; i < flow.hashes.size(); ++i) {
    const bool is_equal = flow.hashes[i] == flow.peer_hashes[i];
    out += "\n          sha256 here  " + to_hex(flow.hashes[i]) + "\n          sha256 there " +
           to_hex(flow.peer_hashes[i]) + (is_equal ? "  equal" : "  DIFFERENT");
  }
  return out;
}

std::string flow_text(const char* title, const Flow& flow, const Plan& plan) {
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.3f s", static_cast<double>(flow.duration_ns) / 1e9);
  std::string line = title;
  line.resize(10, ' ');
  return line + tools::format_bytes(flow.bytes) + " (" + std::to_string(flow.bytes) +
         " bytes) in " + seconds + "  " + tools::format_rate(flow.bits_per_second()) + "  " +
         verdict(flow, plan) + "\n";
}

nlohmann::ordered_json flow_json(const Flow& flow) {
  nlohmann::ordered_json out = {{"bytes", flow.bytes},
                                {"duration_ns", flow.duration_ns},
                                {"bits_per_s", flow.bits_per_second()},
                                {"intact", flow.is_intact}};
  if (flow.hashes.empty()) return out;
  out["sha256"] = nlohmann::ordered_json::array();
  out["sha256_peer"] = nlohmann::ordered_json::array();
  for (const Hash& hash : flow.hashes) out["sha256"].push_back(to_hex(hash));
  for (const Hash& hash : flow.peer_hashes) out["sha256_peer"].push_back(to_hex(hash));
  out["sha256_equal"] = flow.hashes == flow.peer_hashes;
  return out;
}

std::vector<int64_t> all_round_trips(const std::vector<Result>& results) {
  std::vector<int64_t> out;
  for (const Result& result : results) {
    const auto& part = result.outcome.round_trips_ns;
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

std::string latency_text(const std::vector<Result>& results) {
  const Latency latency = latency_of(all_round_trips(results));
  char line[256];
  std::snprintf(
      line, sizeof line,
      "%llu round trips of %u bytes: p50 %.2f us  p99 %.2f us  p99.9 %.2f us  "
      "(min %.2f, mean %.2f, max %.2f)\n",
      static_cast<unsigned long long>(latency.count), results.front().plan.message_bytes,
      static_cast<double>(latency.p50_ns) / 1e3, static_cast<double>(latency.p99_ns) / 1e3,
      static_cast<double>(latency.p999_ns) / 1e3, static_cast<double>(latency.min_ns) / 1e3,
      static_cast<double>(latency.mean_ns) / 1e3, static_cast<double>(latency.max_ns) / 1e3);
  return line;
}

/// Round trips of all sessions. Sessions that connect, or are done before others, lower it.
double requests_per_second(const std::vector<Result>& results, uint64_t count) {
  const int64_t duration_ns = period_of(results).duration_ns();
  return duration_ns <= 0 ? 0 : 1e9 * static_cast<double>(count) / static_cast<double>(duration_ns);
}

nlohmann::ordered_json latency_json(const std::vector<Result>& results) {
  const Latency latency = latency_of(all_round_trips(results));
  return {{"count", latency.count},
          {"message_bytes", results.front().plan.message_bytes},
          {"p50_ns", latency.p50_ns},
          {"p99_ns", latency.p99_ns},
          {"p999_ns", latency.p999_ns},
          {"min_ns", latency.min_ns},
          {"mean_ns", latency.mean_ns},
          {"max_ns", latency.max_ns},
          {"requests_per_s", requests_per_second(results, latency.count)}};
}

}  // namespace

Latency latency_of(std::vector<int64_t> times) {
  if (times.empty()) return {};
  std::sort(times.begin(), times.end());
  const size_t last = times.size() - 1;
  const auto at = [&](double share) {
    return times[static_cast<size_t>(share * static_cast<double>(last) + 0.5)];
  };
  const int64_t sum = std::accumulate(times.begin(), times.end(), int64_t{0});
  return {.count = times.size(),
          .min_ns = times.front(),
          .mean_ns = sum / static_cast<int64_t>(times.size()),
          .p50_ns = at(0.5),
          .p99_ns = at(0.99),
          .p999_ns = at(0.999),
          .max_ns = times.back()};
}

std::string client_text(const std::vector<Result>& results, const std::string& transport) {
  const Plan& plan = results.front().plan;
  std::string out = transport + ", " + std::to_string(results.size()) +
                    (results.size() == 1 ? " session to " : " sessions to ") +
                    results.front().peer + "\n";
  if (plan.kind == Kind::kPingPong) return out + latency_text(results);
  const Flows flows = flows_of(results);
  if (plan.sends_to(Direction::kToServer)) out += flow_text("sent", flows.sent, plan);
  if (plan.sends_to(Direction::kToClient)) out += flow_text("received", flows.received, plan);
  return out;
}

nlohmann::ordered_json client_json(const std::vector<Result>& results,
                                   const std::string& transport) {
  const Plan& plan = results.front().plan;
  nlohmann::ordered_json out = {{"transport", transport},
                                {"peer", results.front().peer},
                                {"sessions", results.size()},
                                {"touched", !plan.is_untouched}};
  if (plan.kind == Kind::kPingPong) {
    out["ping_pong"] = latency_json(results);
    return out;
  }
  const Flows flows = flows_of(results);
  if (plan.sends_to(Direction::kToServer)) out["sent"] = flow_json(flows.sent);
  if (plan.sends_to(Direction::kToClient)) out["received"] = flow_json(flows.received);
  return out;
}

std::string progress_text(const Plan& plan, const Progress& before, const Progress& now,
                          int64_t interval_ns, int64_t elapsed_ns) {
  std::string text = std::to_string(elapsed_ns / 1'000'000'000) + " s:";
  if (plan.kind == Kind::kPingPong) {
    return text + " " + std::to_string(now.round_trips) + " of " + std::to_string(plan.count) +
           " round trips";
  }
  const auto add = [&](uint64_t earlier, uint64_t bytes, const char* verb) {
    const double rate = 8e9 * static_cast<double>(bytes - earlier) /
                        static_cast<double>(std::max<int64_t>(interval_ns, 1));
    text += std::string(text.back() == ':' ? " " : ", ") + tools::format_bytes(bytes) + " " + verb +
            " at " + tools::format_rate(rate);
  };
  if (plan.sends_to(Direction::kToServer)) add(before.sent_bytes, now.sent_bytes, "sent");
  if (plan.sends_to(Direction::kToClient)) {
    add(before.received_bytes, now.received_bytes, "received");
  }
  return text;
}

std::string server_text(const Result& result) {
  if (result.plan.kind == Kind::kPingPong) {
    return result.peer + "  echoed " + std::to_string(result.plan.count) + " messages of " +
           std::to_string(result.plan.message_bytes) + " bytes\n";
  }
  std::string out;
  const Flows flows = flows_of({result});
  if (result.plan.sends_to(Direction::kToServer)) {
    out += result.peer + "  " + flow_text("received", flows.received, result.plan);
  }
  if (result.plan.sends_to(Direction::kToClient)) {
    out += result.peer + "  " + flow_text("sent", flows.sent, result.plan);
  }
  return out;
}

nlohmann::ordered_json server_json(const Result& result, const std::string& transport) {
  nlohmann::ordered_json out = {{"transport", transport}, {"peer", result.peer}};
  if (result.plan.kind == Kind::kPingPong) {
    out["echoed"] = {{"count", result.plan.count}, {"message_bytes", result.plan.message_bytes}};
    return out;
  }
  const Flows flows = flows_of({result});
  if (result.plan.sends_to(Direction::kToServer)) out["received"] = flow_json(flows.received);
  if (result.plan.sends_to(Direction::kToClient)) out["sent"] = flow_json(flows.sent);
  return out;
}

}  // namespace lyre::perf
