#pragma once

#include <cstdint>
#include <optional>

#include "stack/base/ip_address.h"
#include "stack/io/packet.h"
#include "stack/ip/input.h"
#include "stack/tcp/segment.h"
#include "stack/worker/packet_fate.h"
#include "stack/worker/passive_open.h"
#include "stack/worker/port_holds.h"
#include "stack/worker/receive_pressure.h"
#include "stack/worker/received_payload.h"
#include "stack/worker/segment_merger.h"
#include "stack/worker/session_lifecycle.h"
#include "stack/worker/worker_state.h"

namespace lyre::worker {

/// Whether a packet may be another worker's.
enum class Redirect : uint8_t { kNo, kYes };

/// A TCP segment on its way to its connection: found by its 4-tuple, merged with its predecessors,
/// given to the engine.
/// Thread: the worker.
class SegmentInput {
 public:
  struct Parts {
    SessionLifecycle& lifecycle;
    ReceivedPayload& payload;
    PassiveOpen& passive_open;
    ReceivePressure& pressure;
    PortHolds& holds;
  };
  SegmentInput(WorkerState& state, const Parts& parts)
      : state_(state), parts_(parts), merger_(state.memory.rx_slot_bytes()) {}

  PacketFate on_tcp(io::PacketBuf* packet, const ip::TcpInput& input, Redirect redirection);
  /// Appends a packet that continues a merged segment, without parsing it.
  bool try_append_unparsed(io::PacketBuf& packet) { return merger_.try_append_unparsed(packet); }
  /// Sends the packet to the worker that has its connection. Unused: none is known to have it.
  /// `syn_acked`: as for ConnectionRouter::redirect().
  PacketFate redirect(io::PacketBuf* packet, const FourTuple& tuple,
                      std::optional<SeqNum> syn_acked = std::nullopt);
  /// Gives the engine what waits to be merged.
  void deliver_merged();

 private:
  PacketFate redirect_if_foreign(uint32_t conn, io::PacketBuf* packet, const FourTuple& tuple,
                                 const wire::TcpHeader& header);
  std::optional<PacketFate> try_open_anew(uint32_t conn, io::PacketBuf* packet,
                                          const ip::TcpInput& input, const tcp::SegmentIn& segment);
  PacketFate on_connection_segment(uint32_t conn, io::PacketBuf* packet, const ip::TcpInput& input,
                                   const tcp::SegmentIn& segment);
  /// `packets`: how many were merged. A super-packet is one.
  PacketFate on_segment(uint32_t conn, const tcp::SegmentIn& segment, uint32_t packets = 1);
  PacketFate input(uint32_t conn, const tcp::SegmentIn& segment, uint32_t packets);
  bool may_keep_payload(uint32_t conn, const tcp::SegmentIn& segment) {
    return state_.accounts.is_plentiful(state_.memory.rx_slots_free()) || has_share(conn, segment);
  }
  bool has_share(uint32_t conn, const tcp::SegmentIn& segment);
  bool is_small(uint32_t conn, const tcp::SegmentIn& segment) const;
  void deliver(const MergedSegment& merged);

  WorkerState& state_;
  Parts parts_;
  SegmentMerger merger_;
};

}  // namespace lyre::worker
