#pragma once

#include <cstdint>

#include "stack/io/packet.h"
#include "stack/ip/echo_responder.h"
#include "stack/ip/input.h"
#include "stack/worker/packet_fate.h"
#include "stack/worker/packet_output.h"
#include "stack/worker/segment_input.h"
#include "stack/worker/session_lifecycle.h"
#include "stack/worker/worker_state.h"

namespace lyre::worker {

/// ICMP and ICMPv6: echo requests, errors about connections, and errors about refused packets.
/// Thread: the worker.
class IcmpInput {
 public:
  struct Parts {
    PacketOutput& output;
    SegmentInput& segments;
    SessionLifecycle& lifecycle;
  };
  IcmpInput(WorkerState& state, const Parts& parts) : state_(state), parts_(parts) {}

  void on_echo(uint8_t port, const ip::EchoInput& input);
  /// Answers a packet that was refused, and counted as dropped.
  void on_refused(uint8_t port, const ip::Refused& refused);
  PacketFate on_error(io::PacketBuf* packet, const ip::IcmpError& error, Redirect redirection);

 private:
  WorkerState& state_;
  Parts parts_;
  ip::EchoResponder echo_;
};

}  // namespace lyre::worker
