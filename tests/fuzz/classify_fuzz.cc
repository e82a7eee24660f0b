// An untrusted frame, from the Ethernet header to the end of the TCP options.

#include <cstdlib>

#include "stack/base/check.h"
#include "stack/base/ipv6_address.h"
#include "stack/ip/echo_responder.h"
#include "stack/ip/input.h"

namespace lyre {
namespace {

constexpr MacAddress kOwnMac{{2, 0, 0, 0, 0, 1}};
constexpr uint32_t kSlotBytes = 2048;

ip::RouteTable make_routes() {
  ip::RouteTable routes;
  routes.add_address(0, IpAddress::v4(0x0a000001), 96 + 24);
  routes.add_address(0, {{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}}, 64);
  return routes;
}

bool lies_inside(std::span<const uint8_t> inner, const io::PacketBuf& packet) {
  if (inner.empty()) return true;
  return inner.data() >= packet.data && inner.data() + inner.size() <= packet.data + packet.length;
}

/// An empty transmit buffer.
struct Answer {
  uint8_t memory[128 + 1600];
  io::PacketBuf packet;
  Answer() {
    packet.data = memory + 128;
    packet.headroom = 128;
    packet.tailroom = 1600;
  }
};

void answer(const ip::EchoInput& echo) {
  Answer out;
  ip::EchoResponder responder;
  const auto drop =
      responder.write_reply(echo, {kOwnMac, echo.sender_mac}, 1, seconds(1), out.packet);
  const size_t ip_bytes = echo.source.is_v4() ? 20 : 40;
  LYRE_CHECK(echo.source.is_v4() == echo.destination.is_v4());
  LYRE_CHECK(drop || out.packet.length == 14 + ip_bytes + 8 + echo.icmp.body.size());
}

void answer(const ip::Refused& refused) {
  Answer out;
  ip::EchoResponder responder;
  const auto drop =
      responder.write_problem(refused, {kOwnMac, refused.sender_mac}, seconds(1), out.packet);
  LYRE_CHECK(!drop && out.packet.length <= 14 + wire::kIpv6MtuBytesMin);
}

void check(ip::InputKind kind, const ip::Classified& out, const io::PacketBuf& packet) {
  switch (kind) {
    case ip::InputKind::kDrop:
      LYRE_CHECK(out.drop < Drop::kCount);
      return;
    case ip::InputKind::kArp:
      return;
    case ip::InputKind::kNdp:
      LYRE_CHECK(!out.ndp.packet.addresses.source.is_v4());
      LYRE_CHECK(!out.ndp.packet.message.target.is_v4());
      return;
    case ip::InputKind::kMldQuery:
      LYRE_CHECK(out.mld_query.group.is_unspecified() || is_ipv6_multicast(out.mld_query.group));
      return;
    case ip::InputKind::kRefused:
      LYRE_CHECK(lies_inside(out.refused.packet, packet) && !out.refused.source.is_v4());
      LYRE_CHECK(out.refused.problem.pointer < out.refused.packet.size());
      answer(out.refused);
      return;
    case ip::InputKind::kEchoRequest:
      LYRE_CHECK(lies_inside(out.echo.icmp.body, packet) && !packet.is_super_packet());
      answer(out.echo);
      return;
    case ip::InputKind::kIcmpError:
      LYRE_CHECK(out.icmp_error.mtu_bytes == 0 || out.icmp_error.mtu_bytes >= 68);
      return;
    case ip::InputKind::kTcp:
      LYRE_CHECK(lies_inside(out.tcp.payload, packet));
      LYRE_CHECK(out.tcp.payload.size() + packet.rest_bytes <= UINT16_MAX);
      LYRE_CHECK(!packet.is_super_packet() || packet.l4_checksum == io::ChecksumVerdict::kGood);
      // The rest follows the payload of the first slot, which therefore ends with the packet.
      LYRE_CHECK(!packet.is_super_packet() ||
                 out.tcp.payload.data() + out.tcp.payload.size() == packet.data + packet.length);
      LYRE_CHECK(out.tcp.tuple.local.address.is_v4() == out.tcp.tuple.remote.address.is_v4());
      LYRE_CHECK(out.tcp.parsed.header.options.sack_count <= wire::kSackBlocksMax);
      return;
  }
  std::abort();
}

}  // namespace
}  // namespace lyre

/// The first byte is the port's checksum verdict, so that the fuzzer need not guess checksums, and
/// says whether two bytes with the length of a super-packet's rest follow. After them comes the
/// frame, or what the first slot of a super-packet has of it.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lyre;
  static const ip::RouteTable routes = make_routes();
  if (size == 0) return 0;
  const bool is_super = (data[0] & 0x40) != 0;
  const size_t begin = is_super ? 3 : 1;
  if (size < begin) return 0;
  io::PacketBuf packet;
  packet.data = const_cast<uint8_t*>(data) + begin;
  packet.length = static_cast<uint32_t>(size - begin);
  packet.ip_checksum = static_cast<io::ChecksumVerdict>((data[0] & 0x3f) % 3);
  packet.l4_checksum = static_cast<io::ChecksumVerdict>((data[0] & 0x3f) / 3 % 3);
  if (is_super) {
    packet.rest_bytes = data[1] + 256u * data[2];
    packet.rest_slots = static_cast<uint16_t>(1 + packet.rest_bytes / kSlotBytes);
  }
  const ip::Origin origin = data[0] & 0x80 ? ip::Origin::kLocal : ip::Origin::kWire;
  ip::Classified out;
  check(ip::classify(packet, kOwnMac, routes, origin, out), out, packet);
  return 0;
}
