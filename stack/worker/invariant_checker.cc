#include "stack/worker/invariant_checker.h"

#include <algorithm>
#include <vector>

#include "stack/base/check.h"
#include "stack/session/session.h"

namespace lyre::worker {

void InvariantChecker::check(uint32_t connections) {
  const uint32_t bound = state_.engine.index_bound();
  for (uint32_t looked = 0; looked < std::min(connections, bound); ++looked) {
    if (cursor_ >= bound) cursor_ = 0;
    if (state_.engine.is_open(cursor_)) check_session(cursor_);
    ++cursor_;
  }
  if (connections < bound) return;
  state_.loans.check_invariants();
  state_.accounts.check_invariants();
  check_places();
  check_sends();
  check_gauges();
}

void InvariantChecker::check_session(uint32_t conn) const {
  state_.engine.check_invariants(conn);
  const session::Session& checked = state_.sessions[conn];
  LYRE_CHECK(checked.generation != 0);
  LYRE_CHECK(checked.context == session::kNoContext ||
             state_.contexts[checked.context].state != Context::State::kFree);
  const tcp::State state = state_.engine.state(conn);
  LYRE_CHECK(state_.orphans.holds(conn) ==
             (checked.context == session::kNoContext && !checked.is_embryonic));
  LYRE_CHECK(!state_.orphans.holds(conn) ||
             checked.is_orphan_in_time_wait == (state == tcp::State::kTimeWait));
  LYRE_CHECK(!checked.is_embryonic || checked.owner_link.is_linked());
  const bool is_closed = state == tcp::State::kClosed;
  // One that a successor could not take has no peer: HandoverReader::lose().
  LYRE_CHECK(is_closed || state_.find_connection(state_.engine.tuple(conn)) == conn);
  const bool is_lent_to =
      checked.context != session::kNoContext && state_.contexts[checked.context].is_lent;
  LYRE_CHECK(is_closed || !is_lent_to ||
             uint64_t{checked.lent_slots} * state_.memory.rx_slot_bytes() <=
                 state_.engine.charged_bytes(conn));
  const Nanos deadline = state_.engine.next_deadline(conn);
  LYRE_CHECK(is_closed || deadline == kNever || state_.timers.covers(conn, deadline));
}

void InvariantChecker::check_places() const {
  std::vector<uint32_t> sessions(state_.accounts.user_count());
  std::vector<uint32_t> listeners(state_.accounts.user_count());
  for (const uint32_t index : state_.contexts.in_use()) {
    sessions[state_.accounts.user_of(index)] += state_.contexts[index].sessions.size();
    listeners[state_.accounts.user_of(index)] += state_.contexts[index].listeners.size();
  }
  for (uint32_t user = 0; user < state_.accounts.user_count(); ++user) {
    LYRE_CHECK(sessions[user] == state_.places.sessions_of(user));
    LYRE_CHECK(listeners[user] == state_.places.listeners_of(user));
  }
}

/// Every piece that is to be sent is counted once, with the client whose memory it is; orphans have
/// none.
void InvariantChecker::check_sends() const {
  std::vector<uint32_t> pieces(kContextsMax);
  for (uint32_t conn = 0; conn < state_.engine.index_bound(); ++conn) {
    const session::Session& sender = state_.sessions[conn];
    if (!state_.engine.is_open(conn) || sender.sends.piece_count == 0) continue;
    LYRE_CHECK(sender.context != session::kNoContext);
    pieces[sender.context] += sender.sends.piece_count;
  }
  uint32_t used = 0;
  for (const uint32_t index : state_.contexts.in_use()) {
    LYRE_CHECK(pieces[index] == state_.contexts[index].sends_under_way);
    used += pieces[index];
  }
  LYRE_CHECK(used == state_.sends.used());
}

void InvariantChecker::check_gauges() const {
  uint32_t time_waits = 0;
  uint32_t without_row = 0;
  for (uint32_t conn = 0; conn < state_.engine.index_bound(); ++conn) {
    if (!state_.engine.is_open(conn)) continue;
    time_waits += state_.engine.state(conn) == tcp::State::kTimeWait ? 1 : 0;
    without_row += state_.has_row(conn) ? 0 : 1;
  }
  LYRE_CHECK(time_waits == state_.time_waits);
  LYRE_CHECK(without_row == state_.without_row);
}

}  // namespace lyre::worker
