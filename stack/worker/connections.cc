#include <algorithm>

#include "stack/ip/route_table.h"
#include "stack/session/session.h"
#include "stack/tcp/engine.h"
#include "stack/wire/tcp_segment.h"
#include "stack/worker/clients/context.h"
#include "stack/worker/flow_label.h"
#include "stack/worker/impl.h"
#include "stack/worker/tables/listeners.h"
#include "stack/worker/tables/time_wait_queue.h"

/// Sessions from their first to their last moment.
namespace lyre::worker {

namespace {

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
      return channel::EndStatus::kUnreachable;
  }
  return channel::EndStatus::kAborted;
}

}  // namespace

tcp::ConnectionConfig Worker::Impl::connection_config(const ip::RouteResult& route) const {
  tcp::ConnectionConfig connection = config.connection;
  const uint32_t header_bytes = wire::ip_and_tcp_header_bytes(route.next_hop);
  connection.mss_bytes = static_cast<uint16_t>(ports[route.port].mtu_bytes() - header_bytes);
  connection.slot_bytes = memory.rx_slot_bytes();
  return connection;
}

void Worker::Impl::bind_session(uint32_t conn, const FourTuple& tuple,
                                const ip::RouteResult& route) {
  session::Session& opened = session(conn);
  opened = session::Session{};
  opened.generation = ++generations;
  opened.port = route.port;
  opened.next_hop = route.next_hop;
  opened.flow_label = flow_label_of(tuple, flow_label_key);
  opened.is_local = route.is_local;
  opened.opened_at = now;
  flows.insert(tuple, conn);
  if (!router.claim(tuple)) drop(Drop::kRedirectFull);
}

void Worker::Impl::link_to_context(uint32_t conn, uint32_t context) {
  session(conn).context = context;
  contexts[context].sessions.push_front(sessions, conn);
}

/// Nobody is left who knows the session: it waits out TIME-WAIT behind those that came before.
void Worker::Impl::queue_time_wait(uint32_t conn) {
  if (session(conn).context != session::kNoContext) return;
  if (engine.state(conn) == tcp::State::kTimeWait) time_waits.add(conn);
}

bool Worker::Impl::must_make_room() const {
  return engine.connection_count() >= config.engine.connections_max && !time_waits.empty();
}

/// When every place is taken, the oldest TIME-WAIT ends early: what it guards against is rare, and
/// timestamps and random sequence numbers guard the next connection as well.
void Worker::Impl::make_room() {
  if (!must_make_room()) return;
  stats.worker->time_waits_cut.add(1);
  end_time_wait(time_waits.oldest());
}

void Worker::Impl::end_time_wait(uint32_t conn) {
  tcp::Effects effects;
  std::optional<tcp::SegmentOut> none;
  engine.on_app_abort(conn, now, effects, none);
  end_session(conn, tcp::EndReason::kClosed);
}

/// From now on nobody hears of the session: it ends by itself.
void Worker::Impl::forget_context(uint32_t conn) {
  session::Session& orphan = session(conn);
  if (orphan.context == session::kNoContext) return;
  remove_dirty(conn);
  drop_sends(orphan);  // they count against the client, and name its memory, which may go now
  contexts[orphan.context].sessions.remove(sessions, conn);
  orphan.context = session::kNoContext;
  orphan.must_announce_open = orphan.must_announce_finish = orphan.must_announce_end = false;
  discard_payload(conn);
  queue_time_wait(conn);
}

channel::EndStatus Worker::Impl::open_session(uint32_t context, const Endpoint& local,
                                              const Endpoint& remote, uint64_t cookie,
                                              uint32_t& conn) {
  if (!local.address.is_unspecified() && !routes.is_own(local.address)) {
    return channel::EndStatus::kAddressUnknown;
  }
  const auto route = local.address.is_unspecified()
                         ? routes.lookup(remote.address)
                         : routes.lookup_from(local.address, remote.address);
  if (!route || remote.port == 0) return channel::EndStatus::kUnreachable;
  FourTuple tuple{.local = {route->source, local.port}, .remote = remote};
  if (!local.address.is_unspecified()) tuple.local.address = local.address;
  if (tuple.local.port == 0) {
    const auto port = choose_port(tuple.local.address, remote);
    if (!port) return channel::EndStatus::kNoResources;
    tuple.local.port = *port;
  } else if (find_connection(tuple) != FlowTable::kNone) {
    return channel::EndStatus::kAddressInUse;
  }
  if (!router.can_claim(tuple)) return channel::EndStatus::kNoResources;
  make_room();
  conn = engine.open_active(tuple, connection_config(*route), now);
  if (conn == tcp::kNoConn) return channel::EndStatus::kNoResources;
  bind_session(conn, tuple, *route);
  session(conn).cookie = cookie;
  link_to_context(conn, context);
  transmit_queue.schedule(conn);
  arm(conn);
  return channel::EndStatus::kOk;
}

