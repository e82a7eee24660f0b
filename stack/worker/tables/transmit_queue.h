#pragma once

#include <algorithm>
#include <cstdint>

#include "stack/base/index_list.h"
#include "stack/session/session.h"

namespace lyre::worker {

/// Sessions that may have something to send, in the order of their turns, and those that wait for
/// the MAC address of their neighbour. A session is in one of the two lists, or in none.
/// Owner: borrows the table of sessions for its lifetime. Thread: the worker.
class TransmitQueue {
 public:
  explicit TransmitQueue(session::Session* sessions) : sessions_(sessions) {}

  /// Puts the session at the end of the queue; one that waits for its neighbour stops waiting. No
  /// effect on one that is in the queue already.
  void schedule(uint32_t conn) {
    session::Session& scheduled = sessions_[conn];
    if (scheduled.waits_for_neighbour) stop_waiting(conn);
    if (!scheduled.transmit_link.is_linked()) ready_.push_back(sessions_, conn);
  }
  /// Takes the session out of either list. No effect on one that is in none.
  void remove(uint32_t conn) {
    const session::Session& removed = sessions_[conn];
    if (removed.waits_for_neighbour) return stop_waiting(conn);
    if (removed.transmit_link.is_linked()) ready_.remove(sessions_, conn);
  }
  /// The session whose turn it is leaves the queue. REQUIRES: not empty.
  uint32_t take() {
    const uint32_t conn = ready_.front();
    ready_.remove(sessions_, conn);
    return conn;
  }
  bool empty() const { return ready_.empty(); }
  uint32_t size() const { return ready_.size(); }

  /// The session waits until it is woken or scheduled. REQUIRES: it is in neither list.
  void wait_for_neighbour(uint32_t conn) {
    waiting_.push_back(sessions_, conn);
    sessions_[conn].waits_for_neighbour = true;
  }
  /// All sessions that wait now are to be woken. wake_some() does it.
  void begin_waking() { to_wake_ = waiting_.size(); }
  bool is_waking() const { return to_wake_ > 0; }
  /// Schedules at most `count_max` of the sessions that are to be woken, the longest waiting first.
  void wake_some(uint32_t count_max) {
    // Some of them may have left the list since.
    to_wake_ = std::min(to_wake_, waiting_.size());
    for (; to_wake_ > 0 && count_max > 0; --to_wake_, --count_max) schedule(waiting_.front());
  }

 private:
  void stop_waiting(uint32_t conn) {
    waiting_.remove(sessions_, conn);
    sessions_[conn].waits_for_neighbour = false;
  }

  session::Session* sessions_;
  IndexList<session::Session, &session::Session::transmit_link> ready_;
  IndexList<session::Session, &session::Session::transmit_link> waiting_;
  uint32_t to_wake_ = 0;
};

}  // namespace lyre::worker
