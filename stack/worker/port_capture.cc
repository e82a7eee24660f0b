#include "stack/worker/port_capture.h"

#include <algorithm>

namespace lyre::worker {

void PortCapture::on_received(std::span<io::PacketBuf* const> burst) {
  uint32_t dropped = 0;
  for (const io::PacketBuf* packet : burst) {
    if (!try_copy(*packet, channel::CaptureDirection::kReceived)) ++dropped;
  }
  producer_.publish(producer_.position());
  if (dropped > 0) producer_.add_dropped(dropped);
}

void PortCapture::before_send(std::span<io::PacketBuf* const> burst) {
  uint32_t dropped = 0;
  for (size_t i = 0; i < burst.size(); ++i) {
    if (!try_copy(*burst[i], channel::CaptureDirection::kSent)) ++dropped;
    offered_[i] = {.end = producer_.position(), .dropped = dropped};
  }
}

void PortCapture::after_send(size_t taken) {
  if (taken == 0) return producer_.publish(producer_.published());
  const Offered& last = offered_[taken - 1];
  producer_.publish(last.end);
  if (last.dropped > 0) producer_.add_dropped(last.dropped);
}

/// The packet's own bytes, then the pieces of client memory, as far as they are wanted. The client
/// may change its memory meanwhile: what the port sends may differ. Of a received super-packet the
/// first slot.
bool PortCapture::try_copy(const io::PacketBuf& packet, channel::CaptureDirection direction) {
  uint32_t packet_bytes = packet.length;
  for (uint32_t i = 0; i < packet.piece_count; ++i) packet_bytes += packet.pieces[i].length;
  uint32_t left = std::min(packet_bytes, snap_bytes_);
  packet_bytes += packet.rest_bytes;
  const channel::CaptureRecord record{.unix_ns = source_.now->value + source_.unix_offset_ns,
                                      .packet_bytes = packet_bytes,
                                      .captured_bytes = left,
                                      .direction = direction,
                                      .reserved = 0};
  if (!producer_.try_begin(record)) return false;
  const auto append = [&](const uint8_t* bytes, uint32_t count) {
    count = std::min(count, left);
    producer_.append({bytes, count});
    left -= count;
  };
  append(packet.data, packet.length);
  for (uint32_t i = 0; i < packet.piece_count && left > 0; ++i) {
    append(source_.clients->bytes_of(packet.pieces[i]), packet.pieces[i].length);
  }
  producer_.end();
  return true;
}

}  // namespace lyre::worker
