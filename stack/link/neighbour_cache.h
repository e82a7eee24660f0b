#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "stack/base/bounded_vector.h"
#include "stack/base/ip_address.h"
#include "stack/base/mac_address.h"
#include "stack/base/nanos.h"
#include "stack/base/token_bucket.h"
#include "stack/link/neighbour_board.h"
#include "stack/link/neighbour_table.h"

namespace lyre::link {

/// Neighbours of one port that one worker can know, unless the port's configuration says otherwise.
inline constexpr uint32_t kNeighboursDefault = 1024;
/// Solicitations that one call of on_timer() can return.
inline constexpr size_t kSolicitBurstMax = 32;
/// Neighbours that one call of on_timer() can make unreachable.
inline constexpr size_t kLostPerTimerMax = 32;

/// When the rate is used up, a neighbour without holders, or one that is not urgent, is postponed
/// for this long, so that the others are asked for first. Less than the time in which
/// kSolicitsAtOnceMax are earned.
inline constexpr Nanos kPostponement = millis(250);
/// Neighbours of one port that one call of on_timer() can postpone.
inline constexpr uint32_t kPostponedPerTimerMax = 32;
/// Neighbours of one port whose deadlines one call of on_timer() handles. Those that become stale,
/// or that another worker has asked for, take no place in its lists.
inline constexpr uint32_t kDuePerTimerMax = 256;

/// RFC 4861 10: REACHABLE_TIME before its random factor of 0.5 to 1.5, RETRANS_TIMER,
/// DELAY_FIRST_PROBE_TIME, MAX_MULTICAST_SOLICIT and MAX_UNICAST_SOLICIT. ARP uses the same values.
inline constexpr Nanos kReachableTime = seconds(30);
inline constexpr Nanos kRetransmitTime = seconds(1);
inline constexpr Nanos kFirstProbeDelay = seconds(5);
inline constexpr uint8_t kSolicitsMax = 3;
/// An entry without holders that was not used for this long is removed.
inline constexpr Nanos kStaleHold = seconds(60);
/// After the last solicitation failed, the address is not asked for again for this long.
inline constexpr Nanos kUnreachableHold = seconds(5);

/// Neighbours that one user may make urgent on all workers together: on average, and at once. Each
/// is asked for kSolicitsMax times, so one user takes half of the rate at most.
inline constexpr uint32_t kUrgentPerSecond = kSolicitsPerSecondMax / (2 * kSolicitsMax);
inline constexpr uint32_t kUrgentAtOnce = kSolicitsAtOnceMax / 2;
/// The same on each worker, however many there are.
inline constexpr uint32_t kUrgentPerSecondMin = 1;
inline constexpr uint32_t kUrgentAtOnceMin = 4;

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

/// A neighbour that answered no solicitation.
struct LostNeighbour {
  uint8_t port = 0;
  IpAddress ip;
};
using LostList = BoundedVector<LostNeighbour, kLostPerTimerMax>;

/// The contents of an advertisement: RFC 4861 4.4, or an ARP reply in the same terms.
struct Advertised {
  std::optional<MacAddress> mac;
  bool is_solicited = false;
  bool overrides = false;
};

/// The neighbours of one worker's ports, of both families, in the states of RFC 4861 7.3.2. It
/// queues no packets: a sender whose next hop is kPending tries again when generation() has
/// changed. Each port has a table of its own, so the hosts on one port do not displace those on
/// another. Workers of one board do not ask all hosts for what one of them has just asked for; but
/// its last try before it gives up is a question of its own.
/// Thread: one. Units: time is the caller's `now`.
class NeighbourCache {
 public:
  /// `seed` makes the placement of entries unpredictable for peers. `board`: *borrowed*, of all
  /// workers; nullptr: this one is alone.
  explicit NeighbourCache(uint64_t seed, NeighbourBoard* board = nullptr, uint32_t worker = 0);

  /// Allocates the table of `port`, which has none before. REQUIRES: port < kPortsMax.
  void set_capacity(uint8_t port, uint32_t neighbours_max);

  /// The MAC of `ip`, a neighbour on `port`. For an unknown neighbour a solicitation is scheduled:
  /// the next on_timer(), which is then due at once, returns it. kUnreachable also when the table
  /// has no place for it.
  Resolved resolve(uint8_t port, const IpAddress& ip, Nanos now);

