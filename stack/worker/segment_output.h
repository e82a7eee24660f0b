#pragma once

#include <cstddef>
#include <cstdint>

#include "stack/base/mac_address.h"
#include "stack/io/packet.h"
#include "stack/session/session.h"
#include "stack/tcp/segment.h"
#include "stack/worker/packet_output.h"
#include "stack/worker/worker_state.h"

namespace lyre::worker {

/// Smallest MSS of a TSO packet: i40e takes less than this for an attack (I40E_MIN_TSO_MSS), and
/// other NICs have lower limits.
inline constexpr uint32_t kTsoMssMin = 256;

/// Builds the packets of a session's segments, with payload as pieces of client memory where the
/// port can gather them, and queues them where they go. A segment becomes as many TSO packets as
/// the port needs to take it, and single packets where the port cannot gather. Thread: the worker.
class SegmentOutput {
 public:
  SegmentOutput(WorkerState& state, PacketOutput& output) : state_(state), output_(output) {}

  /// Returns the packets that it took. Fewer than needed: no buffer, and the rest counts as sent
  /// and lost; TCP sends it again.
  size_t send(uint32_t conn, const tcp::SegmentOut& segment, MacAddress mac);

 private:
  io::PacketBuf* send_part(uint32_t conn, const tcp::SegmentOut& part, MacAddress mac,
                           const io::PacketBuf* model);
  void finish_packet(uint32_t conn, const tcp::SegmentOut& segment, io::PacketBuf& packet,
                     MacAddress mac, const io::PacketBuf* model);
  io::PacketBuf* try_make_uncut(uint32_t conn, tcp::SegmentOut& part);
  bool try_gather(uint32_t conn, const tcp::SegmentOut& segment, io::PacketBuf& packet);
  io::PacketBuf* make_packet(uint32_t conn, const tcp::SegmentOut& segment);
  io::PacketBuf* copy_payload(uint32_t conn, const tcp::SegmentOut& segment);

  WorkerState& state_;
  PacketOutput& output_;
};

}  // namespace lyre::worker
