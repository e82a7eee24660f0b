#include <algorithm>

#include "stack/io/packet_io.h"
#include "stack/session/session.h"
#include "stack/tcp/engine.h"
#include "stack/worker/impl.h"

/// Received payload as the engine keeps it: one packet, or a chain of packets whose segments were
/// merged. The engine knows a chain by its first slot and gives it back whole; sessions take it
/// packet by packet.
namespace lyre::worker {

void Worker::Impl::release_slot_memory(uint32_t slot) {
  io::PacketBuf* packet = memory.rx_packet(slot);
  memory.release({&packet, 1});
}

/// Releases the packets of a chain from `slot` on; returns how many there were.
uint32_t Worker::Impl::release_chain(uint32_t slot) {
  uint32_t count = 0;
  for (; slot != io::PacketBuf::kNoSlot; ++count) {
    const uint32_t next = memory.rx_packet(slot)->next_slot;
    release_slot_memory(slot);
    slot = next;
  }
  return count;
}

/// Packets that carried nothing new (the engine trimmed their text): their charge goes back.
void Worker::Impl::return_trimmed(uint32_t conn, uint32_t packet_count) {
  if (packet_count == 0 || engine.state(conn) == tcp::State::kClosed) return;
  tcp::Effects released;
  engine.on_app_release(conn, packet_count * memory.rx_slot_bytes(), now, released);
  if (released.wants_transmit) transmit_queue.schedule(conn);
}

/// The next in-order bytes, never of more than one packet. Empty: nothing more to read.
/// Owner: the packet passes to the caller; its charge stays until on_app_release().
std::optional<PayloadSlice> Worker::Impl::take_slice(uint32_t conn) {
  session::Chain& chain = session(conn).chain;
  if (chain.slot == session::kNoIndex) {
    const auto run = engine.take_readable(conn);
    if (!run) return std::nullopt;
    chain = {.slot = run->handle.slot, .offset = run->offset, .bytes = run->length};
  }
  io::PacketBuf* packet = memory.rx_packet(chain.slot);
  while (chain.offset >= packet->length) {
    chain.offset -= packet->length;
    chain.slot = packet->next_slot;
    memory.release({&packet, 1});
    return_trimmed(conn, 1);
    packet = memory.rx_packet(chain.slot);
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

void Worker::Impl::discard_payload(uint32_t conn) {
  while (const auto slice = take_slice(conn)) {
    release_slot_memory(slice->handle.slot);
    return_trimmed(conn, 1);
  }
  session(conn).has_readable = false;
}

/// Everything that is held for a connection that is over.
void Worker::Impl::release_all_payload(uint32_t conn) {
  release_chain(session(conn).chain.slot);
  session(conn).chain = {};
  while (const auto handle = engine.take_any_payload(conn)) release_chain(handle->slot);
}

}  // namespace lyre::worker
