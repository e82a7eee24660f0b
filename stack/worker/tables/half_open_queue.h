#pragma once

#include <cstdint>

#include "stack/base/index_list.h"
#include "stack/session/session.h"

namespace lyre::worker {

/// Handshakes that peers began may use one in so many of the places for connections.
inline constexpr uint32_t kHalfOpenShare = 2;

/// Passive opens whose handshake is under way, the oldest first. Any host can send SYNs, so they
/// have a share of the places, and the oldest is dropped when another connection needs its place.
/// Owner: borrows the table of sessions for its lifetime. Thread: the worker.
class HalfOpenQueue {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  HalfOpenQueue(session::Session* sessions, uint32_t share)
      : sessions_(sessions), share_(share > 0 ? share : 1) {}

  /// REQUIRES: no context owns it, and is_embryonic.
  void add(uint32_t conn) { queue_.push_back(sessions_, conn); }
  /// REQUIRES: added, and not removed since.
  void remove(uint32_t conn) { queue_.remove(sessions_, conn); }
  uint32_t oldest() const { return queue_.front(); }  ///< kNone when empty
  bool empty() const { return queue_.empty(); }
  uint32_t size() const { return queue_.size(); }
  bool is_share_used() const { return queue_.size() >= share_; }

 private:
  session::Session* sessions_;
  uint32_t share_;
  IndexList<session::Session, &session::Session::owner_link> queue_;
};

}  // namespace lyre::worker
