#pragma once

#include <cstdint>

#include "stack/base/check.h"
#include "stack/base/index_list.h"
#include "stack/session/session.h"

namespace lyre::worker {

/// Sessions whose handshake is complete and that no client owns any more: those in TIME-WAIT, and
/// those that still close, each the oldest first. They end early when places for connections are
/// short, because they count for no client.
/// Owner: borrows the table of sessions for its lifetime. Thread: the worker.
class OrphanQueue {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  explicit OrphanQueue(session::Session* sessions) : sessions_(sessions) {}

  /// No effect on one that is in that part of the queue already; one that closes may come to
  /// TIME-WAIT. REQUIRES: no context owns it.
  void add(uint32_t conn, bool is_in_time_wait) {
    session::Session& added = sessions_[conn];
    LYRE_CHECK(added.context == session::kNoContext);
    if (holds(conn) && added.is_orphan_in_time_wait == is_in_time_wait) return;
    remove(conn);
    added.is_orphan_in_time_wait = is_in_time_wait;
    list_of(added).push_back(sessions_, conn);
  }
  /// No effect on one that is not in the queue.
  void remove(uint32_t conn) {
    if (holds(conn)) list_of(sessions_[conn]).remove(sessions_, conn);
  }
  bool holds(uint32_t conn) const {
    const session::Session& session = sessions_[conn];
    return session.context == session::kNoContext && !session.is_embryonic &&
           session.owner_link.is_linked();
  }
  uint32_t oldest_time_wait() const { return time_waits_.front(); }  ///< kNone: there is none
  uint32_t oldest_closing() const { return closing_.front(); }       ///< kNone: there is none
  bool empty() const { return time_waits_.empty() && closing_.empty(); }

 private:
  using List = IndexList<session::Session, &session::Session::owner_link>;

  List& list_of(const session::Session& session) {
    return session.is_orphan_in_time_wait ? time_waits_ : closing_;
  }

  session::Session* sessions_;
  List time_waits_;
  List closing_;
};

}  // namespace lyre::worker
