#include <cstring>
#include <optional>
#include <variant>

#include "stack/ip/input.h"
#include "stack/link/neighbours.h"
#include "stack/tcp/engine.h"
#include "stack/worker/impl.h"
#include "stack/worker/routing/connection_router.h"

/// What a worker does with packets and connections that its router sends to other workers or gets
/// from them.
namespace lyre::worker {

/// Unused: no other worker is known to have the connection of the packet.
PacketFate Worker::Impl::redirect(io::PacketBuf* packet, const FourTuple& tuple) {
  switch (router.redirect(packet, tuple)) {
    case ConnectionRouter::Redirected::kNotClaimed:
      return PacketFate::kUnused;
    case ConnectionRouter::Redirected::kAway:
      stats.worker->redirected_out.add(1);
      return PacketFate::kKept;
    case ConnectionRouter::Redirected::kNoRoom:
      memory.release({&packet, 1});
      drop(Drop::kRedirectFull);
      return PacketFate::kKept;
  }
  return PacketFate::kUnused;
}

void Worker::Impl::on_redirected_packet(uint32_t conn, const WorkerMessage& message) {
  stats.worker->redirected_in.add(1);
  if (may_migrate(conn)) return migrate(conn, message);
  io::PacketBuf* copy = copy_redirected(*message.packet);
  router.release_at_receiver(message);
  // No second redirection: the connection is here, or ends with this packet.
  if (copy != nullptr) on_packet(copy, ip::Origin::kWire, Redirect::kNo);
}

/// The packet lies in another worker's memory, where neither the engine nor clients may name it.
io::PacketBuf* Worker::Impl::copy_redirected(const io::PacketBuf& original) {
  io::PacketBuf* copy = memory.alloc_rx();
  if (copy == nullptr || copy->tailroom < original.length) {
    if (copy != nullptr) memory.release({&copy, 1});
    drop(Drop::kRxPoolLow);
    return nullptr;
  }
  std::memcpy(copy->data, original.data, original.length);
  copy->length = original.length;
  copy->tailroom = static_cast<uint16_t>(copy->tailroom - original.length);
  copy->port = original.port;
  copy->ip_checksum = original.ip_checksum;
  copy->l4_checksum = original.l4_checksum;
  copy->flow_hash = original.flow_hash;
  stats.worker->copied_rx_bytes.add(original.length);
  return copy;
}

void Worker::Impl::on_unclaimed_packet(io::PacketBuf* packet) {
  on_packet(packet, ip::Origin::kWire, Redirect::kNo);
}

void Worker::Impl::on_returned_packet(io::PacketBuf* packet) { memory.release({&packet, 1}); }

/// Only the open moves. So the client must have asked nothing else of the connection, neither to
/// send nor to shut it down, and its SYN must be the first: the round trip is measured from that.
bool Worker::Impl::may_migrate(uint32_t conn) {
  const session::Session& moving = session(conn);
  return engine.state(conn) == tcp::State::kSynSent && moving.context != session::kNoContext &&
         !moving.was_retransmitted && !moving.is_closed_by_client && !moving.is_shut_down &&
         moving.sends.piece_count == 0 && !is_shutting_down;
}

/// The answer to a SYN arrived at another worker, and the segments that follow will arrive there as
/// well. The connection moves to that worker, which tells the client of it.
void Worker::Impl::migrate(uint32_t conn, const WorkerMessage& message) {
  const session::Session& moving = session(conn);
  router.migrate_to_receiver(message,
                             {.context = moving.context,
                              .context_generation = contexts[moving.context].attached.generation,
                              .cookie = moving.cookie,
                              .opened_at = moving.opened_at});
  stats.worker->handed_over.add(1);
  // Before the abort: the client must not hear of an end here.
  forget_context(conn);
  tcp::Effects effects;
  std::optional<tcp::SegmentOut> no_reset;  // SYN-SENT ends without one (RFC 9293 3.10.5)
  engine.on_app_abort(conn, now, effects, no_reset);
  session(conn).is_over = true;
  release_if_done(conn);
}

/// Opens the same connection again: equal tuple, time and secret give equal sequence numbers and
/// timestamps. Its SYN has left already; the answer to it came with the message.
void Worker::Impl::on_migrated_connection(const WorkerMessage& message) {
  const auto& moved = *std::get_if<WorkerMessage::Migration>(&message.body);
  const Context& context = contexts[moved.context];
  const bool has_context = context.state == Context::State::kAttached &&
                           context.attached.generation == moved.context_generation;
  const FourTuple& tuple = message.tuple;
  const auto route = routes.lookup_from(tuple.local.address, tuple.remote.address);
  const bool is_free = find_connection(tuple) == FlowTable::kNone;
  uint32_t conn = tcp::kNoConn;
  if (has_context && route && is_free && router.can_claim(tuple)) {
    make_room();
    conn = engine.open_active(tuple, connection_config(*route), moved.opened_at);
  }
  if (conn == tcp::kNoConn) {
    if (has_context) refuse_migration(tuple, moved);
  } else {
    bind_session(conn, tuple, *route);
    session(conn).cookie = moved.cookie;
    session(conn).opened_at = moved.opened_at;
    link_to_context(conn, moved.context);
    // The engine must know its SYN as sent before the SYN-ACK comes; the segment is not used.
    static_cast<void>(engine.poll_transmit(conn, 0, moved.opened_at));
    arm(conn);
  }
  // The SYN-ACK, last: it completes the connection, or is answered with RST where there is none.
  on_packet(message.packet, ip::Origin::kWire, Redirect::kNo);
}

void Worker::Impl::refuse_migration(const FourTuple& tuple, const WorkerMessage::Migration& moved) {
  stats.worker->connect_failures.add(1);
  Context& context = contexts[moved.context];
  if (context.completions.room() == 0)
    return expel(context, "no room to say that a connect failed");
  answer_open(context, channel::Event::kConnectFailed, channel::EndStatus::kNoResources,
              moved.cookie, {}, tuple);
}

/// What neighbours answer reaches one worker, while each has asked. The worker that received the
/// packet answers and counts it; here it is only learned.
void Worker::Impl::on_neighbour_update(const WorkerMessage& message) {
  if (const auto* arp = std::get_if<WorkerMessage::ArpUpdate>(&message.body)) {
    static_cast<void>(neighbours.handle_arp(arp->port, arp->packet, now));
  } else if (const auto* ndp = std::get_if<WorkerMessage::NdpUpdate>(&message.body)) {
    static_cast<void>(neighbours.handle_ndp(ndp->port, ndp->arrival, now));
    follow_neighbours();
  }
}

}  // namespace lyre::worker
