#pragma once

#include <cstdint>
#include <optional>

#include "stack/base/mac_address.h"
#include "stack/io/packet.h"
#include "stack/ip/input.h"
#include "stack/tcp/segment.h"
#include "stack/worker/packet_fate.h"
#include "stack/worker/session_lifecycle.h"
#include "stack/worker/worker_state.h"

namespace lyre::worker {

/// Segments without a connection: SYNs to listeners, ACKs that answer SYN cookies, and what is
/// answered with a RST.
/// Thread: the worker.
class PassiveOpen {
 public:
  PassiveOpen(WorkerState& state, SessionLifecycle& lifecycle, PacketOutput& output)
      : state_(state), lifecycle_(lifecycle), output_(output) {}

  /// `iss_after`: the sequence numbers of a connection that is opened must lie behind it.
  PacketFate on_segment(io::PacketBuf* packet, const ip::TcpInput& input,
                        const tcp::SegmentIn& segment, std::optional<SeqNum> iss_after);
  /// RFC 6191: a connection in TIME-WAIT without a client ends for a new one. True: it ended.
  bool try_reuse(uint32_t conn, const FourTuple& tuple);
  /// A SYN without ACK arrived for an open (RFC 9293 3.5, simultaneous open). The open fails where
  /// its client may accept no connection. True: it failed, and its 4-tuple is free.
  bool try_fail_open(uint32_t conn);

 private:
  channel::EndStatus refusal_of(uint32_t context, const FourTuple& tuple) const;
  Listener& up_to_date(uint32_t index);
  uint32_t sender_of(const FourTuple& tuple) const;
  void on_syn(uint32_t listener, const FourTuple& tuple, const tcp::SegmentIn& segment,
              std::optional<SeqNum> iss_after, std::optional<MacAddress> mac);
  void bind(uint32_t conn, uint32_t listener, const FourTuple& tuple, const ip::RouteResult& route);
  PacketFate refuse(const FourTuple& tuple, const tcp::SegmentIn& segment,
                    std::optional<MacAddress> mac, bool has_cookie);
  std::optional<PacketFate> on_cookie_ack(uint32_t listener, io::PacketBuf* packet,
                                          const ip::TcpInput& input, const tcp::SegmentIn& segment);

  WorkerState& state_;
  SessionLifecycle& lifecycle_;
  PacketOutput& output_;
};

}  // namespace lyre::worker
