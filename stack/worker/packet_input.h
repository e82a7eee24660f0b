#pragma once

#include "stack/io/packet.h"
#include "stack/ip/input.h"
#include "stack/worker/icmp_input.h"
#include "stack/worker/neighbourhood.h"
#include "stack/worker/packet_fate.h"
#include "stack/worker/segment_input.h"
#include "stack/worker/worker_state.h"

namespace lyre::worker {

/// Packets that arrive, each classified once and given to the part that it is for.
/// Thread: the worker.
class PacketInput {
 public:
  struct Parts {
    SegmentInput& segments;
    IcmpInput& icmp;
    Neighbourhood& neighbourhood;
  };
  PacketInput(WorkerState& state, const Parts& parts) : state_(state), parts_(parts) {}

  /// Owner: takes the packet.
  void on_packet(io::PacketBuf* packet, ip::Origin origin, Redirect redirection);

 private:
  PacketFate classify(io::PacketBuf* packet, ip::Origin origin, Redirect redirection);

  WorkerState& state_;
  Parts parts_;
  ip::Classified classified_;  ///< of the packet under way
};

}  // namespace lyre::worker
