#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "libclient/include/lyre/lyre.h"
#include "libclient/session.h"

namespace lyre::client {

/// The sessions and listeners with events, oldest first, and whether lyre_poll() has something to
/// return for. Thread: the context's. Owner: *borrows* its items, which leave it before they end.
class ReadyList {
 public:
  /// `what` (lyre_event_bits) happened on `item`.
  void mark(Waitable* item, uint32_t what);
  /// Forgets what happened on `item`.
  void unmark(Waitable* item);
  /// The oldest event, `happened` 0 when there is none. It stays until drop_first().
  lyre_event first() const;
  /// REQUIRES: first().happened != 0.
  void drop_first() { unmark(first_); }

  /// A send of `session` was refused for want of what all sessions share: the arena, the context's
  /// sends or the ring.
  void note_refusal(lyre_session& session);
  void forget_refusal(lyre_session& session);
  /// There may be room again: LYRE_EVENT_WRITABLE for every session that was refused.
  void note_room() {
    if (__builtin_expect(!refused_.empty(), 0)) tell_refused();
  }

  /// Something happened for which lyre_poll() returns, on no item of the list.
  void note_news() { has_news_ = true; }
  bool has_news() const { return has_news_; }
  bool take_news() { return std::exchange(has_news_, false); }
  /// The context fails next: what happened before that is told first, by take_kept_news().
  void keep_news() { has_kept_news_ = has_news_; }
  bool take_kept_news() { return std::exchange(has_kept_news_, false); }

 private:
  void tell_refused();

  Waitable* first_ = nullptr;
  Waitable* last_ = nullptr;
  std::vector<lyre_session*> refused_;
  bool has_news_ = false;
  bool has_kept_news_ = false;
};

}  // namespace lyre::client