  /// Allocates the budgets of `users_max` users. Call once, at start.
  void set_users(uint32_t users_max);
  /// `user` wants the MAC of a neighbour that resolve() found kPending: where its budget allows it,
  /// the questions are urgent. When the rate is used up, urgent ones are sent first, so a user that
  /// wants many addresses without a host does not delay the others. Questions for a neighbour that
  /// has a MAC, or had one since it was last given up, are urgent without that.
  /// REQUIRES: user < users_max.
  void urge(uint8_t port, const IpAddress& ip, uint32_t user, Nanos now);

  /// The entry is kept until release(), also while it is not used. False: resolve() made none.
  bool hold(uint8_t port, const IpAddress& ip);
  /// REQUIRES: hold() returned true for this neighbour once more than it was released.
  void release(uint8_t port, const IpAddress& ip);

  /// RFC 4861 7.2.3: a packet contained its sender's MAC. An entry is made only if `may_add`.
  /// Returns false when the packet changed no entry.
  bool learn(uint8_t port, const IpAddress& ip, MacAddress mac, bool may_add, Nanos now);
  /// What an advertisement was for its entry. kDisputed: it names another MAC and does not override
  /// the one that is known, so all else that it says is not heard either.
  enum class Heeded : uint8_t { kNoEntry, kDisputed, kTaken };
  /// Handles an advertisement (RFC 4861 7.2.5).
  Heeded advertise(uint8_t port, const IpAddress& ip, const Advertised& said, Nanos now);

  /// RFC 1122 3.3.1.4: packets to `ip` get no answer, so its MAC is probed at once, and not when
  /// the entry becomes stale. An entry that was confirmed in the last kRetransmitTime is left
  /// alone.
  void doubt(uint8_t port, const IpAddress& ip, Nanos now);

  /// Other hosts may be reachable over `port` from now on: no MAC of its entries is valid, and no
  /// question that another worker has sent counts.
  void forget(uint8_t port, Nanos now);

  /// Appends the solicitations that are due. Call when next_deadline() has passed; what does not
  /// fit into `out`, or exceeds kDuePerTimerMax, stays due; what exceeds the rate becomes due again
  /// when the rate allows it, for urgent neighbours with holders before all others.
  void on_timer(Nanos now, SolicitList& out);
  /// The neighbours that the last on_timer() made unreachable.
  const LostList& lost() const { return lost_; }
  Nanos next_deadline() const { return next_deadline_; }

  NeighbourBoard& board() const { return seat_->board(); }
  /// For tools. REQUIRES: port < kPortsMax.
  const NeighbourTable& table(uint8_t port) const { return tables_[port]; }

  /// Changes whenever an answer of resolve() may have changed from kPending or kUnreachable.
  uint32_t generation() const { return generation_; }
  uint32_t used() const;
  /// hold() without release(), over all ports.
  uint32_t holders() const;

 private:
  using State = Neighbour::State;

  /// A place in the table of one port.
  struct Entry {
    uint8_t port;
    uint32_t index;
  };

  Neighbour& at(Entry entry) { return tables_[entry.port][entry.index]; }
  void set_state(Entry entry, State state) { tables_[entry.port].set_state(entry.index, state); }
  std::optional<Entry> find(uint8_t port, const IpAddress& ip) const;
  std::optional<Entry> find_or_add(uint8_t port, const IpAddress& ip, bool is_wanted);
  void set_deadline(Entry entry, Nanos at);
  void set_mac(Entry entry, MacAddress mac);
  void make_reachable(Entry entry, Nanos now);
  void make_stale(Entry entry, Nanos now);
  void run_port(uint8_t port, Nanos now, SolicitList& out);
  bool step(Entry entry, Nanos now, SolicitList& out);
  bool try_ask(Entry entry, std::optional<MacAddress> mac, Nanos now, SolicitList& out);
  bool try_wait_for_other(Entry entry, Nanos now);
  bool try_postpone(Entry entry, Nanos now);
  void make_unasked(Entry entry);

  std::unique_ptr<NeighbourBoard> own_board_;  ///< of a worker that is alone
  std::unique_ptr<BoardSeat> seat_;            ///< its address is known to the tables
  uint64_t seed_;
  uint64_t draws_ = 0;
  uint32_t generation_ = 0;
  Nanos next_deadline_ = kNever;  ///< at or before the earliest time at which on_timer() can act
  LostList lost_;
  uint32_t postponed_ = 0;              ///< by run_port(), of its port
  std::vector<TokenBucket> budgets_;    ///< by user: what it may make urgent
  std::vector<NeighbourTable> tables_;  ///< of kPortsMax ports
  std::array<Nanos, kPortsMax> forgotten_at_{};
};

}  // namespace lyre::link
