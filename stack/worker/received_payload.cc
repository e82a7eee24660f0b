#include "stack/worker/received_payload.h"

#include <algorithm>
#include <cstring>

#include "stack/io/packet_io.h"

namespace lyre::worker {

void ReceivedPayload::release_slot(uint32_t slot) {
  io::PacketBuf* packet = state_.memory.rx_packet(slot);
  state_.memory.release({&packet, 1});
}

uint32_t ReceivedPayload::release_chain(uint32_t slot) {
  uint32_t count = 0;
  for (; slot != io::PacketBuf::kNoSlot; ++count) {
    const uint32_t next = state_.memory.rx_packet(slot)->next_slot;
    release_slot(slot);
    slot = next;
  }
  return count;
}

void ReceivedPayload::return_charge(uint32_t conn, uint32_t charge_bytes) {
  if (state_.engine.state(conn) == tcp::State::kClosed) return;
  const tcp::Effects released = state_.engine.on_app_release(conn, charge_bytes, state_.now);
  if (released.wants_transmit) state_.transmit_queue.schedule(conn);
}

std::optional<PayloadSlice> ReceivedPayload::take_slice(uint32_t conn) {
  session::Chain& chain = state_.session(conn).chain;
  if (chain.slot == session::kNoIndex) {
    const auto run = state_.engine.receive_queue(conn).take_readable();
    if (!run) return std::nullopt;
    chain = {.slot = run->handle.slot, .offset = run->offset, .bytes = run->length};
  }
  io::PacketBuf* packet = state_.memory.rx_packet(chain.slot);
  while (chain.offset >= packet->length) {
    chain.offset -= packet->length;
    chain.slot = packet->next_slot;
    release_kept_slot(conn, packet->slot);
    return_trimmed(conn, 1);
    packet = state_.memory.rx_packet(chain.slot);
  }
  const PayloadSlice slice{.handle = {chain.slot},
                           .offset = chain.offset,
                           .length = std::min(chain.bytes, packet->length - chain.offset)};
  chain.bytes -= slice.length;
  chain.offset = 0;
  chain.slot = packet->next_slot;
  if (chain.bytes == 0) {
    return_trimmed(conn, release_kept_chain(conn, chain.slot));
    chain.slot = session::kNoIndex;
  }
  return slice;
}

void ReceivedPayload::discard(uint32_t conn) {
  while (const auto slice = take_slice(conn)) {
    release_kept_slot(conn, slice->handle.slot);
    return_trimmed(conn, 1);
  }
  state_.session(conn).has_readable = false;
}

void ReceivedPayload::release_all(uint32_t conn) {
  release_kept_chain(conn, state_.session(conn).chain.slot);
  state_.session(conn).chain = {};
  tcp::ReceiveQueue queue = state_.engine.receive_queue(conn);
  while (const auto handle = queue.take_any()) release_kept_chain(conn, handle->slot);
}

uint32_t ReceivedPayload::release_out_of_order(uint32_t conn) {
  uint32_t count = 0;
  tcp::ReceiveQueue queue = state_.engine.receive_queue(conn);
  while (const auto handle = queue.take_out_of_order()) {
    count += release_kept_chain(conn, handle->slot);
  }
  return count;
}

void ReceivedPayload::prune(uint32_t conn) {
  const uint32_t count = release_out_of_order(conn);
  for (uint32_t i = 0; i < count; ++i) state_.drop(Drop::kRxPoolLow);
}

/// Bytes that fit behind a payload in its packet; none behind a chain.
uint32_t ReceivedPayload::room_behind(const PayloadSlice& payload) const {
  const io::PacketBuf& packet = *state_.memory.rx_packet(payload.handle.slot);
  if (packet.next_slot != io::PacketBuf::kNoSlot) return 0;
  return packet.length + packet.tailroom - (payload.offset + payload.length);
}

bool ReceivedPayload::can_join(uint32_t conn, const tcp::SegmentIn& segment) const {
  if (segment.segment_count > 1) return false;  // a chain is not copied
  const auto tail = state_.engine.receive_queue(conn).unread_tail();
  return tail && segment.payload_bytes <= room_behind(*tail);
}

void ReceivedPayload::join_small(uint32_t conn, uint32_t run) {
  tcp::ReceiveQueue queue = state_.engine.receive_queue(conn);
  const auto touching = queue.find_touching(run);
  if (!touching) return;
  io::PacketBuf& before = *state_.memory.rx_packet(touching->before.handle.slot);
  const io::PacketBuf& small = *state_.memory.rx_packet(touching->run.handle.slot);
  const uint32_t bytes = touching->run.length;
  const uint32_t room = room_behind(touching->before);
  if (bytes > room || small.next_slot != io::PacketBuf::kNoSlot) return;
  const uint32_t used = touching->before.offset + touching->before.length;
  std::memcpy(before.data + used, small.data + touching->run.offset, bytes);
  before.length = used + bytes;
  before.tailroom = static_cast<uint16_t>(room - bytes);
  state_.session(conn).copied_rx_bytes += bytes;
  state_.stats.worker->copied_rx_bytes.add(bytes);
  queue.join(run);
  release_kept_slot(conn, small.slot);
}

}  // namespace lyre::worker
