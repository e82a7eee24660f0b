#include "nccl_adapter/transport/lanes.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/unit/nccl_adapter/idle_transport.h"

namespace lyre::nccl_adapter {
namespace {

struct LanesWaiter final : SessionOwner {
  void on_ready() override {}
};

TEST(LanesOfAComm, AreAsManyAsTheyWereMadeByTheirIndex) {
  LanesWaiter waiter;
  const Lanes lanes(&waiter, 3);
  ASSERT_EQ(lanes.size(), 3u);
  uint16_t index = 0;
  for (const auto& lane : lanes) EXPECT_EQ(lane->index, index++);
  EXPECT_EQ(&lanes[2], std::prev(lanes.end())->get());
}

TEST(LanesOfAComm, GrowAndKeepTheirPlaces) {
  LanesWaiter waiter;
  Lanes lanes(&waiter, 1);
  const Lane* first = &lanes[0];
  lanes.grow(4);
  ASSERT_EQ(lanes.size(), 4u);
  EXPECT_EQ(&lanes[0], first);
  EXPECT_EQ(lanes[3].index, 3u);
  lanes.grow(2);
  EXPECT_EQ(lanes.size(), 4u);
}

TEST(LanesOfAComm, WithoutASessionNoneIsUp) {
  LanesWaiter waiter;
  Lanes lanes(&waiter, 2);
  EXPECT_EQ(lanes.up(), 0u);
  EXPECT_FALSE(lanes.is_any_up());
  EXPECT_EQ(lanes.first_up(), nullptr);
}

TEST(LanesOfAComm, TheFirstOneThatIsUpNeedNotBeTheFirst) {
  LanesWaiter waiter;
  Lanes lanes(&waiter, 3);
  lanes[1].attach(std::make_unique<IdleTransport>(), 1, 0);
  lanes[2].attach(std::make_unique<IdleTransport>(), 1, 0);
  EXPECT_EQ(lanes.first_up(), &lanes[1]);
  EXPECT_TRUE(lanes.is_any_up());
  lanes[1].drop();
  EXPECT_EQ(lanes.first_up(), &lanes[2]);
}

TEST(LanesOfAComm, DropAllEndsTheDialsToo) {
  LanesWaiter waiter;
  Lanes lanes(&waiter, 2);
  lanes[1].dial = std::make_unique<Dial>(lyre_addr{}, lyre_addr{}, Hello{}, 1000, &waiter);
  lanes.drop_all();
  EXPECT_EQ(lanes[1].dial, nullptr);
}

}  // namespace
}  // namespace lyre::nccl_adapter
