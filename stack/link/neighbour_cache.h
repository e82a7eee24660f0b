#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "stack/base/bounded_vector.h"
#include "stack/base/ip_address.h"
#include "stack/base/mac_address.h"
#include "stack/base/nanos.h"

namespace lyre::link {

/// Ports that one worker can have.
inline constexpr uint8_t kPortsMax = 8;
/// Neighbours that one worker can know; 48 bytes each.
inline constexpr uint32_t kNeighboursMax = 1024;
/// Solicitations that one call of on_timer() can return.
inline constexpr size_t kSolicitBurstMax = 32;

/// RFC 4861 10: REACHABLE_TIME before its random factor of 0.5 to 1.5, RETRANS_TIMER,
/// DELAY_FIRST_PROBE_TIME, MAX_MULTICAST_SOLICIT and MAX_UNICAST_SOLICIT. ARP uses the same values.
inline constexpr Nanos kReachableTime = seconds(30);
inline constexpr Nanos kRetransmitTime = seconds(1);
inline constexpr Nanos kFirstProbeDelay = seconds(5);
inline constexpr uint8_t kSolicitsMax = 3;
/// An entry that was not used for this long is removed.
inline constexpr Nanos kStaleHold = seconds(60);
/// After the last solicitation failed, the address is not asked for again for this long.
inline constexpr Nanos kUnreachableHold = seconds(5);

enum class Answer : uint8_t { kKnown, kPending, kUnreachable };

struct Resolved {
  Answer answer = Answer::kPending;
  MacAddress mac;  ///< when kKnown
};

/// A solicitation to send: to `mac` where it is known, else to all hosts that may have `ip`.
struct Solicit {
  uint8_t port = 0;
  IpAddress ip;
  std::optional<MacAddress> mac;
};
using SolicitList = BoundedVector<Solicit, kSolicitBurstMax>;

/// The contents of an advertisement: RFC 4861 4.4, or an ARP reply in the same terms.
struct Advertised {
  std::optional<MacAddress> mac;
  bool is_solicited = false;
  bool overrides = false;
};

/// The neighbours of one worker's ports, of both families, in the states of RFC 4861 7.3.2. Plain
/// data: copying it snapshots it. It queues no packets: a sender whose next hop is kPending tries
/// again when generation() has changed.
/// Thread: one. Units: time is the caller's `now`.
class NeighbourCache {
 public:
  /// `seed` makes the placement of entries unpredictable for peers.
  explicit NeighbourCache(uint64_t seed);

  /// The MAC of `ip`, a neighbour on `port`. For an unknown neighbour a solicitation is scheduled:
  /// the next on_timer(), which is then due at once, returns it.
  Resolved resolve(uint8_t port, const IpAddress& ip, Nanos now);

  /// RFC 4861 7.2.3: a packet contained its sender's MAC. An entry is made only if `may_add`.
  /// Returns false when the packet changed no entry.
  bool hear(uint8_t port, const IpAddress& ip, MacAddress mac, bool may_add, Nanos now);
  /// Handles an advertisement (RFC 4861 7.2.5). Returns false when no entry asked for it.
  bool advertise(uint8_t port, const IpAddress& ip, const Advertised& said, Nanos now);

  /// Other hosts may be reachable over `port` from now on: its entries are removed.
  void forget(uint8_t port);

  /// Appends the solicitations that are due. Call when next_deadline() has passed; what does not
  /// fit into `out` stays due.
  void on_timer(Nanos now, SolicitList& out);
  Nanos next_deadline() const { return next_deadline_; }

  /// Changes whenever an answer of resolve() may have changed from kPending or kUnreachable.
  uint32_t generation() const { return generation_; }
  uint32_t used() const;

 private:
  static constexpr uint32_t kWays = 8;
  static constexpr uint32_t kBuckets = kNeighboursMax / kWays;
  static_assert((kBuckets & (kBuckets - 1)) == 0);

  enum class State : uint8_t {
    kFree,
    kIncomplete,   ///< solicited; `mac` is not known
    kReachable,    ///< recently confirmed
    kStale,        ///< not recently confirmed, and not used since
    kDelay,        ///< used again; will be probed
    kProbe,        ///< used while unicast solicitations are unanswered
    kUnreachable,  ///< no host answered
  };
  struct Entry {
    IpAddress ip;
    MacAddress mac;
    uint8_t port = 0;
    State state = State::kFree;
    uint8_t tries = 0;  ///< solicitations sent since the state was entered
    Nanos deadline;     ///< when on_timer() must handle it
    Nanos used_at;      ///< last resolve(); kNeverUsed if learned from an unsolicited packet
  };
  static_assert(sizeof(Entry) == 48);

  Entry* bucket_of(uint8_t port, const IpAddress& ip);
  Entry* find(uint8_t port, const IpAddress& ip);
  Entry& replace_in_bucket(uint8_t port, const IpAddress& ip);
  void set_deadline(Entry& entry, Nanos at);
  void set_mac(Entry& entry, MacAddress mac);
  void make_reachable(Entry& entry, Nanos now);
  void make_stale(Entry& entry, Nanos now);
  void step(Entry& entry, Nanos now, SolicitList& out);
  void ask(Entry& entry, std::optional<MacAddress> mac, Nanos now, SolicitList& out);

  uint64_t seed_;
  uint64_t draws_ = 0;
  uint32_t generation_ = 0;
  Nanos next_deadline_ = kNever;  ///< at or before the earliest deadline of the entries
  std::array<Entry, kNeighboursMax> entries_{};
};

}  // namespace lyre::link
