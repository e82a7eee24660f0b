#include "stack/worker/packet_input.h"

#include "stack/io/packet_io.h"
#include "stack/link/framing.h"

namespace lyre::worker {

void PacketInput::on_packet(io::PacketBuf* packet, ip::Origin origin, Redirect redirection) {
  if (parts_.segments.try_append_unparsed(*packet)) return;
  if (link::remove_priority_tag(*packet) && parts_.segments.try_append_unparsed(*packet)) return;
  if (classify(packet, origin, redirection) == PacketFate::kUnused) {
    io::release_chain(state_.memory, packet);
  }
}

PacketFate PacketInput::classify(io::PacketBuf* packet, ip::Origin origin, Redirect redirection) {
  const uint8_t port = packet->port;
  switch (ip::classify(*packet, state_.ports[port].mac(), state_.routes, origin, classified_)) {
    case ip::InputKind::kDrop:
      state_.drop(classified_.drop);
      break;
    case ip::InputKind::kArp:
      parts_.neighbourhood.on_arp(port, classified_.arp);
      break;
    case ip::InputKind::kNdp:
      parts_.neighbourhood.on_ndp(port, classified_.ndp);
      break;
    case ip::InputKind::kMldQuery:
      parts_.neighbourhood.on_mld(port, classified_.mld_query);
      break;
    case ip::InputKind::kEchoRequest:
      parts_.icmp.on_echo(port, classified_.echo);
      break;
    case ip::InputKind::kIcmpError:
      return parts_.icmp.on_error(packet, classified_.icmp_error, redirection);
    case ip::InputKind::kTcp:
      return parts_.segments.on_tcp(packet, classified_.tcp, redirection);
    case ip::InputKind::kRefused:
      state_.drop(classified_.drop);
      parts_.icmp.on_refused(port, classified_.refused);
      break;
  }
  return PacketFate::kUnused;
}

}  // namespace lyre::worker
