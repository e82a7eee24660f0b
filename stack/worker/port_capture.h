#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "stack/base/nanos.h"
#include "stack/channel/capture.h"
#include "stack/io/packet.h"
#include "stack/worker/clients/client_memory.h"

namespace lyre::worker {

/// Packets that a port may be offered at once.
inline constexpr size_t kCapturedBurstMax = 80;

/// Copies what one worker's queue pair of a port receives and sends into a ring that a tool reads.
/// The tool cannot delay the worker: packets for which the ring has no room are counted.
/// Owner: the control thread makes it and keeps it, and the ring, until the worker has answered
/// kCaptureEnded. Thread: the worker, after the construction.
class PortCapture {
 public:
  /// The worker's clock and the memory from which its clients send.
  struct Source {
    const Nanos* now = nullptr;  ///< of the turn
    int64_t unix_offset_ns = 0;
    const ClientMemory* clients = nullptr;
  };

  PortCapture(channel::CaptureRing& ring, uint32_t snap_bytes)
      : producer_(ring), snap_bytes_(snap_bytes) {}

  /// Before the first packet.
  void begin(const Source& source) { source_ = source; }

  void on_received(std::span<io::PacketBuf* const> burst);
  /// What is offered to the port: a packet that it took must not be read any more.
  /// REQUIRES: at most kCapturedBurstMax; after_send() follows.
  void before_send(std::span<io::PacketBuf* const> burst);
  /// The port took the first `taken` of them; the reader never sees the others.
  void after_send(size_t taken);

 private:
  bool try_copy(const io::PacketBuf& packet, channel::CaptureDirection direction);

  channel::CaptureProducer producer_;
  uint32_t snap_bytes_;
  Source source_;
  /// Of the burst that is being sent, by packet.
  struct Offered {
    uint64_t end = 0;      ///< position in the ring
    uint32_t dropped = 0;  ///< packets until then for which there was no room
  };
  std::array<Offered, kCapturedBurstMax> offered_;
};

}  // namespace lyre::worker
