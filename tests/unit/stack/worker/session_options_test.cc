#include <gtest/gtest.h>

#include "stack/wire/ethernet.h"
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
    const uint8_t* ip = packet->data + wire::kEthernetHeaderBytes;
    const Marks marks{.traffic_class = ip[1] & ~3, .hop_limit = ip[8]};
    const bool is_text = packet->length > 100;
    hosts.b.memory().release(std::span(&packet, 1));
    if (is_text) return marks;
  }
  return {};
}

TEST(Option, DscpAndHopLimitOfThePortAndOfTheSession) {  // RFC 9293 3.9.2, MUST-48, MUST-49
  HostOptions marked;
  marked.marking = {.dscp = 46, .hop_limit = 3};
  TwoWorkers hosts({}, marked);
  ASSERT_TRUE(hosts.connect());
  const channel::SessionName name = hosts.app_a->only().name;
  EXPECT_EQ(marks_of_text(hosts, name), (Marks{46 << 2, 3}));
  hosts.client_a->set_option(name, channel::SessionOption::kDscp, 10);
  hosts.client_a->set_option(name, channel::SessionOption::kHopLimit, 255);
  EXPECT_EQ(marks_of_text(hosts, name), (Marks{10 << 2, 255}));
}

}  // namespace
}  // namespace lyre::test
