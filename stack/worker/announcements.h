#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "stack/base/ip_address.h"
#include "stack/base/nanos.h"
#include "stack/io/packet_io.h"
#include "stack/tcp/engine.h"
#include "stack/worker/clients/context.h"
#include "stack/worker/clients/notifier.h"
#include "stack/worker/control_replies.h"
#include "stack/worker/port_holds.h"
#include "stack/worker/received_payload.h"
#include "stack/worker/session_lifecycle.h"
#include "stack/worker/worker_state.h"

namespace lyre::worker {

/// The host of the notifier: what it needs to know of TCP, the receive pool and the ports.
/// Thread: the worker.
class Announcements {
 public:
  struct Parts {
    SessionLifecycle& lifecycle;
    ReceivedPayload& payload;
    PortHolds& holds;
    ControlReplies& replies;
  };
  Announcements(WorkerState& state, const Parts& parts) : state_(state), parts_(parts) {}

  /// Writes pending events to completion rings. Returns how many sessions have none left.
  size_t announce_all() { return state_.notifier.announce_all(*this, state_.now); }

  // As NotifierHost has them.
  const FourTuple& tuple(uint32_t conn) const { return state_.engine.tuple(conn); }
  tcp::SendSide send_side(uint32_t conn) const { return state_.engine.send_side(conn); }
  bool may_lend(uint32_t context) const {
    const uint32_t slots_free = state_.memory.rx_slots_free();
    return state_.accounts.is_plentiful(slots_free) ||
           state_.accounts.may_hold(context, slots_free);
  }
  std::optional<ReceivedBytes> take_received(uint32_t conn) {
    const std::optional<PayloadSlice> slice = parts_.payload.take_slice(conn);
    if (!slice) return std::nullopt;
    const uint32_t slot = slice->handle.slot;
    const uint8_t* bytes = state_.memory.rx_packet(slot)->data + slice->offset;
    return ReceivedBytes{
        .slot = slot,
        .bytes = {bytes, slice->length},
        .pool_offset = static_cast<uint64_t>(bytes - state_.memory.rx_memory().data())};
  }
  void release_slot(uint32_t conn, uint32_t slot) { parts_.payload.release_kept_slot(conn, slot); }
  void return_charge(uint32_t conn, uint32_t charge_bytes) {
    parts_.payload.return_charge(conn, charge_bytes);
  }
  bool must_wait_for_port(uint32_t conn);
  void on_open_told(uint32_t conn);
  void on_end_told(uint32_t conn);
  void expel(Context& context, const char* reason) { parts_.replies.expel(context, reason); }

 private:
  WorkerState& state_;
  Parts parts_;
};

}  // namespace lyre::worker
