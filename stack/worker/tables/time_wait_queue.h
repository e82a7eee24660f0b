#pragma once

#include <cstdint>

#include "stack/base/index_list.h"
#include "stack/session/session.h"

namespace lyre::worker {

/// Sessions in TIME-WAIT that no client owns any more, the oldest first: they end early when
/// places for connections are short.
/// Owner: borrows the table of sessions for its lifetime. Thread: the worker.
class TimeWaitQueue {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  explicit TimeWaitQueue(session::Session* sessions) : sessions_(sessions) {}

  /// No effect on one that is in the queue already. REQUIRES: no context owns it.
  void add(uint32_t conn) {
    LYRE_CHECK(sessions_[conn].context == session::kNoContext);
    if (!holds(conn)) queue_.push_back(sessions_, conn);
  }
  /// No effect on one that is not in the queue.
  void remove(uint32_t conn) {
    if (holds(conn)) queue_.remove(sessions_, conn);
  }
  bool holds(uint32_t conn) const {
    const session::Session& session = sessions_[conn];
    return session.context == session::kNoContext && !session.is_embryonic &&
           session.owner_link.is_linked();
  }
  uint32_t oldest() const { return queue_.front(); }  ///< kNone when empty
  bool empty() const { return queue_.empty(); }

 private:
  session::Session* sessions_;
  IndexList<session::Session, &session::Session::owner_link> queue_;
};

}  // namespace lyre::worker
