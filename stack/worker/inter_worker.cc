#include "stack/worker/inter_worker.h"

#include <cstring>
#include <optional>
#include <variant>

#include "stack/channel/abi.h"
#include "stack/session/session.h"

namespace lyre::worker {

void InterWorker::on_redirected_packet(uint32_t conn, const WorkerMessage& message) {
  state_.stats.worker->redirected_in.add(1);
  if (may_migrate(conn, message)) return migrate(conn, message);
  io::PacketBuf* copy = copy_redirected(message);
  state_.router.release_at_receiver(message);
  // No second redirection: the connection is here, or ends with this packet.
  if (copy != nullptr) parts_.input.on_packet(copy, ip::Origin::kWire, Redirect::kNo);
}

/// The packet lies in another worker's memory, where neither the engine nor clients may name it. A
/// super-packet is copied slot by slot.
io::PacketBuf* InterWorker::copy_redirected(const WorkerMessage& message) {
  io::PacketBuf* first = nullptr;
  io::PacketBuf* last = nullptr;
  for (const io::PacketBuf* original = message.packet; original != nullptr;
       original = next_of(*original, message)) {
    io::PacketBuf* copy = copy_packet(*original);
    if (copy == nullptr) {
      io::release_chain(state_.memory, first);
      state_.drop(Drop::kRxPoolLow);
      return nullptr;
    }
    if (last == nullptr) {
      first = copy;
    } else {
      last->next_slot = copy->slot;
    }
    last = copy;
  }
  return first;
}

/// The next packet of a chain. Its receiver does not touch it before the first is given back.
const io::PacketBuf* InterWorker::next_of(const io::PacketBuf& original,
                                          const WorkerMessage& message) const {
  if (original.next_slot == io::PacketBuf::kNoSlot) return nullptr;
  return state_.router.memory_of_receiver(message).rx_packet(original.next_slot);
}

/// Without what is chained to it. nullptr: no slot is free.
io::PacketBuf* InterWorker::copy_packet(const io::PacketBuf& original) {
  io::PacketBuf* copy = state_.memory.alloc_rx();
  if (copy == nullptr || copy->tailroom < original.length) {
    if (copy != nullptr) state_.memory.release({&copy, 1});
    return nullptr;
  }
  std::memcpy(copy->data, original.data, original.length);
  copy->length = original.length;
  copy->tailroom = static_cast<uint16_t>(copy->tailroom - original.length);
  copy->port = original.port;
  copy->ip_checksum = original.ip_checksum;
  copy->l4_checksum = original.l4_checksum;
  copy->flow_hash = original.flow_hash;
  copy->rest_bytes = original.rest_bytes;
  copy->rest_slots = original.rest_slots;
  state_.stats.worker->copied_rx_bytes.add(original.length);
  return copy;
}

void InterWorker::on_unclaimed_packet(io::PacketBuf* packet) {
  parts_.input.on_packet(packet, ip::Origin::kWire, Redirect::kNo);
}

/// Only the open moves, and only with the SYN-ACK that completes it: anybody can send an ICMP error
/// or a segment that is none, and choose the worker where it arrives. So the client must have asked
/// nothing else of the connection, neither to send nor to shut it down, and its SYN must be the
/// first: the round trip is measured from that. The control thread tells workers of a client one
/// after the other, and a worker that does not know the client could not tell it how its connect
/// ended.
bool InterWorker::may_migrate(uint32_t conn, const WorkerMessage& message) {
  const session::Session& moving = state_.session(conn);
  if (!message.syn_acked) return false;
  return state_.engine.state(conn) == tcp::State::kSynSent &&
         state_.engine.info(conn).send_next == *message.syn_acked &&
         moving.context != session::kNoContext &&
         state_.contexts[moving.context].state == Context::State::kAttached &&
         state_.contexts[moving.context].is_known_to_all(state_.config.worker_count) &&
         !moving.was_retransmitted && !moving.is_closed_by_client && !moving.is_shut_down &&
         moving.sends.piece_count == 0 && !state_.is_shutting_down;
}

/// The answer to a SYN arrived at another worker, and the segments that follow will arrive there as
/// well. The connection moves to that worker, which tells the client of it.
void InterWorker::migrate(uint32_t conn, const WorkerMessage& message) {
  const session::Session& moving = state_.session(conn);
  state_.router.migrate_to_receiver(
      message, {.context = moving.context,
                .context_generation = state_.contexts[moving.context].attached.generation,
                .cookie = moving.cookie,
                .opened_at = moving.opened_at});
  state_.stats.worker->handed_over.add(1);
  // Before the abort: the client must not be told of an end here.
  parts_.lifecycle.forget_context(conn);
  (void)state_.engine.on_app_abort(conn,
                                   state_.now);  // SYN-SENT ends without a RST (RFC 9293 3.10.5)
  state_.session(conn).is_over = true;
  parts_.lifecycle.release_if_done(conn);
}

/// Opens the same connection again: equal tuple, time and secret give equal sequence numbers and
/// timestamps. Its SYN has left already; the answer to it came with the message.
void InterWorker::on_migrated_connection(const WorkerMessage& message) {
  const auto& moved = *std::get_if<WorkerMessage::Migration>(&message.body);
  const Context& context = state_.contexts[moved.context];
  const bool has_context = context.state == Context::State::kAttached &&
                           context.attached.generation == moved.context_generation;
  const FourTuple& tuple = message.tuple;
  const auto route = state_.routes.lookup_from(tuple.local.address, tuple.remote.address);
  const bool is_free = state_.find_connection(tuple) == FlowTable::kNone;
  uint32_t conn = tcp::kNoConn;
  if (has_context && route && is_free && state_.may_add_session(moved.context) &&
      state_.router.can_claim(tuple)) {
    parts_.lifecycle.make_room();
    conn = state_.engine.open_active(tuple, parts_.lifecycle.connection_config(*route),
                                     moved.opened_at);
  }
  if (conn == tcp::kNoConn) {
    if (has_context) refuse_migration(tuple, moved);
  } else {
    parts_.lifecycle.bind(conn, tuple, *route);
    state_.session(conn).cookie = moved.cookie;
    state_.session(conn).opened_at = moved.opened_at;
    parts_.lifecycle.begin_trace(conn);  // a trace is found by the time of its open
    state_.link_to_context(conn, moved.context);
    // The engine must know its SYN as sent before the SYN-ACK comes; the segment is not used.
    static_cast<void>(state_.engine.poll_transmit(conn, 0, moved.opened_at));
    state_.arm(conn);
  }
  // The SYN-ACK, last: it completes the connection, or is answered with RST where there is none.
  parts_.input.on_packet(message.packet, ip::Origin::kWire, Redirect::kNo);
}

void InterWorker::refuse_migration(const FourTuple& tuple, const WorkerMessage::Migration& moved) {
  state_.stats.worker->connect_failures.add(1);
  Context& context = state_.contexts[moved.context];
  const FailedOpen failed{.cookie = moved.cookie,
                          .tuple = tuple,
                          .status = channel::EndStatus::kNoResources,
                          .link = {}};
  if (!state_.notifier.try_fail_open(context, failed))
    parts_.replies.expel(context, "no room to say that a connect failed");
}

}  // namespace lyre::worker
