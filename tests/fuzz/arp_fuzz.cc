// A conversation of ARP packets, questions and pauses with a table; its bounds must hold.

#include <cstring>

#include "stack/base/check.h"
#include "stack/link/arp_table.h"

namespace {

using namespace lyre;

constexpr MacAddress kOwnMac{{2, 0, 0, 0, 0, 1}};
const IpAddress kOwnIp = IpAddress::v4(0x0a000001);

/// A long pause makes at most announcements, three tries each of unicast and broadcast, and a
/// release: the table comes to rest.
constexpr int kStepsToRest = 64;

void drain(link::ArpTable& table, Nanos now) {
  for (int calls = 0; table.next_deadline() <= now; ++calls) {
    LYRE_CHECK(calls < 200);
    link::ArpOutList out;
    table.on_timer(now, out);
    for (const link::ArpOut& sent : out) LYRE_CHECK(sent.packet.sender_mac == kOwnMac);
  }
}

void receive(link::ArpTable& table, std::span<const uint8_t> bytes, Nanos now) {
  Drop drop = Drop::kCount;
  const auto packet = wire::parse_arp(bytes, drop);
  if (!packet) {
    LYRE_CHECK(drop == Drop::kArpMalformed);
    return;
  }
  const link::ArpHandled handled = table.handle_arp(0, *packet, now);
  LYRE_CHECK(!handled.reply || handled.reply->packet.target_ip == packet->sender_ip);
}

}  // namespace

/// A list of steps: 0 + 4 bytes: resolve; 1 + 1 byte: so many seconds pass; other + 28 bytes: a
/// packet arrives.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  link::ArpTable table(1);
  Nanos now = seconds(1000);
  table.set_port(0, kOwnMac, kOwnIp, 24, now);
  std::span<const uint8_t> rest(data, size);
  while (!rest.empty()) {
    const uint8_t step = rest[0];
    rest = rest.subspan(1);
    const size_t wanted = step == 0 ? 4 : step == 1 ? 1 : wire::kArpBytes;
    const auto argument = rest.first(std::min(wanted, rest.size()));
    rest = rest.subspan(argument.size());
    if (step > 1) {
      receive(table, argument, now);
    } else if (argument.size() < wanted) {
      break;
    } else if (step == 1) {
      now += seconds(argument[0]);
    } else {
      uint32_t ip;
      std::memcpy(&ip, argument.data(), 4);
      table.resolve(0, IpAddress::v4(ip), now);
    }
    drain(table, now);
    LYRE_CHECK(table.used() <= link::kArpEntriesMax);
  }
  for (int i = 0; i < kStepsToRest; ++i) drain(table, now += seconds(10));
  LYRE_CHECK(table.used() == 0 && table.next_deadline() == kNever);
  return 0;
}
