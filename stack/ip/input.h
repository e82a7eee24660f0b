#pragma once

#include <cstdint>
#include <span>

#include "stack/base/drop_reasons.h"
#include "stack/base/ip_address.h"
#include "stack/base/mac_address.h"
#include "stack/io/packet.h"
#include "stack/ip/icmp_error.h"
#include "stack/ip/route_table.h"
#include "stack/link/ndp.h"
#include "stack/wire/arp.h"
#include "stack/wire/icmp.h"
#include "stack/wire/ip.h"
#include "stack/wire/ipv6.h"
#include "stack/wire/tcp_segment.h"

namespace lyre::ip {

/// What a received frame is. Each kind but kDrop has a member of Classified that describes it.
enum class InputKind : uint8_t {
  kDrop,         ///< count `drop`, release the packet
  kArp,          ///< `arp`: give it to Neighbours::handle_arp()
  kNdp,          ///< `ndp`: give it to Neighbours::handle_ndp()
  kMldQuery,     ///< `mld_query`: give it to Neighbours::handle_mld()
  kEchoRequest,  ///< `echo`: give it to EchoResponder
  kIcmpError,    ///< `icmp_error`: find the connection, Engine::on_icmp_error()
  kTcp,          ///< `tcp`: find the connection, Engine::on_segment()
  kRefused,      ///< as kDrop; and tell the sender what `refused` says
};

/// A TCP segment whose checksum was right. Borrows the packet.
struct TcpInput {
  FourTuple tuple;  ///< local is our side
  wire::ParsedTcp parsed;
  std::span<const uint8_t> payload;  ///< inside the packet, Ethernet padding cut off
  wire::Ecn ecn = wire::Ecn::kNotEct;
};

/// An echo request to one of our addresses. Borrows the packet.
struct EchoInput {
  MacAddress sender_mac;
  IpAddress source;
  IpAddress destination;
  wire::ParsedIcmp icmp;
};

/// A packet of IPv6 whose sender must hear that it cannot be processed (RFC 8200 4). Borrows the
/// packet.
struct Refused {
  MacAddress sender_mac;
  IpAddress source;                 ///< of the packet
  IpAddress destination;            ///< the packet's, where it is an address of ours
  std::span<const uint8_t> packet;  ///< IPv6 header and all
  wire::ParameterProblem problem;
};

/// Only the member that belongs to the returned kind means something; reuse one object for many
/// packets.
struct Classified {
  Drop drop = Drop::kEthTooShort;
  wire::ArpPacket arp;
  link::NdpArrival ndp;
  wire::MldQuery mld_query;
  EchoInput echo;
  IcmpError icmp_error;
  TcpInput tcp;
  Refused refused;
};

/// Where a packet came from. What another session of this machine sent is not tested for its MAC
/// address, nor for having one of our addresses as its source.
enum class Origin : uint8_t { kWire, kLocal };

/// Looks at a received frame down to the TCP header and says what it is.
/// `own_mac` is that of the port on which it arrived. The port's checksum verdicts are believed;
/// where it has none, checksums are verified here.
/// Fails: kDrop or kRefused, with exactly one reason in `out.drop`.
InputKind classify(const io::PacketBuf& packet, MacAddress own_mac, const RouteTable& routes,
                   Origin origin, Classified& out);

}  // namespace lyre::ip
