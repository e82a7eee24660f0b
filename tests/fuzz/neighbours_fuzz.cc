// A sequence of ARP and NDP packets, resolve() calls and pauses, applied to a neighbour table; its
// limits must hold.

#include <algorithm>
#include <cstring>

#include "stack/base/check.h"
#include "stack/base/ipv6_address.h"
#include "stack/link/neighbours.h"

namespace {

using namespace lyre;

constexpr MacAddress kOwnMac{{2, 0, 0, 0, 0, 1}};
constexpr MacAddress kPeerMac{{2, 0, 0, 0, 0, 2}};
constexpr IpAddress kOwnIp6{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};

/// After this many steps everything pending has ended: announcements, unicast and multicast
/// solicitations, hold times, and router lifetimes, which are at most 65535 seconds. Only router
/// solicitations go on.
constexpr int kStepsToRest = 64;
constexpr Nanos kPause = seconds(2000);

void drain(link::Neighbours& table, Nanos now) {
  for (int calls = 0; table.next_deadline() <= now; ++calls) {
    LYRE_CHECK(calls < 400);
    link::NeighbourOutList out;
    table.on_timer(now, out);
    for (const link::NeighbourOut& sent : out) {
      using Kind = link::NeighbourOut::Kind;
      LYRE_CHECK(sent.kind != Kind::kArp || sent.arp.sender_mac == kOwnMac);
      LYRE_CHECK(sent.kind != Kind::kNdp || !sent.ndp.addresses.destination.is_unspecified());
      LYRE_CHECK(sent.kind != Kind::kMld || is_ipv6_multicast(sent.mld.report.group));
    }
  }
}

void receive_arp(link::Neighbours& table, std::span<const uint8_t> bytes, Nanos now) {
  Drop drop = Drop::kCount;
  const auto packet = wire::parse_arp(bytes, drop);
  if (!packet) {
    LYRE_CHECK(drop == Drop::kArpMalformed);
    return;
  }
  const link::NeighbourHandled handled = table.handle_arp(0, *packet, now);
  LYRE_CHECK(!handled.reply || handled.reply->arp.target_ip == packet->sender_ip);
}

/// One byte of source, then the message.
void receive_ndp(link::Neighbours& table, std::span<const uint8_t> bytes, Nanos now) {
  if (bytes.empty()) return;
  wire::AddressPair addresses{link_local_address(kPeerMac), kAllNodes};
  addresses.source.bytes[15] = bytes[0];
  if (bytes[0] & 1) addresses.destination = kOwnIp6;
  if (bytes[0] == 0) addresses.source = IpAddress{};
  if (bytes[0] == 2) addresses.destination = solicited_node_group(kOwnIp6);
  Drop drop = Drop::kCount;
  const auto message = wire::parse_ndp(addresses, wire::kNdpHopLimit, bytes.subspan(1), drop);
  if (!message) return;
  const link::NeighbourHandled handled =
      table.handle_ndp(0, {kPeerMac, {addresses, *message}}, now);
  LYRE_CHECK(!handled.reply || handled.reply->ndp.message.target_mac == kOwnMac);
}

/// Nothing is due any more but a router solicitation.
void check_rest(link::Neighbours& table) {
  if (table.next_deadline() == kNever) return;
  link::NeighbourOutList out;
  table.on_timer(table.next_deadline(), out);
  LYRE_CHECK(out.size() == 1 && out[0].kind == link::NeighbourOut::Kind::kNdp);
  LYRE_CHECK(out[0].ndp.message.type == wire::NdpType::kRouterSolicitation);
}

IpAddress address_of(std::span<const uint8_t> four) {
  if (four[0] & 1) {
    IpAddress out = kOwnIp6;
    std::copy_n(four.begin(), 4, out.bytes.begin() + 12);
    return out;
  }
  uint32_t ip;
  std::memcpy(&ip, four.data(), 4);
  return IpAddress::v4(ip);
}

size_t bytes_of_step(uint8_t step) {
  if (step < 2) return step == 0 ? 4 : 1;
  return step % 2 == 0 ? size_t{wire::kArpBytes} : 1 + 8 * (step >> 1 & 7u);
}

}  // namespace

/// A list of steps. 0 + 4 bytes: resolve. 1 + 1 byte: that many seconds pass, or for 0 the link
/// comes up. Even + 28 bytes: an ARP packet arrives. Odd + a source and 8 bytes for each of (step
/// >> 1 & 7): an NDP message arrives.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  link::Neighbours table(1);
  Nanos now = seconds(1000);
  const InterfaceAddress addresses[] = {InterfaceAddress::of(IpAddress::v4(0x0a000001), 24),
                                        {kOwnIp6, 64},
                                        {link_local_address(kOwnMac), 64}};
  table.set_port(0, {kOwnMac, addresses, true}, now);
  std::span<const uint8_t> rest(data, size);
  while (!rest.empty()) {
    const uint8_t step = rest[0];
    rest = rest.subspan(1);
    const size_t wanted = bytes_of_step(step);
    const auto argument = rest.first(std::min(wanted, rest.size()));
    rest = rest.subspan(argument.size());
    if (step > 1) {
      (step % 2 == 0 ? receive_arp : receive_ndp)(table, argument, now);
    } else if (argument.size() < wanted) {
      break;
    } else if (step == 1 && argument[0] == 0) {
      table.on_link_up(0, now);
    } else if (step == 1) {
      now += seconds(argument[0]);
    } else {
      table.resolve(0, address_of(argument), now);
    }
    drain(table, now);
    LYRE_CHECK(table.cache().used() <= link::kNeighboursDefault);
  }
  for (int i = 0; i < kStepsToRest; ++i) drain(table, now += kPause);
  LYRE_CHECK(table.cache().used() == 0);
  check_rest(table);
  return 0;
}
