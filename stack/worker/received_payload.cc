#include "stack/worker/received_payload.h"

#include <algorithm>

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

/// Packets that carried nothing new (the engine trimmed their text): their charge goes back.
void ReceivedPayload::return_trimmed(uint32_t conn, uint32_t packet_count) {
  if (packet_count == 0 || state_.engine.state(conn) == tcp::State::kClosed) return;
  tcp::Effects released;
  state_.engine.on_app_release(conn, packet_count * state_.memory.rx_slot_bytes(), state_.now,
                               released);
  if (released.wants_transmit) state_.transmit_queue.schedule(conn);
}

std::optional<PayloadSlice> ReceivedPayload::take_slice(uint32_t conn) {
  session::Chain& chain = state_.session(conn).chain;
  if (chain.slot == session::kNoIndex) {
    const auto run = state_.engine.take_readable(conn);
    if (!run) return std::nullopt;
    chain = {.slot = run->handle.slot, .offset = run->offset, .bytes = run->length};
  }
  io::PacketBuf* packet = state_.memory.rx_packet(chain.slot);
  while (chain.offset >= packet->length) {
    chain.offset -= packet->length;
    chain.slot = packet->next_slot;
    state_.memory.release({&packet, 1});
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
    return_trimmed(conn, release_chain(chain.slot));
    chain.slot = session::kNoIndex;
  }
  return slice;
}

void ReceivedPayload::discard(uint32_t conn) {
  while (const auto slice = take_slice(conn)) {
    release_slot(slice->handle.slot);
    return_trimmed(conn, 1);
  }
  state_.session(conn).has_readable = false;
}

void ReceivedPayload::release_all(uint32_t conn) {
  release_chain(state_.session(conn).chain.slot);
  state_.session(conn).chain = {};
  while (const auto handle = state_.engine.take_any_payload(conn)) release_chain(handle->slot);
}

}  // namespace lyre::worker
