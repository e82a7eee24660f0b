#pragma once

#include <cstdint>

#include "stack/base/index_list.h"
#include "stack/session/session.h"

namespace lyre::worker {

/// Sessions that may have something to send, each at most once, in the order of their turns.
/// Owner: borrows the table of sessions for its lifetime. Thread: the worker.
class TransmitQueue {
 public:
  explicit TransmitQueue(session::Session* sessions) : sessions_(sessions) {}

  /// At the end of the queue. No effect on one that is in it already.
  void schedule(uint32_t conn) {
    if (!sessions_[conn].transmit_link.is_linked()) queue_.push_back(sessions_, conn);
  }
  /// No effect on one that is not in the queue.
  void remove(uint32_t conn) {
    if (sessions_[conn].transmit_link.is_linked()) queue_.remove(sessions_, conn);
  }
  /// The session whose turn it is leaves the queue. REQUIRES: not empty.
  uint32_t take() {
    const uint32_t conn = queue_.front();
    queue_.remove(sessions_, conn);
    return conn;
  }
  bool empty() const { return queue_.empty(); }
  uint32_t size() const { return queue_.size(); }

 private:
  session::Session* sessions_;
  IndexList<session::Session, &session::Session::transmit_link> queue_;
};

}  // namespace lyre::worker
