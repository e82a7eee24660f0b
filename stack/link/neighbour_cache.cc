#include "stack/link/neighbour_cache.h"

#include <algorithm>

#include "stack/base/check.h"
#include "stack/base/rng.h"

namespace lyre::link {
namespace {

bool is_usable(MacAddress mac) { return !mac.is_group() && mac != MacAddress{}; }

}  // namespace

NeighbourCache::NeighbourCache(uint64_t seed, NeighbourBoard* board, uint32_t worker)
    : own_board_(board == nullptr ? std::make_unique<NeighbourBoard>(SipKey{}, 1) : nullptr),
      seat_(std::make_unique<BoardSeat>(board == nullptr ? *own_board_ : *board, worker)),
      seed_(seed) {
  tables_.reserve(kPortsMax);
  for (uint8_t port = 0; port < kPortsMax; ++port) tables_.emplace_back(seed, 0, port, *seat_);
}

void NeighbourCache::set_capacity(uint8_t port, uint32_t neighbours_max) {
  LYRE_CHECK(port < kPortsMax && tables_[port].used() == 0);  // at start only
  tables_[port] = NeighbourTable(Rng(seed_ ^ port).next(), neighbours_max, port, *seat_);
}

void NeighbourCache::set_users(uint32_t users_max) {
  LYRE_CHECK(budgets_.empty());  // at start only
  const uint32_t workers = board().worker_count();
  const uint32_t per_second = std::max(kUrgentPerSecond / workers, kUrgentPerSecondMin);
  const uint32_t at_once = std::max(kUrgentAtOnce / workers, kUrgentAtOnceMin);
  budgets_.resize(users_max, TokenBucket(per_second, at_once));
}

Resolved NeighbourCache::resolve(uint8_t port, const IpAddress& ip, Nanos now) {
  const auto entry = find_or_add(port, ip, true);
  if (!entry) return {Answer::kUnreachable, {}};
  Neighbour& neighbour = at(*entry);
  tables_[port].want(entry->index);
  switch (neighbour.state) {
    case State::kStale:
      // RFC 4861 7.3.3: traffic that uses the entry may confirm it; if it does not, the entry is
      // probed.
      set_state(*entry, State::kDelay);
      set_deadline(*entry, now + kFirstProbeDelay);
      [[fallthrough]];
    case State::kReachable:
    case State::kDelay:
    case State::kProbe:
      return {Answer::kKnown, neighbour.mac};
    case State::kUnreachable:
      return {Answer::kUnreachable, {}};
    case State::kUnasked:
      set_state(*entry, State::kIncomplete);
      neighbour.tries = 0;
      set_deadline(*entry, now);
      break;
    case State::kIncomplete:
      break;
  }
  return {Answer::kPending, {}};
}

void NeighbourCache::urge(uint8_t port, const IpAddress& ip, uint32_t user, Nanos now) {
  const auto entry = find(port, ip);
  if (!entry) return;
  Neighbour& wanted = at(*entry);
  if (wanted.state != State::kIncomplete || wanted.is_urgent) return;
  wanted.is_urgent = budgets_[user].take(now);
}

bool NeighbourCache::hold(uint8_t port, const IpAddress& ip) {
  const auto entry = find(port, ip);
  if (entry) tables_[port].hold(entry->index);
  return entry.has_value();
}

void NeighbourCache::release(uint8_t port, const IpAddress& ip) {
  const auto entry = find(port, ip);
  // An entry with holders is not removed, whatever neighbours say.
  LYRE_CHECK(entry);
  NeighbourTable& table = tables_[port];
  table.release(entry->index);
  // Nothing else would remove it: it has no deadline.
  if (at(*entry).holders == 0 && at(*entry).state == State::kUnasked) table.remove(entry->index);
}

bool NeighbourCache::learn(uint8_t port, const IpAddress& ip, MacAddress mac, bool may_add,
                           Nanos now) {
  if (!is_usable(mac)) return false;
  const auto entry = may_add ? find_or_add(port, ip, false) : find(port, ip);
  if (!entry) return false;
  if (at(*entry).has_mac() && at(*entry).mac == mac) return true;
  set_mac(*entry, mac);
  make_stale(*entry, now);
  return true;
}

NeighbourCache::Heeded NeighbourCache::advertise(uint8_t port, const IpAddress& ip,
                                                 const Advertised& said, Nanos now) {
  const auto entry = find(port, ip);
  if (!entry || (said.mac && !is_usable(*said.mac))) return Heeded::kNoEntry;
  const Neighbour& known = at(*entry);
  if (!known.has_mac() && !said.mac) return Heeded::kNoEntry;
  const bool is_other = !known.has_mac() || (said.mac && *said.mac != known.mac);
  if (known.has_mac() && is_other && !said.overrides) {
    if (known.state == State::kReachable) make_stale(*entry, now);
    return Heeded::kDisputed;
  }
  if (is_other) set_mac(*entry, *said.mac);
  if (said.is_solicited) {
    make_reachable(*entry, now);
  } else if (is_other) {
    make_stale(*entry, now);
  }
  return Heeded::kTaken;
}

void NeighbourCache::doubt(uint8_t port, const IpAddress& ip, Nanos now) {
  const auto entry = find(port, ip);
  if (!entry) return;
  Neighbour& doubted = at(*entry);
  switch (doubted.state) {
    case State::kReachable:
      // It answers, so the fault is behind it. Other sessions doubt it as well.
      if (now - doubted.confirmed_at < kRetransmitTime) return;
      break;
    case State::kStale:
    case State::kDelay:
      break;
    case State::kProbe:
    case State::kUnasked:
    case State::kIncomplete:
    case State::kUnreachable:
      return;
  }
  set_state(*entry, State::kProbe);
  doubted.tries = 0;
  set_deadline(*entry, now);
}

void NeighbourCache::forget(uint8_t port, Nanos now) {
  tables_[port].reset();
  forgotten_at_[port] = now;
  ++generation_;
}

void NeighbourCache::on_timer(Nanos now, SolicitList& out) {
  lost_.clear();
  if (now < next_deadline_) return;
  next_deadline_ = kNever;
  for (uint8_t port = 0; port < kPortsMax; ++port) run_port(port, now, out);
}

void NeighbourCache::run_port(uint8_t port, Nanos now, SolicitList& out) {
  NeighbourTable& table = tables_[port];
  Nanos earliest{0};
  postponed_ = 0;
  for (uint32_t i = 0; i < kDuePerTimerMax && table.next_deadline() <= now; ++i) {
    if (step({port, table.first_due()}, now, out)) continue;
    const bool is_short_of_rate =
        !out.full() && !lost_.full() && postponed_ < kPostponedPerTimerMax;
    if (is_short_of_rate) earliest = board().question_ready_at(port);
    break;
  }
  next_deadline_ = earlier(next_deadline_, later(table.next_deadline(), earliest));
}

uint32_t NeighbourCache::used() const {
  uint32_t count = 0;
  for (const NeighbourTable& table : tables_) count += table.used();
  return count;
}

uint32_t NeighbourCache::holders() const {
  uint32_t count = 0;
  for (const NeighbourTable& table : tables_) count += table.holders();
  return count;
}

std::optional<NeighbourCache::Entry> NeighbourCache::find(uint8_t port, const IpAddress& ip) const {
  const uint32_t index = tables_[port].find(ip);
  if (index == NeighbourTable::kNone) return std::nullopt;
  return Entry{port, index};
}

std::optional<NeighbourCache::Entry> NeighbourCache::find_or_add(uint8_t port, const IpAddress& ip,
                                                                 bool is_wanted) {
  if (const auto entry = find(port, ip)) return entry;
  const uint32_t index = tables_[port].add(ip, is_wanted);
  if (index == NeighbourTable::kNone) return std::nullopt;
  return Entry{port, index};
}

void NeighbourCache::set_deadline(Entry entry, Nanos at) {
  tables_[entry.port].set_deadline(entry.index, at);
  next_deadline_ = earlier(next_deadline_, at);
}

void NeighbourCache::set_mac(Entry entry, MacAddress mac) {
  at(entry).mac = mac;
  ++generation_;
}

/// RFC 4861 6.3.2: the time is randomised, so that hosts do not probe in step.
void NeighbourCache::make_reachable(Entry entry, Nanos now) {
  Rng rng(seed_ ^ ++draws_);
  const auto spread = static_cast<uint64_t>(kReachableTime.value);
  set_state(entry, State::kReachable);
  at(entry).tries = 0;
  at(entry).confirmed_at = now;
  set_deadline(entry, now + kReachableTime / 2 + nanos(static_cast<int64_t>(rng.below(spread))));
}

void NeighbourCache::make_stale(Entry entry, Nanos now) {
  set_state(entry, State::kStale);
  at(entry).tries = 0;
  set_deadline(entry, now + kStaleHold);
}

/// Handles the entry's deadline. False: it stays due. It must ask, and `out` is full, or the rate
/// is exceeded and it is not postponed; or it is lost, and the list of those is full.
bool NeighbourCache::step(Entry entry, Nanos now, SolicitList& out) {
  Neighbour& due = at(entry);
  switch (due.state) {
    case State::kUnasked:
      LYRE_CHECK(false);  // has no deadline
      return true;
    case State::kReachable:
      make_stale(entry, now);
      return true;
    case State::kStale:
      if (due.holders > 0) {
        set_deadline(entry, now + kStaleHold);
      } else {
        tables_[entry.port].remove(entry.index);
      }
      return true;
    case State::kDelay:
      set_state(entry, State::kProbe);
      due.tries = 0;
      [[fallthrough]];
    case State::kProbe:
      if (due.tries < kSolicitsMax) return try_ask(entry, due.mac, now, out);
      // The address may have moved to another machine: drop the old MAC and ask by broadcast or
      // multicast.
      set_state(entry, State::kIncomplete);
      due.tries = 0;
      [[fallthrough]];
    case State::kIncomplete:
      if (due.tries < kSolicitsMax) return try_ask(entry, std::nullopt, now, out);
      if (!lost_.try_push({entry.port, due.ip})) return false;
      set_state(entry, State::kUnreachable);
      set_deadline(entry, now + kUnreachableHold);
      ++generation_;
      return true;
    case State::kUnreachable:
      make_unasked(entry);
      return true;
  }
  return true;
}

/// The next resolve() asks again.
void NeighbourCache::make_unasked(Entry entry) {
  ++generation_;
  if (at(entry).holders == 0) return tables_[entry.port].remove(entry.index);
  set_state(entry, State::kUnasked);
  set_deadline(entry, kNever);
}

bool NeighbourCache::try_ask(Entry entry, std::optional<MacAddress> mac, Nanos now,
                             SolicitList& out) {
  // On failure the deadline stays, so the entry is the first at the next call.
  if (out.full()) return false;
  if (!mac && try_wait_for_other(entry, now)) return true;
  Neighbour& asked = at(entry);
  if (!board().take_question(entry.port, now, asked.is_urgent)) return try_postpone(entry, now);
  out.push({entry.port, asked.ip, mac});
  if (!mac) board().note_question(board().place_of(entry.port, asked.ip), seat_->worker(), now);
  ++asked.tries;
  set_deadline(entry, now + kRetransmitTime);
  return true;
}

/// Another worker has asked all hosts for the address: its question counts as one of this worker,
/// which the answer reaches as well. What was sent before the link came up is lost. The last try is
/// a question of its own: the other one's packets may be those that are lost.
bool NeighbourCache::try_wait_for_other(Entry entry, Nanos now) {
  Neighbour& wanted = at(entry);
  if (wanted.tries + 1 >= kSolicitsMax) return false;
  const NeighbourBoard::Place place = board().place_of(entry.port, wanted.ip);
  const auto until = board().asked_elsewhere(place, seat_->worker(), now, kRetransmitTime);
  // The board counts in milliseconds.
  const Nanos oldest = forgotten_at_[entry.port] + millis(1);
  if (!until || *until - kRetransmitTime < oldest) return false;
  ++wanted.tries;
  set_deadline(entry, *until);
  return true;
}

/// The rate is exceeded. Clients can make entries without holders by aborted connections, as many
/// as the table takes, and entries with holders by connections to addresses that no host has. The
/// entry is kept: a new one for the same address could ask at once.
bool NeighbourCache::try_postpone(Entry entry, Nanos now) {
  const bool goes_first = at(entry).holders > 0 && at(entry).is_urgent;
  if (goes_first || postponed_ == kPostponedPerTimerMax) return false;
  ++postponed_;
  set_deadline(entry, now + kPostponement);
  return true;
}

}  // namespace lyre::link
