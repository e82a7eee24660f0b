#pragma once

#include <cstdint>
#include <vector>

#include "stack/base/index_list.h"
#include "stack/base/ip_address.h"
#include "stack/base/mac_address.h"
#include "stack/base/nanos.h"
#include "stack/base/slab.h"
#include "stack/link/neighbour_board.h"

namespace lyre::link {

/// One neighbour. Plain data; links are indices.
struct Neighbour {
  enum class State : uint8_t {
    kUnasked,      ///< `mac` is not known, and was not asked for
    kIncomplete,   ///< solicited; `mac` is not known
    kReachable,    ///< recently confirmed
    kStale,        ///< not recently confirmed, and not used since
    kDelay,        ///< used again; will be probed
    kProbe,        ///< used while unicast solicitations are unanswered
    kUnreachable,  ///< no host answered
  };

  IpAddress ip;
  Nanos deadline = kNever;  ///< set by NeighbourTable::set_deadline() only
  Nanos confirmed_at;       ///< when it became kReachable last
  MacAddress mac;
  State state = State::kUnasked;  ///< set by NeighbourTable::set_state() only
  uint8_t tries = 0;              ///< since the state was entered; with those of other workers
  bool is_wanted = false;         ///< resolve() asked for it at least once
  bool is_urgent = false;         ///< see NeighbourCache::urge()
  uint32_t holders = 0;           ///< sessions that send to it
  uint32_t heap_place = UINT32_MAX;
  uint32_t next_in_bucket = UINT32_MAX;
  IndexLink idle_link;

  bool has_mac() const {
    return state != State::kUnasked && state != State::kIncomplete && state != State::kUnreachable;
  }
};
static_assert(sizeof(Neighbour) <= 64);

/// The neighbours of one port, by address and by deadline. When it is full, add() replaces the
/// neighbour without holders that was wanted least recently; those that were never wanted are
/// replaced first.
/// The other workers see on the board which neighbours are in it.
/// Owner: all memory is allocated at construction; `seat` is borrowed. Thread: one.
class NeighbourTable {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  /// `seed` makes the placement of neighbours unpredictable for peers.
  NeighbourTable(uint64_t seed, uint32_t capacity, uint8_t port, BoardSeat& seat);

  uint32_t find(const IpAddress& ip) const;
  /// A neighbour in State::kUnasked. kNone: the table is full of neighbours that have holders or,
  /// unless `is_wanted`, were ever wanted. REQUIRES: find(ip) == kNone.
  uint32_t add(const IpAddress& ip, bool is_wanted);
  /// REQUIRES: it has no holders.
  void remove(uint32_t index);
  /// Removes the neighbours without holders; the others are kUnasked afterwards.
  void reset();

  void set_state(uint32_t index, Neighbour::State state);
  /// Notes that resolve() asked for it.
  void want(uint32_t index);
  void hold(uint32_t index);
  void release(uint32_t index);

  /// kNever: none.
  void set_deadline(uint32_t index, Nanos at);
  /// The earliest deadline of all; kNever: none.
  Nanos next_deadline() const;
  /// The neighbour with that deadline. REQUIRES: next_deadline() is not kNever.
  uint32_t first_due() const { return heap_.front(); }

  Neighbour& operator[](uint32_t index) { return neighbours_[index]; }
  /// nullptr: no neighbour has this index. All indices are below bound().
  const Neighbour* at(uint32_t index) const {
    return neighbours_.is_taken(index) ? &neighbours_[index] : nullptr;
  }
  uint32_t bound() const { return neighbours_.touched(); }
  uint32_t used() const { return neighbours_.used(); }
  uint32_t capacity() const { return neighbours_.capacity(); }
  /// The sum of all neighbours' holders.
  uint32_t holders() const { return holders_; }

 private:
  using IdleList = IndexList<Neighbour, &Neighbour::idle_link>;

  uint32_t& bucket_of(const IpAddress& ip);
  const uint32_t& bucket_of(const IpAddress& ip) const;
  void place(uint32_t heap_place, uint32_t index);
  bool is_before(uint32_t a, uint32_t b) const;
  void rise(uint32_t heap_place);
  void sink(uint32_t heap_place);

  uint64_t seed_;
  uint8_t port_;
  BoardSeat* seat_;
  Slab<Neighbour> neighbours_;
  std::vector<uint32_t> buckets_;  ///< heads of chains; a power of two, at least the capacity
  std::vector<uint32_t> heap_;     ///< a binary heap by deadline; the capacity is reserved
  IdleList idle_;                  ///< without holders, the first to be replaced in front
  uint32_t holders_ = 0;
};

}  // namespace lyre::link
