#pragma once

#include <cstdint>

#include "stack/base/drop_reasons.h"
#include "stack/base/ip_address.h"
#include "stack/io/packet_io.h"
#include "stack/worker/control_replies.h"
#include "stack/worker/neighbourhood.h"
#include "stack/worker/packet_input.h"
#include "stack/worker/routing/connection_router.h"
#include "stack/worker/session_lifecycle.h"
#include "stack/worker/worker_state.h"

namespace lyre::worker {

/// What a worker does with the packets and connections that other workers send it: the host of its
/// router.
/// Thread: the worker.
class InterWorker {
 public:
  struct Parts {
    SessionLifecycle& lifecycle;
    PacketInput& input;
    Neighbourhood& neighbourhood;
    ControlReplies& replies;
  };
  InterWorker(WorkerState& state, const Parts& parts) : state_(state), parts_(parts) {}

  // As RouterHost has them.
  uint32_t find_connection(const FourTuple& tuple) { return state_.find_connection(tuple); }
  void on_redirected_packet(uint32_t conn, const WorkerMessage& message);
  void on_unclaimed_packet(io::PacketBuf* packet);
  void on_returned_packet(io::PacketBuf* packet) { io::release_chain(state_.memory, packet); }
  void on_migrated_connection(const WorkerMessage& message);
  void on_neighbour_update(const WorkerMessage& message) {
    parts_.neighbourhood.on_update(message);
  }
  void on_claim_refused(const FourTuple& tuple) { parts_.lifecycle.refuse_open(tuple); }
  void drop(Drop reason) { state_.drop(reason); }

 private:
  io::PacketBuf* copy_redirected(const WorkerMessage& message);
  io::PacketBuf* copy_packet(const io::PacketBuf& original);
  const io::PacketBuf* next_of(const io::PacketBuf& original, const WorkerMessage& message) const;
  bool may_migrate(uint32_t conn, const WorkerMessage& message);
  void migrate(uint32_t conn, const WorkerMessage& message);
  void refuse_migration(const FourTuple& tuple, const WorkerMessage::Migration& moved);

  WorkerState& state_;
  Parts parts_;
};

}  // namespace lyre::worker