/// RFC 6056 3.3.1: a random port of those that are this worker's and free towards `remote`.
std::optional<uint16_t> Worker::Impl::choose_port(const IpAddress& local, const Endpoint& remote) {
  const uint32_t count = config.ephemeral_port_last - config.ephemeral_port_first + 1u;
  const uint32_t mine = count / config.worker_count;
  if (mine == 0) return std::nullopt;
  const auto start = static_cast<uint32_t>(rng.below(mine));
  for (uint32_t i = 0; i < mine; ++i) {
    const uint32_t step = (start + i) % mine;
    const auto port = static_cast<uint16_t>(config.ephemeral_port_first +
                                            step * config.worker_count + config.index);
    if (listeners.is_port_used(port)) continue;
    if (find_connection({{local, port}, remote}) == FlowTable::kNone) return port;
  }
  return std::nullopt;
}

/// Carries out what one call of the engine changed. It calls the engine again itself, with effects
/// of their own, and may release the connection.
void Worker::Impl::apply(uint32_t conn, const tcp::Effects& effects) {
  session::Session& changed = session(conn);
  if (effects.drop) drop(*effects.drop);
  if (effects.acked_bytes > 0) {
    stats.worker->tcp_payload_acked.add(effects.acked_bytes);
    const uint32_t finished = sends.on_acked(changed.sends, effects.acked_bytes);
    count_finished(changed, finished);
    changed.must_announce_progress = now - changed.sends_announced_at >= kProgressNewsPause;
    if (finished > 0 || changed.must_announce_progress) mark_dirty(conn);
    if (changed.is_closed_by_client && changed.sends.piece_count == 0) {
      changed.must_announce_end = true;
      mark_dirty(conn);
    }
  }
  if (effects.has_superseded) release_superseded(conn);
  if (effects.became_established) on_established(conn);
  if (!engine.is_open(conn)) return;
  if (effects.has_readable) {
    changed.has_readable = true;
    if (changed.is_closed_by_client) {
      discard_payload(conn);
    } else {
      mark_dirty(conn);
    }
  }
  if (effects.peer_finished && !changed.is_closed_by_client) {
    changed.must_announce_finish = true;
    mark_dirty(conn);
  }
  if (effects.wants_transmit) transmit_queue.schedule(conn);
  if (effects.is_over) {
    if (effects.wants_transmit) send_last_word(conn);
    end_session(conn, effects.reason);
  } else {
    if (effects.entered_time_wait) end_in_time_wait(conn);
    arm(conn);
  }
}

void Worker::Impl::count_finished(const session::Session& sender, uint32_t count) {
  if (sender.context != session::kNoContext) contexts[sender.context].sends_under_way -= count;
}

void Worker::Impl::drop_sends(session::Session& sender) {
  count_finished(sender, sends.clear(sender.sends));
}

void Worker::Impl::release_superseded(uint32_t conn) {
  while (const auto handle = engine.take_superseded(conn)) release_chain(handle->slot);
}

/// The RST of a connection that gave up: the last segment before it is forgotten.
void Worker::Impl::send_last_word(uint32_t conn) {
  if (const auto reset = engine.poll_transmit(conn, 0, now)) {
    send_alone(engine.tuple(conn), *reset);
  }
}

void Worker::Impl::on_established(uint32_t conn) {
  session::Session& opened = session(conn);
  if (!opened.is_passive) {
    stats.worker->connects.add(1);
    opened.must_announce_open = true;
    mark_dirty(conn);
    return;
  }
  stats.worker->accepts.add(1);
  leave_handshake(conn);
  if (!listeners.is_valid(opened.listener, opened.listener_generation)) {
    abort_session(conn, channel::EndStatus::kAborted);  // its listener was closed meanwhile
    return;
  }
  link_to_context(conn, listeners[opened.listener].context);
  opened.must_announce_open = true;
  mark_dirty(conn);
}

