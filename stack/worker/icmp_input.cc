#include <optional>

#include "stack/base/drop_reasons.h"
#include "stack/ip/echo_responder.h"
#include "stack/ip/input.h"
#include "stack/link/framing.h"
#include "stack/worker/impl.h"

/// ICMP and ICMPv6: echo requests, errors about connections, and errors about what was refused.
namespace lyre::worker {

void Worker::Impl::on_echo(uint8_t port, const ip::EchoInput& input) {
  // An echo reply is as large as its request, and only receive buffers have room for any frame.
  io::PacketBuf* reply = memory.alloc_rx();
  if (reply == nullptr) return drop(Drop::kTxNoBuffer);
  const link::FrameAddresses addresses{.source = ports[port].mac(),
                                       .destination = input.sender_mac};
  if (const auto refused = echo.write_reply(input, addresses, ++ip_id, now, *reply)) {
    memory.release({&reply, 1});
    return drop(*refused);
  }
  send_packet(port, reply);
}

/// The caller has counted the packet as dropped, so a missing answer is not counted as well.
void Worker::Impl::on_refused(uint8_t port, const ip::Refused& refused) {
  ip::Refused answerable = refused;
  if (refused.destination.is_unspecified()) {
    const auto route = routes.lookup(refused.source);
    if (!route || route->is_local) return;
    answerable.destination = route->source;
  }
  if (!routes.accepts(answerable.destination)) return;
  io::PacketBuf* packet = memory.alloc_rx();
  if (packet == nullptr) return;
  const link::FrameAddresses addresses{.source = ports[port].mac(),
                                       .destination = refused.sender_mac};
  if (echo.write_problem(answerable, addresses, now, *packet)) {
    memory.release({&packet, 1});
    return;
  }
  send_packet(port, packet);
}

PacketFate Worker::Impl::on_icmp_error(io::PacketBuf* packet, const ip::IcmpError& error,
                                       Redirect redirection) {
  const uint32_t conn = find_connection(error.tuple);
  if (conn == FlowTable::kNone) {
    if (redirection == Redirect::kYes && redirect(packet, error.tuple) == PacketFate::kKept) {
      return PacketFate::kKept;
    }
    drop(Drop::kIcmpBadQuote);
    return PacketFate::kUnused;
  }
  tcp::Effects effects;
  engine.on_icmp_error(conn, error.seq, error.verdict, error.mtu_bytes, now, effects);
  apply(conn, effects);
  return PacketFate::kUnused;
}

}  // namespace lyre::worker
