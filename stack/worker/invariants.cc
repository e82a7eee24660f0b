#include <algorithm>
#include <memory>

#include "stack/base/check.h"
#include "stack/session/session.h"
#include "stack/tcp/engine.h"
#include "stack/worker/clients/context.h"
#include "stack/worker/impl.h"

/// What must hold between two turns, for the simulator and the fuzzers.
namespace lyre::worker {

void Worker::Impl::check_invariants(uint32_t connections) {
  const uint32_t bound = engine.index_bound();
  for (uint32_t looked = 0; looked < std::min(connections, bound); ++looked) {
    if (check_cursor >= bound) check_cursor = 0;
    if (engine.is_open(check_cursor)) check_session(check_cursor);
    ++check_cursor;
  }
  if (connections < bound) return;
  loans.check_invariants();
  check_sends();
}

void Worker::Impl::check_session(uint32_t conn) const {
  engine.check_invariants(conn);
  const session::Session& checked = sessions[conn];
  LYRE_CHECK(checked.generation != 0);
  LYRE_CHECK(find_connection(engine.tuple(conn)) == conn);
  LYRE_CHECK(checked.context == session::kNoContext ||
             contexts[checked.context].state != Context::State::kFree);
  LYRE_CHECK(time_waits.holds(conn) == (checked.context == session::kNoContext &&
                                        engine.state(conn) == tcp::State::kTimeWait));
  const bool is_closed = engine.state(conn) == tcp::State::kClosed;
  LYRE_CHECK(is_closed ||
             uint64_t{checked.lent_slots} * memory.rx_slot_bytes() <= engine.charged_bytes(conn));
  const Nanos deadline = engine.next_deadline(conn);
  LYRE_CHECK(is_closed || deadline == kNever || timers.covers(conn, deadline));
}

/// Every piece that is to be sent is counted once, with the client whose memory it is; orphans have
/// none.
void Worker::Impl::check_sends() const {
  std::vector<uint32_t> pieces(kContextsMax);
  for (uint32_t conn = 0; conn < engine.index_bound(); ++conn) {
    const session::Session& sender = sessions[conn];
    if (!engine.is_open(conn) || sender.sends.piece_count == 0) continue;
    LYRE_CHECK(sender.context != session::kNoContext);
    pieces[sender.context] += sender.sends.piece_count;
  }
  uint32_t used = 0;
  for (const uint32_t index : contexts.in_use()) {
    LYRE_CHECK(pieces[index] == contexts[index].sends_under_way);
    used += pieces[index];
  }
  LYRE_CHECK(used == sends.used());
}

bool Worker::Impl::is_at_rest() const {
  const bool has_unsent = std::any_of(ports.begin(), ports.end(),
                                      [](const Port& port) { return !port.waiting().empty(); });
  return engine.connection_count() == 0 && contexts.in_use().empty() && loans.empty() &&
         !has_unsent && neighbours.cache().holders() == 0 && loop.empty() && loop_now.empty() &&
         transmit_queue.empty();
}

void Worker::Impl::replace_engine() {
  tcp::Engine copy(config.engine, {}, config.seed);  // copy_from() brings the key
  copy.copy_from(engine);
  std::destroy_at(&engine);
  std::construct_at(&engine, config.engine, SipKey{}, config.seed);
  engine.copy_from(copy);
}

}  // namespace lyre::worker
