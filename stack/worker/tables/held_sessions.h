#pragma once

#include <cstdint>
#include <vector>

#include "stack/base/index_list.h"
#include "stack/session/session.h"

namespace lyre::worker {

/// Sessions whose events wait until their port has freed the packets up to their fence: a queue for
/// each port. A session is linked there by its dirty_link, in place of its context's list.
/// Fences of a port grow, so the first of a queue is the next whose wait ends. A session that is
/// queued again after another event may wait for the sessions before it.
/// Owner: borrows the table of sessions for its lifetime. Thread: the worker.
class HeldSessions {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  HeldSessions(session::Session* sessions, uint32_t ports_max)
      : sessions_(sessions), queues_(ports_max) {}

  /// REQUIRES: it has a fence, and is in no list by its dirty_link.
  void add(uint32_t conn) {
    session::Session& held = sessions_[conn];
    Queue& queue = queues_[held.port];
    held.waits_for_port = true;
    const bool is_first = queue.empty() || held.fence < sessions_[queue.front()].fence;
    is_first ? queue.push_front(sessions_, conn) : queue.push_back(sessions_, conn);
  }
  /// REQUIRES: added, and not removed since.
  void remove(uint32_t conn) {
    queues_[sessions_[conn].port].remove(sessions_, conn);
    sessions_[conn].waits_for_port = false;
  }
  uint32_t first_of(uint8_t port) const { return queues_[port].front(); }  ///< kNone when empty

 private:
  using Queue = IndexList<session::Session, &session::Session::dirty_link>;

  session::Session* sessions_;
  std::vector<Queue> queues_;  ///< by port
};

}  // namespace lyre::worker
