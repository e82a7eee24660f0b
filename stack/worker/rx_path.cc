#include "stack/io/packet.h"
#include "stack/ip/input.h"
#include "stack/link/neighbours.h"
#include "stack/worker/impl.h"
#include "stack/worker/packet_fate.h"
#include "stack/worker/port.h"
#include "stack/worker/routing/connection_router.h"
#include "stack/worker/segment_merger.h"

/// The arrival of packets: bursts of the ports and what is delivered locally, each classified once
/// and given to the part that it is for.
namespace lyre::worker {

size_t Worker::Impl::receive() {
  io::PacketBuf* burst[kRxBurstPackets];
  size_t received = 0;
  for (size_t index = 0; index < ports.size(); ++index) {
    for (size_t round = 0; round < kRxBurstsPerPollMax; ++round) {
      const size_t count = ports[index].receive(burst);
      // The rings are read after the burst: a packet of the burst may answer what another worker
      // sent after its claim, and that claim is then in a ring already.
      received += router.take_messages(*this);
      for (size_t i = 0; i < count; ++i) {
        burst[i]->port = static_cast<uint8_t>(index);
        on_packet(burst[i], ip::Origin::kWire, Redirect::kYes);
      }
      received += count;
      if (count < kRxBurstPackets) break;
    }
    // header_match() compares packets of one port only, so nothing waits beyond its bursts.
    deliver_merged();
  }
  return received + receive_local();
}

size_t Worker::Impl::receive_local() {
  if (loop.empty()) return 0;
  // What is delivered locally meanwhile waits for the next turn.
  loop_now = loop;
  loop.clear();
  for (io::PacketBuf* packet : loop_now) on_packet(packet, ip::Origin::kLocal, Redirect::kNo);
  deliver_merged();
  return loop_now.size();
}

/// Owner: takes the packet.
void Worker::Impl::on_packet(io::PacketBuf* packet, ip::Origin origin, Redirect redirection) {
  if (merger.try_append_unparsed(*packet)) return;
  if (on_parsed_packet(packet, origin, redirection) == PacketFate::kUnused) {
    memory.release({&packet, 1});
  }
}

PacketFate Worker::Impl::on_parsed_packet(io::PacketBuf* packet, ip::Origin origin,
                                          Redirect redirection) {
  const uint8_t port = packet->port;
  switch (ip::classify(*packet, ports[port].mac(), routes, origin, classified)) {
    case ip::InputKind::kDrop:
      drop(classified.drop);
      break;
    case ip::InputKind::kArp:
      on_arp(port, classified.arp);
      break;
    case ip::InputKind::kNdp:
      on_ndp(port, classified.ndp);
      break;
    case ip::InputKind::kMldQuery:
      carry_out(neighbours.handle_mld(port, classified.mld_query, now));
      break;
    case ip::InputKind::kEchoRequest:
      on_echo(port, classified.echo);
      break;
    case ip::InputKind::kIcmpError:
      return on_icmp_error(packet, classified.icmp_error, redirection);
    case ip::InputKind::kTcp:
      return on_tcp(packet, classified.tcp, redirection);
    case ip::InputKind::kRefused:
      drop(classified.drop);
      on_refused(port, classified.refused);
      break;
  }
  return PacketFate::kUnused;
}

}  // namespace lyre::worker
