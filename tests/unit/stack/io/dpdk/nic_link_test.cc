#include "stack/io/dpdk/nic_link.h"

#include <gtest/gtest.h>
#include <rte_ethdev.h>

#include <vector>

namespace lyre::io::dpdk {
namespace {

/// What the test plays of a driver, and of the clock.
struct PlayedLink {
  uint16_t status = RTE_ETH_LINK_UP;
  int questions = 0;
  Nanos now = seconds(100);
  Nanos answer_takes;
} played_link;

Nanos played_now() { return played_link.now; }

class NicLinkOfNetvsc : public ::testing::Test {
 protected:
  void SetUp() override { played_link = {}; }
  /// Looks every 20 ms, as while another port is down. Each look asks twice for the link, and a
  /// client for the speed.
  void look_for(Nanos time) {
    for (const Nanos end = played_now() + time; played_now() < end; played_link.now += millis(20)) {
      link_.update(0, quirks_, {});
      link_.update(0, quirks_, {});
      EXPECT_EQ(link_.speed_mbps(0, quirks_), 50'000u);
    }
  }

  const DriverQuirks& quirks_ = quirks_of("net_netvsc");
  NicLink link_{played_now};
};

// A sixth of a core was busy with it.
TEST_F(NicLinkOfNetvsc, IsAskedForEveryFewSeconds) {
  look_for(seconds(60));
  EXPECT_EQ(played_link.questions, 12);
  EXPECT_TRUE(link_.shown()->load());
}

TEST_F(NicLinkOfNetvsc, IsAskedForEachSecondWhileItIsDown) {
  played_link.status = RTE_ETH_LINK_DOWN;
  look_for(seconds(60));
  EXPECT_EQ(played_link.questions, 60) << "a second after each answer";
  EXPECT_FALSE(link_.shown()->load());
  played_link.status = RTE_ETH_LINK_UP;
  look_for(seconds(1));
  EXPECT_TRUE(link_.shown()->load());
}

TEST_F(NicLinkOfNetvsc, IsAskedForWhenTheDeviceWasStartedAgain) {
  look_for(millis(20));
  played_link.status = RTE_ETH_LINK_DOWN;
  look_for(millis(20));
  EXPECT_TRUE(link_.shown()->load());
  link_.forget();
  look_for(millis(20));
  EXPECT_FALSE(link_.shown()->load());
}

// The control thread did little else than to wait a minute for each answer.
TEST_F(NicLinkOfNetvsc, IsAskedForSeldomWhileItsHostIsSilent) {
  std::vector<int> pauses;  // in seconds
  const auto ask_next = [&](Nanos answer_takes) {
    played_link.answer_takes = answer_takes;
    Nanos asked = played_now();
    const Nanos begin = asked;
    const int before = played_link.questions;
    link_.update(0, quirks_, {});
    for (; played_link.questions == before; link_.update(0, quirks_, {})) {
      asked = played_link.now += millis(20);
    }
    pauses.push_back(static_cast<int>((asked - begin).value / seconds(1).value));
  };
  for (int i = 0; i < 6; ++i) ask_next(seconds(60));
  EXPECT_EQ(pauses, (std::vector<int>{0, 10, 20, 40, 60, 60}));
  pauses.clear();
  for (int i = 0; i < 2; ++i) ask_next(millis(20));
  EXPECT_EQ(pauses, (std::vector<int>{60, 5}));
}

// The wait for one port's host was taken for a wait for the other's.
TEST_F(NicLinkOfNetvsc, IsAskedForSoonWhileAnotherHostIsSilent) {
  played_link.status = RTE_ETH_LINK_DOWN;
  NicLink other(played_now);
  other.update(0, quirks_, {});
  played_link.answer_takes = seconds(60);
  link_.update(0, quirks_, {});
  played_link.answer_takes = millis(20);
  other.update(0, quirks_, {});
  EXPECT_EQ(played_link.questions, 3);
  played_link.now += seconds(1);
  link_.update(0, quirks_, {});
  EXPECT_EQ(played_link.questions, 3) << "its host is silent";
  other.update(0, quirks_, {});
  EXPECT_EQ(played_link.questions, 4);
}

TEST_F(NicLinkOfNetvsc, OtherDriversAreAskedEachTime) {
  for (int i = 0; i < 3; ++i) link_.update(0, quirks_of("net_ena"), {});
  EXPECT_EQ(played_link.questions, 3);
}

}  // namespace
}  // namespace lyre::io::dpdk

// DPDK's function, in front of which this program has one of the same name.
using lyre::io::dpdk::played_link;
extern "C" int rte_eth_link_get_nowait(uint16_t, rte_eth_link* out) {
  ++played_link.questions;
  played_link.now += played_link.answer_takes;
  out->link_status = played_link.status != 0;
  out->link_speed = 50'000;
  return 0;
}
