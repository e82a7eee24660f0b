#include "stack/worker/icmp_input.h"

#include <optional>

#include "stack/base/drop_reasons.h"
#include "stack/link/framing.h"

namespace lyre::worker {

void IcmpInput::on_echo(uint8_t port, const ip::EchoInput& input) {
  // An echo reply is as large as its request, and only receive buffers have room for any frame.
  io::PacketBuf* reply = state_.memory.alloc_rx();
  if (reply == nullptr) return state_.drop(Drop::kTxNoBuffer);
  const link::FrameAddresses addresses{.source = state_.ports[port].mac(),
                                       .destination = input.sender_mac};
  if (const auto refused =
          echo_.write_reply(input, addresses, parts_.output.next_ip_id(), state_.now, *reply)) {
    state_.memory.release({&reply, 1});
    return state_.drop(*refused);
  }
  parts_.output.send(port, reply);
}

/// The caller has counted the packet as dropped, so a missing answer is not counted as well.
void IcmpInput::on_refused(uint8_t port, const ip::Refused& refused) {
  ip::Refused answerable = refused;
  if (refused.destination.is_unspecified()) {
    const auto route = state_.routes.lookup(refused.source);
    if (!route || route->is_local) return;
    answerable.destination = route->source;
  }
  if (!state_.routes.accepts(answerable.destination)) return;
  io::PacketBuf* packet = state_.memory.alloc_rx();
  if (packet == nullptr) return;
  const link::FrameAddresses addresses{.source = state_.ports[port].mac(),
                                       .destination = refused.sender_mac};
  if (echo_.write_problem(answerable, addresses, state_.now, *packet)) {
    state_.memory.release({&packet, 1});
    return;
  }
  parts_.output.send(port, packet);
}

PacketFate IcmpInput::on_error(io::PacketBuf* packet, const ip::IcmpError& error,
                               Redirect redirection) {
  const uint32_t conn = state_.find_connection(error.tuple);
  if (conn == FlowTable::kNone) {
    if (redirection == Redirect::kYes &&
        parts_.segments.redirect(packet, error.tuple) == PacketFate::kKept) {
      return PacketFate::kKept;
    }
    state_.drop(Drop::kIcmpBadQuote);
    return PacketFate::kUnused;
  }
  const tcp::Effects effects =
      state_.engine.on_icmp_error(conn, error.seq, error.verdict, error.mtu_bytes, state_.now);
  // The engine accepted the error: the quoted segment is in flight.
  if (error.mtu_bytes > 0 && !effects.drop) {
    state_.path_mtus.note(error.tuple.remote.address, error.mtu_bytes, state_.now);
  }
  parts_.lifecycle.apply(conn, effects);
  return PacketFate::kUnused;
}

}  // namespace lyre::worker
