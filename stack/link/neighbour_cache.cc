#include "stack/link/neighbour_cache.h"

#include <cstring>
#include <type_traits>

#include "stack/base/check.h"
#include "stack/base/rng.h"

namespace lyre::link {
namespace {

/// Earlier than every resolve(), so that entries that were never used are replaced first.
constexpr Nanos kNeverUsed{INT64_MIN};

bool is_usable(MacAddress mac) { return !mac.is_group() && mac != MacAddress{}; }

}  // namespace

static_assert(std::is_trivially_copyable_v<NeighbourCache>);

NeighbourCache::NeighbourCache(uint64_t seed) : seed_(seed) {}

Resolved NeighbourCache::resolve(uint8_t port, const IpAddress& ip, Nanos now) {
  Entry* entry = find(port, ip);
  if (entry == nullptr) {
    entry = &replace_in_bucket(port, ip);
    entry->state = State::kIncomplete;
    set_deadline(*entry, now);
  }
  entry->used_at = now;
  switch (entry->state) {
    case State::kStale:
      // RFC 4861 7.3.3: traffic that uses the entry may confirm it; if it does not, the entry is
      // probed.
      entry->state = State::kDelay;
      set_deadline(*entry, now + kFirstProbeDelay);
      [[fallthrough]];
    case State::kReachable:
    case State::kDelay:
    case State::kProbe:
      return {Answer::kKnown, entry->mac};
    case State::kUnreachable:
      return {Answer::kUnreachable, {}};
    case State::kFree:
    case State::kIncomplete:
      break;
  }
  return {Answer::kPending, {}};
}

bool NeighbourCache::hear(uint8_t port, const IpAddress& ip, MacAddress mac, bool may_add,
                          Nanos now) {
  if (!is_usable(mac)) return false;
  Entry* entry = find(port, ip);
  if (entry == nullptr) {
    if (!may_add) return false;
    entry = &replace_in_bucket(port, ip);
    entry->state = State::kIncomplete;
  }
  const bool has_mac = entry->state != State::kIncomplete && entry->state != State::kUnreachable;
  if (has_mac && entry->mac == mac) return true;
  set_mac(*entry, mac);
  make_stale(*entry, now);
  return true;
}

bool NeighbourCache::advertise(uint8_t port, const IpAddress& ip, const Advertised& said,
                               Nanos now) {
  Entry* entry = find(port, ip);
  if (entry == nullptr || (said.mac && !is_usable(*said.mac))) return false;
  const bool has_mac = entry->state != State::kIncomplete && entry->state != State::kUnreachable;
  if (!has_mac && !said.mac) return false;
  const bool is_other = !has_mac || (said.mac && *said.mac != entry->mac);
  if (has_mac && is_other && !said.overrides) {
    if (entry->state == State::kReachable) make_stale(*entry, now);
    return true;
  }
  if (is_other) set_mac(*entry, *said.mac);
  if (said.is_solicited) {
    make_reachable(*entry, now);
  } else if (is_other) {
    make_stale(*entry, now);
  }
  return true;
}

void NeighbourCache::forget(uint8_t port) {
  for (Entry& entry : entries_) {
    if (entry.port == port) entry.state = State::kFree;
  }
  ++generation_;
}

void NeighbourCache::on_timer(Nanos now, SolicitList& out) {
  if (now < next_deadline_) return;
  next_deadline_ = kNever;
  for (Entry& entry : entries_) {
    if (entry.state == State::kFree) continue;
    if (entry.deadline <= now) step(entry, now, out);
    if (entry.state != State::kFree) set_deadline(entry, entry.deadline);
  }
}

uint32_t NeighbourCache::used() const {
  uint32_t count = 0;
  for (const Entry& entry : entries_) count += entry.state != State::kFree;
  return count;
}

NeighbourCache::Entry* NeighbourCache::bucket_of(uint8_t port, const IpAddress& ip) {
  uint64_t words[2];
  std::memcpy(words, ip.bytes.data(), sizeof words);
  const uint64_t high = Rng(seed_ ^ words[0] ^ port).next();
  return &entries_[Rng(high ^ words[1]).below(kBuckets) * kWays];
}

NeighbourCache::Entry* NeighbourCache::find(uint8_t port, const IpAddress& ip) {
  Entry* bucket = bucket_of(port, ip);
  for (Entry* entry = bucket; entry < bucket + kWays; ++entry) {
    if (entry->state != State::kFree && entry->port == port && entry->ip == ip) return entry;
  }
  return nullptr;
}

/// Takes a free entry, or the least recently used one. Entries from unsolicited packets were never
/// used, so a flood of requests does not replace entries in use.
NeighbourCache::Entry& NeighbourCache::replace_in_bucket(uint8_t port, const IpAddress& ip) {
  Entry* bucket = bucket_of(port, ip);
  Entry* oldest = bucket;
  for (Entry* entry = bucket; entry < bucket + kWays; ++entry) {
    if (entry->state == State::kFree) {
      oldest = entry;
      break;
    }
    if (entry->used_at < oldest->used_at) oldest = entry;
  }
  *oldest = Entry{};
  oldest->ip = ip;
  oldest->port = port;
  oldest->used_at = kNeverUsed;
  return *oldest;
}

void NeighbourCache::set_deadline(Entry& entry, Nanos at) {
  entry.deadline = at;
  next_deadline_ = earlier(next_deadline_, at);
}

void NeighbourCache::set_mac(Entry& entry, MacAddress mac) {
  entry.mac = mac;
  ++generation_;
}

/// RFC 4861 6.3.2: the time is randomised, so that hosts do not probe in step.
void NeighbourCache::make_reachable(Entry& entry, Nanos now) {
  Rng rng(seed_ ^ ++draws_);
  const auto spread = static_cast<uint64_t>(kReachableTime.value);
  entry.state = State::kReachable;
  entry.tries = 0;
  set_deadline(entry, now + kReachableTime / 2 + nanos(static_cast<int64_t>(rng.below(spread))));
}

void NeighbourCache::make_stale(Entry& entry, Nanos now) {
  entry.state = State::kStale;
  entry.tries = 0;
  set_deadline(entry, now + kStaleHold);
}

void NeighbourCache::step(Entry& entry, Nanos now, SolicitList& out) {
  switch (entry.state) {
    case State::kFree:
      return;
    case State::kReachable:
      return make_stale(entry, now);
    case State::kStale:
      entry.state = State::kFree;
      return;
    case State::kDelay:
      entry.state = State::kProbe;
      entry.tries = 0;
      [[fallthrough]];
    case State::kProbe:
      if (entry.tries < kSolicitsMax) return ask(entry, entry.mac, now, out);
      // The address may have moved to another machine: drop the old MAC and ask by broadcast or
      // multicast.
      entry.state = State::kIncomplete;
      entry.tries = 0;
      [[fallthrough]];
    case State::kIncomplete:
      if (entry.tries < kSolicitsMax) return ask(entry, std::nullopt, now, out);
      entry.state = State::kUnreachable;
      entry.deadline = now + kUnreachableHold;
      ++generation_;
      return;
    case State::kUnreachable:
      entry.state = State::kFree;
      ++generation_;
      return;
  }
}

void NeighbourCache::ask(Entry& entry, std::optional<MacAddress> mac, Nanos now, SolicitList& out) {
  // When `out` is full the deadline stays, and the entry is due at the next call.
  if (!out.try_push({entry.port, entry.ip, mac})) return;
  ++entry.tries;
  entry.deadline = now + kRetransmitTime;
}

}  // namespace lyre::link
