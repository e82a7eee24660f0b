#include <gtest/gtest.h>

#include <optional>

#include "stack/wire/ethernet.h"
#include "stack/wire/ip.h"
#include "tests/support/two_workers.h"

// What a client may choose for one of its sessions.
namespace lyre::test {
namespace {

TEST(Option, CorkHoldsBytesUntilItIsPulled) {
  TwoWorkers hosts;
  ASSERT_TRUE(hosts.connect());
  const channel::SessionName name = hosts.app_a->only().name;
  hosts.client_a->set_option(name, channel::SessionOption::kCork, 1);
  hosts.app_a->send_pattern(name, 3, 100, 100);
  hosts.run_for(millis(50));
  EXPECT_EQ(hosts.app_b->only().received, 0u);
  hosts.client_a->set_option(name, channel::SessionOption::kCork, 0);
  EXPECT_TRUE(hosts.run_until([&] { return hosts.app_b->only().received == 100; }));
}

struct Marks {
  int traffic_class = 0;
  int hop_limit = 0;
  friend bool operator==(const Marks&, const Marks&) = default;
};

/// Of a TCP packet.
std::optional<Marks> marks_of(const uint8_t* ip) {
  if (ip[0] >> 4 == 4) {
    if (ip[9] != wire::kIpProtocolTcp) return std::nullopt;
    return Marks{.traffic_class = ip[1] & ~3, .hop_limit = ip[8]};
  }
  if (ip[0] >> 4 != 6 || ip[6] != wire::kIpProtocolTcp) return std::nullopt;
  return Marks{.traffic_class = ((ip[0] & 15) << 4 | ip[1] >> 4) & ~3, .hop_limit = ip[7]};
}

/// Of the next packet with text that a sends; it does not arrive.
Marks marks_of_text(TwoWorkers& hosts, const channel::SessionName& session) {
  hosts.run_for(millis(500));
  hosts.client_a->send(session, 0, 100);
  for (int turn = 0; turn < 1000; ++turn) {
    hosts.now += micros(1);
    hosts.a.worker().poll_once(hosts.now);
    hosts.link.advance(hosts.now);
    io::PacketBuf* packet = nullptr;
    if (hosts.link.queue(1, 0).rx_burst(std::span(&packet, 1)) == 0) continue;
    const std::optional<Marks> marks = marks_of(packet->data + wire::kEthernetHeaderBytes);
    const bool is_text = packet->length > 100;
    hosts.b.memory().release(std::span(&packet, 1));
    if (marks && is_text) return *marks;
  }
  return {};
}

/// Packets of host a, which is connected, have those of its port, and then those of its session.
void expect_marks_of_port_and_session(TwoWorkers& hosts) {
  const channel::SessionName name = hosts.app_a->only().name;
  EXPECT_EQ(marks_of_text(hosts, name), (Marks{46 << 2, 3}));
  hosts.client_a->set_option(name, channel::SessionOption::kDscp, 10);
  hosts.client_a->set_option(name, channel::SessionOption::kHopLimit, 255);
  EXPECT_EQ(marks_of_text(hosts, name), (Marks{10 << 2, 255}));
}

TEST(Option, DscpAndHopLimitOfThePortAndOfTheSession) {  // RFC 9293 3.9.2, MUST-48, MUST-49
  HostOptions marked;
  marked.marking = {.dscp = 46, .hop_limit = 3};
  TwoWorkers hosts({}, marked);
  ASSERT_TRUE(hosts.connect());
  expect_marks_of_port_and_session(hosts);
}

TEST(Option, DscpAndHopLimitOverIpv6) {
  constexpr IpAddress kMarked{{0xfd, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  constexpr IpAddress kPlain{{0xfd, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};
  HostOptions marked;
  marked.marking = {.dscp = 46, .hop_limit = 3};
  marked.addresses = {{kMarked, 64}};
  HostOptions plain;
  plain.addresses = {{kPlain, 64}};
  TwoWorkers hosts({}, marked, plain);
  ASSERT_TRUE(hosts.connect(5000, kPlain));
  expect_marks_of_port_and_session(hosts);
}

}  // namespace
}  // namespace lyre::test
