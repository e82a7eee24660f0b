#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "stack/base/index_list.h"
#include "stack/session/session.h"

namespace lyre::worker {

/// Handshakes that peers began may use one in so many of the places for connections.
inline constexpr uint32_t kHalfOpenShare = 2;

/// Passive opens whose handshake is under way, by listener. Any host can send SYNs, so they have a
/// share of the places, and one is dropped when another connection needs its place: the oldest of
/// the listener that has most, so that a flood of SYNs to one listener does not drop the handshakes
/// of others. Listeners are compared by the power of two of their numbers, so no call searches.
/// Handshakes of a listener that is closed count for the next one in its place.
/// Owner: borrows the table of sessions for its lifetime. Thread: the worker.
class HalfOpenQueue {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  HalfOpenQueue(session::Session* sessions, uint32_t share, uint32_t listeners_max)
      : sessions_(sessions), share_(share > 0 ? share : 1), listeners_(listeners_max) {}

  /// REQUIRES: no context owns it, is_embryonic, and Session::listener is below listeners_max.
  void add(uint32_t conn) {
    const uint32_t index = sessions_[conn].listener;
    leave_rank(index);
    listeners_[index].handshakes.push_back(sessions_, conn);
    enter_rank(index);
    ++size_;
  }
  /// REQUIRES: added, and not removed since; Session::listener is the same.
  void remove(uint32_t conn) {
    const uint32_t index = sessions_[conn].listener;
    leave_rank(index);
    listeners_[index].handshakes.remove(sessions_, conn);
    enter_rank(index);
    --size_;
  }
  /// The one to drop for another connection; for a SYN to `listener`, one of that listener if few
  /// have more. kNone when empty.
  uint32_t first_to_drop(uint32_t listener = kNone) const {
    if (empty()) return kNone;
    uint32_t rank = kRanks - 1;
    while (ranks_[rank].empty()) --rank;
    const bool is_among_most = listener < listeners_.size() && rank_of(listener) == rank;
    return listeners_[is_among_most ? listener : ranks_[rank].front()].handshakes.front();
  }
  bool empty() const { return size_ == 0; }
  bool is_share_used() const { return size_ >= share_; }

 private:
  struct OfListener {
    IndexList<session::Session, &session::Session::owner_link> handshakes;  ///< the oldest first
    IndexLink link;                                                         ///< among its rank
  };
  /// Numbers from 2^(rank - 1) on; rank 0 is that of listeners without handshakes.
  static constexpr uint32_t kRanks = 33;

  uint32_t rank_of(uint32_t index) const {
    return static_cast<uint32_t>(std::bit_width(listeners_[index].handshakes.size()));
  }
  void leave_rank(uint32_t index) {
    const uint32_t rank = rank_of(index);
    if (rank > 0) ranks_[rank].remove(listeners_, index);
  }
  void enter_rank(uint32_t index) {
    const uint32_t rank = rank_of(index);
    if (rank > 0) ranks_[rank].push_back(listeners_, index);
  }

  session::Session* sessions_;
  uint32_t share_;
  uint32_t size_ = 0;
  std::vector<OfListener> listeners_;  ///< by the listener's index
  std::array<IndexList<OfListener, &OfListener::link>, kRanks> ranks_;
};

}  // namespace lyre::worker
