#include "machine/receive_queues.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lyre::machine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ReceiveQueues, AreNotKnownOfAnInterfaceThatIsNotThere) {
  for (const char* name : {"", "lyre-none", "a-name-that-no-interface-has"}) {
    EXPECT_FALSE(receive_queues(name)) << name;
  }
}

TEST(ReceiveQueues, BesideThoseOfAPort) {
  EXPECT_THAT(queues_beside({.combined = 4}, 0, 1), ElementsAre(1, 2, 3));
  EXPECT_THAT(queues_beside({.combined = 1, .receive_only = 1}, 0, 1), ElementsAre(1));
  EXPECT_THAT(queues_beside({.combined = 4}, 1, 2), ElementsAre(0, 3));
  EXPECT_THAT(queues_beside({.combined = 4}, 0, 4), IsEmpty());
  EXPECT_THAT(queues_beside({.combined = 4}, 0, UINT32_MAX), IsEmpty());
}

TEST(ReceiveQueues, ThoseThatRssLeavesOutGetNothing) {
  EXPECT_THAT(queues_beside({.combined = 8, .rss_table = {0, 1, 0, 1}}, 0, 1), ElementsAre(1));
  EXPECT_THAT(queues_beside({.combined = 8, .rss_table = {0, 1, 0, 1}}, 0, 2), IsEmpty());
}

TEST(ReceiveQueues, FlowRulesMaySteer) {
  EXPECT_THAT(queues_beside({.combined = 8, .flow_rules = 1}, 0, 1), IsEmpty());
}

}  // namespace
}  // namespace lyre::machine
