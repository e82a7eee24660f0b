#include "stack/worker/session_lifecycle.h"

#include "stack/wire/tcp_segment.h"
#include "stack/worker/flow_label.h"
#include "stack/worker/listener_lookup.h"
#include "stack/worker/turn_limits.h"

namespace lyre::worker {

namespace {

/// In a row: R1 of RFC 9293 3.8.3. A probe of the tail comes before the first of them, so this is
/// the third time that data is sent again.
constexpr uint8_t kTimeoutsBeforeDoubt = 2;

channel::EndStatus status_of(tcp::EndReason reason) {
  switch (reason) {
    case tcp::EndReason::kNone:
    case tcp::EndReason::kClosed:
      return channel::EndStatus::kOk;
    case tcp::EndReason::kReset:
      return channel::EndStatus::kReset;
    case tcp::EndReason::kRefused:
      return channel::EndStatus::kRefused;
    case tcp::EndReason::kTimedOut:
      return channel::EndStatus::kTimedOut;
    case tcp::EndReason::kAborted:
      return channel::EndStatus::kAborted;
    case tcp::EndReason::kUnreachable:
      return channel::EndStatus::kIcmpError;
  }
  return channel::EndStatus::kAborted;
}

}  // namespace

tcp::ConnectionConfig SessionLifecycle::connection_config(const ip::RouteResult& route) const {
  tcp::ConnectionConfig connection = state_.config.connection;
  const uint32_t header_bytes = wire::ip_and_tcp_header_bytes(route.next_hop);
  connection.mss_bytes = static_cast<uint16_t>(state_.ports[route.port].mtu_bytes() - header_bytes);
  connection.slot_bytes = state_.memory.rx_slot_bytes();
  return connection;
}

void SessionLifecycle::bind(uint32_t conn, const FourTuple& tuple, const ip::RouteResult& route,
                            ConnectionRouter::Claim claim) {
  session::Session& opened = state_.session(conn);
  opened = session::Session{};
  if (++generations_ == 0) ++generations_;  // a session that is over has 0
  opened.generation = generations_;
  opened.port = route.port;
  opened.next_hop = route.next_hop;
  opened.marking = state_.ports[route.port].marking();
  opened.flow_label = flow_label_of(tuple, state_.flow_label_key);
  opened.is_local = route.is_local;
  opened.opened_at = state_.now;
  if (!state_.has_row(conn)) ++state_.without_row;
  state_.flows.insert(tuple, conn);
  if (!state_.router.claim(tuple, claim)) state_.drop(Drop::kRedirectFull);
  const auto path = state_.path_mtus.find(tuple.remote.address, state_.now);
  if (path) state_.engine.assume_path_mtu(conn, path->mtu_bytes, path->noted_at);
  trace_.open(conn);
}

/// A session that no client owns joins the queue of those.
void SessionLifecycle::queue_orphan(uint32_t conn) {
  if (state_.session(conn).context != session::kNoContext) return;
  state_.orphans.add(conn, state_.engine.state(conn) == tcp::State::kTimeWait);
}

bool SessionLifecycle::is_full() const {
  return state_.engine.connection_count() >= state_.config.engine.connections_max;
}

bool SessionLifecycle::can_make_room() const {
  return !is_full() || !state_.orphans.empty() || !state_.half_opens.empty();
}

void SessionLifecycle::make_room() {
  if (!is_full()) return;
  const uint32_t time_wait = state_.orphans.oldest_time_wait();
  const uint32_t closing = state_.orphans.oldest_closing();
  if (time_wait != OrphanQueue::kNone) {
    state_.stats.worker->time_waits_cut.add(1);
    end_silently(time_wait);
  } else if (closing != OrphanQueue::kNone) {
    state_.stats.worker->orphans_cut.add(1);
    abort(closing, channel::EndStatus::kAborted);
  } else {
    cut_half_open(HalfOpenQueue::kNone);
  }
}

void SessionLifecycle::cut_half_open(uint32_t for_listener) {
  const uint32_t dropped = state_.half_opens.first_to_drop(for_listener);
  if (dropped == HalfOpenQueue::kNone) return;
  state_.stats.worker->half_opens_cut.add(1);
  end_silently(dropped);
}

void SessionLifecycle::end_silently(uint32_t conn) {
  (void)state_.engine.on_app_abort(conn, state_.now);
  end(conn, tcp::EndReason::kClosed);
}

void SessionLifecycle::forget_context(uint32_t conn) {
  session::Session& orphan = state_.session(conn);
  if (orphan.context == session::kNoContext) return;
  state_.notifier.remove(conn);
  drop_sends(orphan);      // they count against the client, and name its memory, which may go now
  payload_.discard(conn);  // it is charged to the client, and will not be read
  payload_.release_out_of_order(conn);
  state_.release_neighbour(orphan);
  state_.contexts[orphan.context].sessions.remove(state_.sessions, conn);
  state_.places.remove_session(state_.accounts.user_of(orphan.context));
  orphan.context = session::kNoContext;
  orphan.must_announce_open = orphan.must_announce_finish = orphan.must_announce_end = false;
  queue_orphan(conn);
}

std::optional<channel::EndStatus> SessionLifecycle::open(uint32_t context, const Endpoint& local,
                                                         const Endpoint& remote, uint64_t cookie,
                                                         uint32_t& conn) {
  if (!local.address.is_unspecified() && !state_.routes.is_own(local.address)) {
    return channel::EndStatus::kAddressUnknown;
  }
  const auto route = local.address.is_unspecified()
                         ? state_.routes.lookup(remote.address)
                         : state_.routes.lookup_from(local.address, remote.address);
  if (!route || remote.port == 0) return channel::EndStatus::kNoRoute;
  if (!state_.contexts[context].may_talk(route->port, local.port, remote.address)) {
    return channel::EndStatus::kForbidden;
  }
  if (!state_.may_add_session(context)) return channel::EndStatus::kNoResources;
  FourTuple tuple{.local = {route->source, local.port}, .remote = remote};
  if (!local.address.is_unspecified()) tuple.local.address = local.address;
  if (tuple.local.port == 0) {
    const auto port = choose_port(tuple.local.address, remote, &state_.ports[route->port]);
    if (!port) return channel::EndStatus::kAddressInUse;
    tuple.local.port = *port;
  } else if (is_in_use(tuple) || is_for_another_user(state_, tuple, context)) {
    return channel::EndStatus::kAddressInUse;
  }
  if (!state_.router.can_claim(tuple)) return std::nullopt;
  make_room();
  conn = state_.engine.open_active(tuple, connection_config(*route), state_.now);
  if (conn == tcp::kNoConn) return channel::EndStatus::kNoResources;
  bind(conn, tuple, *route, ConnectionRouter::Claim::kOpen);
  state_.session(conn).cookie = cookie;
  state_.link_to_context(conn, context);
  state_.transmit_queue.schedule(conn);
  state_.arm(conn);
  return channel::EndStatus::kOk;
}

/// As far as it is known here: the home of the connection may refuse it later.
bool SessionLifecycle::is_in_use(const FourTuple& tuple) const {
  return state_.find_connection(tuple) != FlowTable::kNone ||
         state_.router.is_claimed_elsewhere(tuple);
}

void SessionLifecycle::refuse_open(const FourTuple& tuple) {
  const uint32_t conn = state_.find_connection(tuple);
  if (conn == FlowTable::kNone || state_.engine.state(conn) != tcp::State::kSynSent) return;
  abort(conn, channel::EndStatus::kAddressInUse);
}

void SessionLifecycle::fail_open(uint32_t conn, channel::EndStatus status) {
  abort(conn, status);
  const session::Session& failed = state_.session(conn);
  Context& context = state_.contexts[failed.context];
  if (context.state != Context::State::kAttached || context.completions.room() == 0) return;
  // No port has read its client's memory: nothing but the SYN was sent.
  state_.notifier.answer_open(context, channel::Event::kConnectFailed, status, failed.cookie, {},
                              state_.engine.tuple(conn));
  forget_context(conn);
  release_if_done(conn);
}

std::optional<uint16_t> SessionLifecycle::choose_port(const IpAddress& local,
                                                      const Endpoint& remote, const Port* through) {
  const uint32_t count =
      state_.config.ephemeral_port_last - state_.config.ephemeral_port_first + 1u;
  const uint32_t mine = count / state_.config.worker_count;
  if (mine == 0) return std::nullopt;
  const bool tries_all = mine <= kPortsTriedMax;
  const uint32_t count_max = tries_all ? mine : kPortsTriedMax;
  auto step = static_cast<uint32_t>(state_.rng.below(mine));
  std::optional<uint16_t> any;
  std::optional<uint16_t> unclaimable;
  for (uint32_t i = 0; i < count_max && (!any || i < kPortsToHashMax); ++i) {
    if (i > 0) step = tries_all ? (step + 1) % mine : static_cast<uint32_t>(state_.rng.below(mine));
    const auto port =
        static_cast<uint16_t>(state_.config.ephemeral_port_first +
                              step * state_.config.worker_count + state_.config.index);
    if (state_.listeners.is_port_used(port)) continue;
    const FourTuple tuple = {{local, port}, remote};
    if (is_in_use(tuple)) continue;
    if (through != nullptr && !state_.router.can_claim(tuple)) {
      unclaimable = port;
      continue;
    }
    const auto queue = through == nullptr ? std::nullopt : through->receive_queue_of(tuple);
    // Where the queue is unknown the open may move. Then it needs a home that knows its claims.
    const bool is_good = through == nullptr || (queue ? *queue == state_.config.index
                                                      : state_.router.knows_claims(tuple));
    if (is_good) return port;
    if (!any) any = port;
  }
  return any ? any : unclaimable;
}

void SessionLifecycle::note_changes(uint32_t conn) {
  const tcp::Changes changes = trace_.note_changes(conn);
  if (!changes.has(tcp::Change::kTimeout)) return;
  holds_.wait_for_port(state_.sessions[conn].port);
  if (state_.engine.info(conn).backoffs >= kTimeoutsBeforeDoubt) doubt_neighbour(conn);
}

/// A peer that repeats text did not receive our ACKs. A session that only receives has no timeouts,
/// so its next hop is doubted from the second such segment in a row on. The first may be a probe of
/// the tail.
void SessionLifecycle::note_arrival(uint32_t conn, const tcp::Effects& effects) {
  session::Session& receiver = state_.session(conn);
  if (effects.payload_kept) receiver.has_repeated_text = false;
  if (!effects.drop) return;
  state_.drop(*effects.drop);
  trace_.note_drop(conn, *effects.drop);
  if (*effects.drop != Drop::kTcpDuplicate) return;
  if (receiver.has_repeated_text) doubt_neighbour(conn);
  receiver.has_repeated_text = true;
}

/// RFC 9293 3.8.3, MUST-20. The next hop may have another MAC since a moment that nobody was told
/// of.
void SessionLifecycle::doubt_neighbour(uint32_t conn) {
  const session::Session& sender = state_.sessions[conn];
  if (sender.is_local || sender.next_hop.is_unspecified()) return;
  state_.neighbours.doubt(sender.port, sender.next_hop, state_.now);
}

void SessionLifecycle::apply(uint32_t conn, const tcp::Effects& effects) {
  session::Session& changed = state_.session(conn);
  note_arrival(conn, effects);
  if (effects.changes.any()) note_changes(conn);
  if (effects.acked_bytes > 0) on_acked(conn, effects.acked_bytes);
  if (effects.has_superseded) release_superseded(conn);
  if (effects.became_established) on_established(conn);
  if (!state_.engine.is_open(conn)) return;
  if (effects.has_readable) {
    changed.has_readable = true;
    if (changed.is_closed_by_client) {
      payload_.discard(conn);
    } else {
      state_.notifier.mark(conn);
    }
  }
  if (effects.peer_finished && !changed.is_closed_by_client) {
    changed.must_announce_finish = true;
    state_.notifier.mark(conn);
  }
  if (effects.wants_transmit) state_.transmit_queue.schedule(conn);
  if (effects.is_over) {
    if (effects.wants_transmit) send_final_reset(conn);
    end(conn, effects.reason);
  } else {
    if (effects.entered_time_wait) end_in_time_wait(conn);
    state_.arm(conn);
  }
}

void SessionLifecycle::on_acked(uint32_t conn, uint32_t bytes) {
  session::Session& acked = state_.session(conn);
  state_.stats.worker->tcp_payload_acked.add(bytes);
  const uint32_t finished = state_.sends.on_acked(acked.sends, bytes);
  count_finished(acked, finished);
  acked.must_announce_progress |= state_.now - acked.sends_announced_at >= kProgressNewsPause;
  if (finished > 0 || acked.must_announce_progress) state_.notifier.mark(conn);
  if (acked.is_closed_by_client && acked.sends.piece_count == 0) {
    acked.must_announce_end = true;
    state_.notifier.mark(conn);
  }
}

void SessionLifecycle::count_finished(const session::Session& sender, uint32_t count) {
  if (sender.context != session::kNoContext)
    state_.contexts[sender.context].sends_under_way -= count;
}

/// The pieces were not acknowledged, so the port may still read them. It is given no further ones,
/// and the client is told of their end when the port has freed all packets that it was given.
void SessionLifecycle::drop_sends(session::Session& sender) {
  if (sender.sends.piece_count > 0 && !sender.is_local) {
    sender.fence = state_.ports[sender.port].queued();
  }
  const uint32_t dropped = state_.sends.clear(sender.sends);
  sender.has_dropped_sends |= dropped > 0;
  count_finished(sender, dropped);
}

void SessionLifecycle::release_superseded(uint32_t conn) {
  tcp::ReceiveQueue queue = state_.engine.receive_queue(conn);
  while (const auto handle = queue.take_superseded())
    payload_.release_kept_chain(conn, handle->slot);
}

/// The RST of a connection that gave up: the last segment before it is forgotten.
void SessionLifecycle::send_final_reset(uint32_t conn) {
  if (const auto reset = state_.engine.poll_transmit(conn, 0, state_.now)) {
    output_.send_alone(state_.engine.tuple(conn), *reset);
  }
}

void SessionLifecycle::on_established(uint32_t conn) {
  session::Session& opened = state_.session(conn);
  if (!opened.is_passive) {
    state_.stats.worker->connects.add(1);
    opened.must_announce_open = true;
    state_.notifier.mark(conn);
    return;
  }
  state_.stats.worker->accepts.add(1);
  leave_handshake(conn);
  if (!state_.listeners.is_valid(opened.listener, opened.listener_generation)) {
    abort(conn, channel::EndStatus::kAborted);  // its listener was closed meanwhile
    return;
  }
  const uint32_t context = state_.listeners[opened.listener].context;
  // Cookies may have filled the backlog since its SYN came.
  state_.listeners[opened.listener].forget_read(state_.contexts[context].completions);
  if (state_.listeners[opened.listener].is_overfull()) {
    state_.drop(Drop::kTcpBacklogFull);
    abort(conn, channel::EndStatus::kAborted);
    return;
  }
  if (!state_.may_add_session(context)) {
    state_.drop(Drop::kTcpNoSessions);  // others were completed since its SYN came
    abort(conn, channel::EndStatus::kAborted);
    return;
  }
  state_.link_to_context(conn, context);
  opened.must_announce_open = true;
  state_.notifier.mark(conn);
}

/// The client need not wait out TIME-WAIT: for it the session is over in good order.
void SessionLifecycle::end_in_time_wait(uint32_t conn) {
  session::Session& ended = state_.session(conn);
  ended.is_over = true;
  ++state_.time_waits;
  ended.must_announce_end = true;
  if (ended.context != session::kNoContext) state_.notifier.mark(conn);
  queue_orphan(conn);
}

void SessionLifecycle::end(uint32_t conn, tcp::EndReason reason) {
  session::Session& ended = state_.session(conn);
  if (ended.is_over) --state_.time_waits;  // only TIME-WAIT is over before CLOSED
  ended.is_over = true;
  if (ended.end_status == channel::EndStatus::kOk) ended.end_status = status_of(reason);
  trace_.end(conn);
  // A handshake that was not complete is no connection: any host can begin one and reset it.
  const bool was_reset = reason == tcp::EndReason::kReset && !ended.is_embryonic;
  if (was_reset) state_.stats.worker->tcp_resets_in.add(1);
  if (ended.listener != session::kNoIndex) leave_listener(conn);
  if (reason != tcp::EndReason::kClosed) {
    // Bytes that can no longer be sent are finished; bytes not yet delivered in order are lost.
    drop_sends(ended);
    if (ended.is_closed_by_client || ended.context == session::kNoContext) payload_.discard(conn);
  }
  if (!ended.is_passive && !ended.was_announced && ended.context != session::kNoContext) {
    state_.stats.worker->connect_failures.add(ended.must_announce_open ? 0 : 1);
  }
  ended.must_announce_end = true;
  if (ended.context != session::kNoContext) state_.notifier.mark(conn);
  state_.timers.stop(conn);
  release_if_done(conn);
}

void SessionLifecycle::leave_handshake(uint32_t conn) {
  session::Session& passive = state_.session(conn);
  if (!passive.is_embryonic) return;
  state_.half_opens.remove(conn);
  passive.is_embryonic = false;
  if (state_.listeners.is_valid(passive.listener, passive.listener_generation)) {
    state_.listeners[passive.listener].end_handshake();
  }
}

void SessionLifecycle::leave_listener(uint32_t conn) {
  session::Session& passive = state_.session(conn);
  leave_handshake(conn);
  const uint32_t index = passive.listener;
  passive.listener = session::kNoIndex;
  if (state_.listeners.is_valid(index, passive.listener_generation))
    state_.listeners[index].leave();
}

void SessionLifecycle::close_by_client(uint32_t conn) {
  session::Session& closed = state_.session(conn);
  closed.is_closed_by_client = true;
  payload_.discard(conn);
  if (!closed.is_over) {
    const tcp::Effects effects = state_.engine.on_app_close(conn, state_.now);
    apply(conn, effects);
    if (!state_.engine.is_open(conn)) return;
  }
  if (closed.sends.piece_count == 0) {
    closed.must_announce_end = true;
    state_.notifier.mark(conn);
  }
  release_if_done(conn);
}

void SessionLifecycle::abort(uint32_t conn, channel::EndStatus status) {
  session::Session& aborted = state_.session(conn);
  aborted.end_status = status;
  if (status == channel::EndStatus::kAborted) aborted.is_closed_by_client = true;
  if (aborted.is_over) {
    drop_sends(aborted);
    lose_unread(conn);
    release_if_done(conn);
    return;
  }
  const FourTuple tuple = state_.engine.tuple(conn);
  const auto reset = state_.engine.on_app_abort(conn, state_.now);
  if (reset) output_.send_alone(tuple, *reset);
  end(conn, tcp::EndReason::kAborted);
}

void SessionLifecycle::lose_unread(uint32_t conn) {
  session::Session& aborted = state_.session(conn);
  if (aborted.has_readable) aborted.must_announce_finish = false;
  payload_.discard(conn);
}

void SessionLifecycle::release_if_done(uint32_t conn) {
  session::Session& done = state_.session(conn);
  if (!state_.engine.is_open(conn) || state_.engine.state(conn) != tcp::State::kClosed) return;
  if (done.context != session::kNoContext) return;  // Announcements::on_end_told() comes back here
  payload_.release_all(conn);
  drop_sends(done);
  state_.orphans.remove(conn);
  state_.flows.erase(state_.engine.tuple(conn), conn);
  state_.router.unclaim(state_.engine.tuple(conn));
  state_.timers.stop(conn);
  state_.transmit_queue.remove(conn);
  state_.release_neighbour(done);
  if (!state_.has_row(conn)) --state_.without_row;
  state_.stats.clear_row(conn);
  state_.engine.release(conn);
  done.generation = 0;
}

size_t SessionLifecycle::run_timers() {
  return state_.timers.advance(state_.now, kTimersPerPollMax, [this](uint32_t conn) {
    if (!state_.engine.is_open(conn)) return;
    // The wheel fires early where a deadline was moved back: check the engine's deadline.
    if (state_.engine.next_deadline(conn) > state_.now) return state_.arm(conn);
    const tcp::Effects effects = state_.engine.on_timer(conn, state_.now);
    apply(conn, effects);
  });
}

void SessionLifecycle::leave(uint32_t conn, bool resets) {
  if (resets) {
    abort(conn, channel::EndStatus::kAborted);
  } else if (!state_.session(conn).is_closed_by_client) {
    close_by_client(conn);
  }
  leave_if_finished(conn);
}

bool SessionLifecycle::leave_if_finished(uint32_t conn) {
  if (!state_.engine.is_open(conn)) return true;
  const session::Session& left = state_.session(conn);
  if (!left.is_over && left.sends.piece_count > 0) return false;
  forget_context(conn);
  release_if_done(conn);
  return true;
}

}  // namespace lyre::worker
