#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "stack/base/bounded_vector.h"
#include "stack/base/drop_reasons.h"
#include "stack/base/ip_address.h"
#include "stack/base/mac_address.h"
#include "stack/base/nanos.h"
#include "stack/wire/arp.h"

namespace lyre::link {

/// Ports that one worker can have.
inline constexpr uint8_t kPortsMax = 8;
/// Neighbours that one worker can know; 48 bytes each.
inline constexpr uint32_t kArpEntriesMax = 1024;
/// ARP packets that one call of on_timer() can give.
inline constexpr size_t kArpBurstMax = 32;

/// An answer is believed this long, then asked again if it is in use.
inline constexpr Nanos kArpReachable = seconds(60);
inline constexpr Nanos kArpRetry = seconds(1);
inline constexpr uint8_t kArpTriesMax = 3;
/// After the last try nobody asks again for this long.
inline constexpr Nanos kArpUnreachableHold = seconds(5);
/// RFC 5227 1.1: ANNOUNCE_NUM, ANNOUNCE_INTERVAL, DEFEND_INTERVAL.
inline constexpr uint8_t kArpAnnounceCount = 2;
inline constexpr Nanos kArpAnnounceInterval = seconds(2);
inline constexpr Nanos kArpDefendInterval = seconds(10);

enum class ArpAnswer : uint8_t { kKnown, kPending, kUnreachable };

struct Resolved {
  ArpAnswer answer = ArpAnswer::kPending;
  MacAddress mac;  ///< when kKnown
};

/// An ARP packet to send from `port`.
struct ArpOut {
  uint8_t port = 0;
  MacAddress destination;
  wire::ArpPacket packet;
};
using ArpOutList = BoundedVector<ArpOut, kArpBurstMax>;

/// What an ARP packet taught; another worker's table may want to know (see learn()).
struct ArpLearned {
  uint8_t port = 0;
  IpAddress ip;
  MacAddress mac;
  bool was_addressed_to_us = false;
};

struct ArpHandled {
  std::optional<ArpOut> reply;
  std::optional<ArpLearned> learned;
  std::optional<Drop> drop;  ///< the packet served for nothing, and why
};

/// Neighbours of one worker's ports: RFC 826, with the announcements and defence of RFC 5227.
/// Plain data: copying it snapshots it. Nothing waits in it: a sender whose next hop is kPending
/// tries again when generation() has changed.
/// Thread: one. Units: time is the caller's `now`.
class ArpTable {
 public:
  /// `seed` makes the placement of entries hard to guess from outside.
  explicit ArpTable(uint64_t seed);

  /// Tells whose requests to answer on `port`, and announces it (RFC 5227 2.3).
  /// `prefix_bits`: of the IPv4 address; neighbours outside it are learned only when asked for.
  void set_port(uint8_t port, MacAddress mac, const IpAddress& address, uint8_t prefix_bits,
                Nanos now);

  /// The MAC of `next_hop`, an IPv4 neighbour on `port`. Unknown ones start to be asked for: the
  /// request leaves with the next on_timer(), which is due at once.
  Resolved resolve(uint8_t port, const IpAddress& next_hop, Nanos now);

  /// An ARP packet arrived on `port`.
  ArpHandled handle_arp(uint8_t port, const wire::ArpPacket& packet, Nanos now);
  /// Another worker of the same ports learned this.
  void learn(const ArpLearned& news, Nanos now);

  /// Appends what must be sent now. Call when next_deadline() has come; what `out` has no room for
  /// stays due.
  void on_timer(Nanos now, ArpOutList& out);
  Nanos next_deadline() const { return next_deadline_; }
  /// An announcement of `port`'s address, to be sent whenever a harmless packet is wanted.
  ArpOut announcement(uint8_t port) const;

  /// Changes whenever an answer of resolve() may have changed from kPending or kUnreachable.
  uint32_t generation() const { return generation_; }
  uint32_t used() const;

 private:
  static constexpr uint32_t kWays = 8;
  static constexpr uint32_t kBuckets = kArpEntriesMax / kWays;
  static_assert((kBuckets & (kBuckets - 1)) == 0);

  enum class EntryState : uint8_t {
    kFree,
    kAsking,       ///< broadcast requests are out; `mac` is not known
    kKnown,        ///< `mac` was confirmed less than kArpReachable ago
    kRefreshing,   ///< `mac` is still used while unicast requests confirm it
    kUnreachable,  ///< nobody answered
  };
  struct Entry {
    IpAddress ip;
    MacAddress mac;
    uint8_t port = 0;
    EntryState state = EntryState::kFree;
    uint8_t tries = 0;  ///< requests sent since the state was entered
    Nanos deadline;     ///< when on_timer() must look at it
    Nanos used_at;      ///< last resolve(); kNeverUsed if learned unasked
  };
  static_assert(sizeof(Entry) == 48);
  struct Port {
    bool is_set = false;
    MacAddress mac;
    IpAddress address;
    uint8_t prefix_bits = 0;
    uint8_t announcements_left = 0;
    Nanos announce_at = kNever;
    Nanos defended_at;
  };

  Entry* bucket_of(uint8_t port, const IpAddress& ip);
  Entry* find(uint8_t port, const IpAddress& ip);
  Entry& replace_in_bucket(uint8_t port, const IpAddress& ip);
  void set_deadline(Entry& entry, Nanos at);
  void confirm(Entry& entry, MacAddress mac, Nanos now);
  void step(Entry& entry, Nanos now, ArpOutList& out);
  void step_known(Entry& entry, Nanos now, ArpOutList& out);
  void ask(Entry& entry, MacAddress destination, Nanos now, ArpOutList& out);
  void announce(uint8_t index, Nanos now, ArpOutList& out);
  static bool is_on_link(const Port& port, const IpAddress& ip);
  ArpHandled handle_conflict(Port& port, Nanos now);

  uint64_t seed_;
  uint32_t generation_ = 0;
  Nanos next_deadline_ = kNever;  ///< at or before the earliest deadline of entries and ports
  std::array<Port, kPortsMax> ports_{};
  std::array<Entry, kArpEntriesMax> entries_{};
};

}  // namespace lyre::link
