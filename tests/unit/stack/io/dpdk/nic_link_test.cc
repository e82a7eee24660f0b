#include "stack/io/dpdk/nic_link.h"

#include <gtest/gtest.h>
#include <rte_ethdev.h>

#include <vector>

namespace lyre::io::dpdk {
namespace {

/// What the test plays of a driver.
struct PlayedLink {
  uint16_t status = RTE_ETH_LINK_UP;
  int questions = 0;
} played_link;

class NicLinkOfNetvsc : public ::testing::Test {
 protected:
  void SetUp() override { played_link = {}; }
  /// Looks every 20 ms, as while another port is down. Each look asks twice for the link, and a
  /// client for the speed.
  void look_for(Nanos time) {
    for (const Nanos end = now_ + time; now_ < end; now_ = now_ + millis(20)) {
      link_.look(now_);
      link_.update(0, quirks_, {});
      link_.update(0, quirks_, {});
      EXPECT_EQ(link_.speed_mbps(0, quirks_), 50'000u);
    }
  }

  const DriverQuirks& quirks_ = quirks_of("net_netvsc");
  NicLink link_;
  Nanos now_ = seconds(100);
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
  EXPECT_EQ(played_link.questions, 59) << "a second after each answer";
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
    const Nanos begin = now_;
    const int before = played_link.questions;
    for (; played_link.questions == before; now_ = now_ + millis(20)) {
      link_.look(now_);
      link_.update(0, quirks_, {});
    }
    const Nanos asked = now_ - millis(20);
    pauses.push_back(static_cast<int>((asked - begin).value / seconds(1).value));
    now_ = asked + answer_takes;
  };
  for (int i = 0; i < 6; ++i) ask_next(seconds(60));
  EXPECT_EQ(pauses, (std::vector<int>{0, 10, 20, 40, 60, 60}));
  pauses.clear();
  for (int i = 0; i < 2; ++i) ask_next(millis(20));
  EXPECT_EQ(pauses, (std::vector<int>{60, 5}));
}

TEST_F(NicLinkOfNetvsc, ARestartIsNoSilence) {
  look_for(millis(20));
  link_.forget();
  link_.update(0, quirks_, {});
  now_ = now_ + seconds(60);
  look_for(seconds(6));
  EXPECT_EQ(played_link.questions, 3);
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
  out->link_status = played_link.status != 0;
  out->link_speed = 50'000;
  return 0;
}