/// The client need not wait out TIME-WAIT: for it the session is over in good order.
void Worker::Impl::end_in_time_wait(uint32_t conn) {
  session::Session& ended = session(conn);
  ended.is_over = true;
  ended.must_announce_end = true;
  if (ended.context != session::kNoContext) mark_dirty(conn);
  queue_time_wait(conn);
}

void Worker::Impl::end_session(uint32_t conn, tcp::EndReason reason) {
  session::Session& ended = session(conn);
  ended.is_over = true;
  if (ended.end_status == channel::EndStatus::kOk) ended.end_status = status_of(reason);
  if (reason == tcp::EndReason::kReset) stats.worker->tcp_resets_in.add(1);
  if (ended.listener != session::kNoIndex) leave_listener(conn);
  if (reason != tcp::EndReason::kClosed) {
    // Bytes that can no longer be sent are finished; bytes not yet delivered in order are lost.
    drop_sends(ended);
    if (ended.is_closed_by_client || ended.context == session::kNoContext) discard_payload(conn);
  }
  if (!ended.is_passive && !ended.was_announced && ended.context != session::kNoContext) {
    stats.worker->connect_failures.add(ended.must_announce_open ? 0 : 1);
  }
  ended.must_announce_end = true;
  if (ended.context != session::kNoContext) mark_dirty(conn);
  timers.stop(conn);
  release_if_done(conn);
}

void Worker::Impl::leave_handshake(uint32_t conn) {
  session::Session& passive = session(conn);
  if (!passive.is_embryonic) return;
  passive.is_embryonic = false;
  if (listeners.is_valid(passive.listener, passive.listener_generation)) {
    --listeners[passive.listener].embryonic;
  }
}

void Worker::Impl::leave_listener(uint32_t conn) {
  session::Session& passive = session(conn);
  leave_handshake(conn);
  const uint32_t index = passive.listener;
  passive.listener = session::kNoIndex;
  if (listeners.is_valid(index, passive.listener_generation)) --listeners[index].pending;
}

void Worker::Impl::close_by_client(uint32_t conn) {
  session::Session& closed = session(conn);
  closed.is_closed_by_client = true;
  discard_payload(conn);
  if (!closed.is_over) {
    tcp::Effects effects;
    engine.on_app_close(conn, now, effects);
    apply(conn, effects);
    if (!engine.is_open(conn)) return;
  }
  if (closed.sends.piece_count == 0) {
    closed.must_announce_end = true;
    mark_dirty(conn);
  }
  release_if_done(conn);
}

void Worker::Impl::abort_session(uint32_t conn, channel::EndStatus status) {
  session::Session& aborted = session(conn);
  aborted.end_status = status;
  if (status == channel::EndStatus::kAborted) aborted.is_closed_by_client = true;
  if (aborted.is_over) {
    drop_sends(aborted);
    discard_payload(conn);
    release_if_done(conn);
    return;
  }
  const FourTuple tuple = engine.tuple(conn);
  std::optional<tcp::SegmentOut> reset;
  // Pieces that a port may still read: the client hears of the end when it let go of them.
  if (aborted.sends.piece_count > 0) {
    aborted.was_retransmitted = true;
    aborted.retransmitted_region = session::kManyRegions;
  }
  tcp::Effects effects;
  engine.on_app_abort(conn, now, effects, reset);
  if (reset) send_alone(tuple, *reset);
  end_session(conn, tcp::EndReason::kAborted);
}

/// Gives the connection's place back once TCP is done with it and the client knows everything.
void Worker::Impl::release_if_done(uint32_t conn) {
  session::Session& done = session(conn);
  if (!engine.is_open(conn) || engine.state(conn) != tcp::State::kClosed) return;
  if (done.context != session::kNoContext) return;  // completions.cc comes back here
  release_all_payload(conn);
  drop_sends(done);
  time_waits.remove(conn);
  flows.erase(engine.tuple(conn), conn);
  router.unclaim(engine.tuple(conn));
  timers.stop(conn);
  transmit_queue.remove(conn);
  release_neighbour(done);
  if (conn < stats.rows.size()) stats.rows[conn].write(nullptr);
  engine.release(conn);
  done.generation = 0;
}

}  // namespace lyre::worker
