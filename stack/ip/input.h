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

/// The result of classify(). Each kind but kDrop has a member of Classified that describes it.
enum class InputKind : uint8_t {
  kDrop,         ///< count `drop`, release the packet
  kArp,          ///< `arp`: give it to Neighbours::handle_arp()
  kNdp,          ///< `ndp`: give it to Neighbours::handle_ndp()
  kMldQuery,     ///< `mld_query`: give it to Neighbours::handle_mld()
  kEchoRequest,  ///< `echo`: give it to EchoResponder
  kIcmpError,    ///< `icmp_error`: find the connection, Engine::on_icmp_error()
  kTcp,          ///< `tcp`: find the connection, Engine::on_segment()
  kRefused,      ///< as kDrop; also send the ICMPv6 error that `refused` describes
};

/// A TCP segment whose checksum was correct. Borrows the packet.
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

/// An IPv6 packet whose sender must get an ICMPv6 error (RFC 8200 4). Borrows the packet.
struct Refused {
  MacAddress sender_mac;
  IpAddress source;                 ///< of the packet
  IpAddress destination;            ///< the packet's destination, if it is an own address
  std::span<const uint8_t> packet;  ///< the whole packet with its IPv6 header
  wire::ParameterProblem problem;
};

/// Only the member that belongs to the returned kind is valid. One object is reused for many
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

/// Where a packet came from. A packet from another session of this machine is exempt from two
/// checks: of its destination MAC, and that its source is not an address of this host.
enum class Origin : uint8_t { kWire, kLocal };

/// Parses a received frame down to the TCP header and returns its kind. `own_mac` is that of the
/// port on which it arrived. The port's checksum verdicts are trusted; where it has none, checksums
/// are verified here.
/// Fails: kDrop or kRefused, with exactly one reason in `out.drop`.
InputKind classify(const io::PacketBuf& packet, MacAddress own_mac, const RouteTable& routes,
                   Origin origin, Classified& out);

}  // namespace lyre::ip
