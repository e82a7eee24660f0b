#include "tests/sim/world/world.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

namespace lyre::sim {
namespace {

constexpr Nanos kAfterIdle = micros(1);
constexpr uint64_t kHashFactor = 0x100000001b3u;

std::string describe(const Dialog& dialog, uint32_t index) {
  std::string text = "dialog " + std::to_string(index) + " of port " +
                     std::to_string(dialog.used_port != 0 ? dialog.used_port : dialog.dialer_port) +
                     (dialog.is_clean ? " clean" : "");
  for (uint32_t e = 0; e < 2; ++e) {
    const EndState& end = dialog.ends[e];
    text += std::string(e == 0 ? " | dialer" : " | acceptor") + " queued " +
            std::to_string(end.queued_bytes) + "/" + std::to_string(dialog.plans[e].send_bytes) +
            " received " + std::to_string(end.received_bytes) + "/" +
            std::to_string(dialog.plans[1 - e].send_bytes) + " leaves " +
            std::to_string(static_cast<int>(dialog.plans[e].leaving)) +
            (end.is_open ? " opened" : "") + (end.has_left ? " left" : "") +
            (end.has_heard_finish ? " heard" : "") + (end.is_over ? " over " : " not over ") +
            std::to_string(static_cast<int>(end.status));
  }
  return text;
}

/// Dialogs that have the 4-tuple of another one that was opened.
uint64_t count_reused(const Dialogs& dialogs) {
  std::set<std::tuple<uint32_t, uint32_t, bool, uint16_t>> tuples;
  uint64_t opened = 0;
  for (const Dialog& dialog : dialogs) {
    if (!dialog.ends[0].is_open) continue;
    ++opened;
    tuples.insert({dialog.dialer_host, dialog.acceptor_client, dialog.is_ipv6, dialog.used_port});
  }
  return opened - tuples.size();
}

bool is_complete(const Dialog& dialog) {
  for (uint32_t e = 0; e < 2; ++e) {
    const EndState& end = dialog.ends[e];
    const bool has_all = end.received_bytes == dialog.plans[1 - e].send_bytes;
    if (!end.is_over || end.status != channel::EndStatus::kOk || !has_all) return false;
  }
  return true;
}

}  // namespace

World::World(WorldPlan plan)
    : plan_(std::move(plan)), rng_(plan_.seed ^ 0x5ca1ab1e), link_(plan_.link) {
  for (uint32_t i = 0; i < 2; ++i) {
    link_.set_path(static_cast<int>(i), plan_.paths[i]);
    hosts_[i] = std::make_unique<WorldHost>(link_, static_cast<int>(i), plan_.hosts[i],
                                            plan_.seed * 2 + i, plan_.dialogs);
  }
  std::stable_sort(plan_.events.begin(), plan_.events.end(),
                   [](const WorldEvent& a, const WorldEvent& b) { return a.at < b.at; });
}

WorldOutcome World::run() {
  while (is_talking() && turn()) {
  }
  if (failure().empty() && !is_stuck_) finish();
  WorldOutcome out;
  out.failure = failure();
  if (out.failure.empty()) out.failure = judge();
  count(out);
  return out;
}

HostCounts World::counts() const {
  HostCounts all;
  for (const auto& host : hosts_) all += host->counts();
  return all;
}

void World::count(WorldOutcome& out) const {
  out.turns = turns_;
  out.counts = counts();
  out.reused_tuples = count_reused(plan_.dialogs);
  out.upgrades = upgrades_;
  out.span = now_ - seconds(1);
  out.trace_hash = hosts_[0]->port().trace_hash() * 31 + hosts_[1]->port().trace_hash();
  for (const auto& host : hosts_) out.frames_too_big += host->port().too_big_count();
  for (int end = 0; end < 2; ++end) {
    out.frames += link_.counters(end).carried;
    out.frames_lost += link_.counters(end).lost + link_.counters(end).overflowed;
  }
  for (const Dialog& dialog : plan_.dialogs) {
    out.connections += dialog.ends[0].is_open ? 1 : 0;
    for (const EndState& end : dialog.ends) out.bytes += end.received_bytes;
    out.dialog_hashes.push_back(hash_of(dialog));
    out.stream_hash = out.stream_hash * kHashFactor + out.dialog_hashes.back().value_or(0);
  }
}

/// It may have failed to open. The acceptor may also abort during the handshake: its reset then
/// ends the connection.
bool World::is_excused(const Dialog& dialog) const {
  const channel::EndStatus status = dialog.ends[0].status;
  const bool was_unreachable =
      (!dialog.ends[0].is_open && status == channel::EndStatus::kUnreachable) ||
      (!dialog.ends[1].is_open && status == channel::EndStatus::kReset);
  return plan_.may_be_unreachable && was_unreachable;
}

std::optional<uint64_t> World::hash_of(const Dialog& dialog) const {
  if (!dialog.is_clean || is_excused(dialog)) return {};
  uint64_t hash = 0;
  for (const EndState& end : dialog.ends) {
    hash =
        hash * kHashFactor + (uint64_t{end.received_bytes} << 8 | static_cast<uint8_t>(end.status));
  }
  return hash;
}

void World::replace_engines() {
  for (auto& host : hosts_) host->worker().replace_engine();
}

/// Runs one turn of every host. When no host did any work, the clock advances to the next deadline.
/// Returns false when the limit of virtual time is exceeded.
bool World::turn() {
  ++turns_;
  link_.advance(now_);
  run_events();
  const size_t work = poll_hosts();
  if (rng_.chance_ppm(plan_.replace_engine_ppm)) hosts_[rng_.below(2)]->worker().replace_engine();
  // Plans without upgrades draw what they always drew.
  if (plan_.upgrade_ppm > 0 && rng_.chance_ppm(plan_.upgrade_ppm)) {
    upgrades_ += hosts_[rng_.below(2)]->try_upgrade(now_);
  }
  if (!failure().empty()) return false;
  for (auto& host : hosts_) host->worker().check_invariants(plan_.checked_connections);
  if (work > 0) {
    now_ += nanos(1 + static_cast<int64_t>(rng_.below(plan_.turn_ns_max)));
  } else {
    jump();
  }
  is_stuck_ = is_stuck_ || turns_ >= plan_.turns_max || now_ > plan_.time_max;
  return !is_stuck_ && failure().empty();
}

size_t World::poll_hosts() {
  const uint32_t first = static_cast<uint32_t>(rng_.below(2));
  size_t work = hosts_[first]->turn(now_, rng_, plan_.lag_ppm);
  work += hosts_[1 - first]->turn(now_, rng_, plan_.lag_ppm);
  return work;
}

void World::run_events() {
  while (next_event_ < plan_.events.size() && plan_.events[next_event_].at <= now_) {
    plan_.events[next_event_++].happens(*this);
  }
}

Nanos World::next_event() const {
  return next_event_ < plan_.events.size() ? plan_.events[next_event_].at : kNever;
}

void World::jump() {
  Nanos next = earlier(link_.next_deadline(), next_event());
  for (auto& host : hosts_) next = earlier(next, host->next_deadline(now_));
  bool has_work = false;
  for (auto& host : hosts_) has_work |= host->has_waiting_work(now_);
  if (next == kNever && !has_work) {
    is_stuck_ = !is_finishing_ && is_talking();  // no event is left that could end the dialogs
    now_ += kAfterIdle;
    return;
  }
  if (has_work) next = earlier(next, now_ + micros(50));
  now_ = later(now_ + kAfterIdle, next);
}

bool World::is_talking() {
  if (next_event_ < plan_.events.size()) return true;
  for (const auto& host : hosts_) {
    if (host->stands_still(now_) || !host->is_idle() || host->worker().connection_count() > 0)
      return true;
  }
  return link_.next_deadline() != kNever;
}

/// All dialogs have ended: detaches the clients and checks that nothing is left.
void World::finish() {
  is_finishing_ = true;
  for (auto& host : hosts_) host->detach_all();
  const auto is_detached = [&] { return hosts_[0]->is_detached() && hosts_[1]->is_detached(); };
  const Nanos limit = now_ + seconds(60);
  while (!(is_detached() && link_.next_deadline() == kNever) && now_ < limit && turn()) {
  }
  for (auto& host : hosts_) host->worker().check_invariants(UINT32_MAX);
}

std::string World::failure() const {
  for (const auto& host : hosts_) {
    if (!host->failure().empty()) return host->failure();
  }
  return {};
}

std::string World::judge_timers() const {
  const HostCounts all = counts();
  const bool is_calm = all.timeouts == 0 && all.probes_in == 0 && all.retransmitted_bytes == 0;
  if (!plan_.needs_no_timers || is_calm) return {};
  return "nothing was lost, and there were " + std::to_string(all.timeouts) + " timeouts, " +
         std::to_string(all.probes_in) + " window probes and " +
         std::to_string(all.retransmitted_bytes) + " retransmitted bytes";
}

std::string World::judge() const {
  if (is_stuck_) {
    std::string text = "stuck at " + std::to_string(now_.value) + " ns: ";
    for (uint32_t i = 0; i < plan_.dialogs.size(); ++i) {
      const Dialog& dialog = plan_.dialogs[i];
      const bool is_open = (dialog.ends[0].is_open && !dialog.ends[0].is_over) ||
                           (dialog.ends[1].is_open && !dialog.ends[1].is_over);
      if (!is_open) continue;
      text += describe(dialog, i);
      break;
    }
    for (const auto& host : hosts_) text += host->describe();
    return text;
  }
  for (uint32_t i = 0; i < plan_.dialogs.size(); ++i) {
    const Dialog& dialog = plan_.dialogs[i];
    if (dialog.is_clean && !is_excused(dialog) && !is_complete(dialog)) return describe(dialog, i);
    for (const EndState& end : dialog.ends) {
      if (end.is_open && !end.is_over) return describe(dialog, i);
    }
  }
  for (uint32_t i = 0; i < 2; ++i) {
    const std::string left = hosts_[i]->leftovers();
    if (!left.empty()) return "host " + std::to_string(i) + " keeps: " + left;
  }
  return judge_timers();
}

}  // namespace lyre::sim
