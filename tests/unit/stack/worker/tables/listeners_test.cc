#include "stack/worker/tables/listeners.h"

#include <gtest/gtest.h>

namespace lyre::worker {
namespace {

const IpAddress kAny{};
const IpAddress kOne = IpAddress::v4(0x0a090001);
const IpAddress kTwo = IpAddress::v4(0x0a090002);

TEST(Listeners, AClientMayHaveNoMoreThanAreFree) {
  Listeners listeners(8);
  uint32_t of_greedy = 0;
  for (uint16_t port = 1; listeners.may_add(of_greedy); ++port, ++of_greedy) {
    listeners.add({.local = {kOne, port}});
  }
  EXPECT_EQ(of_greedy, 4u);
  EXPECT_TRUE(listeners.may_add(0)) << "of another client";
}

TEST(Listeners, ExactAddressBeatsAny) {
  Listeners listeners(8);
  const uint32_t exact = listeners.add({.local = {kOne, 80}});
  EXPECT_EQ(listeners.find({kOne, 80}), exact);
  EXPECT_EQ(listeners.find({kTwo, 80}), Listeners::kNone);
  EXPECT_EQ(listeners.find({kOne, 81}), Listeners::kNone);
}

TEST(Listeners, AnyAndExactOnOnePortExcludeEachOther) {
  Listeners listeners(8);
  listeners.add({.local = {kAny, 80}});
  EXPECT_TRUE(listeners.is_taken({kOne, 80}));
  EXPECT_TRUE(listeners.is_taken({kAny, 80}));
  EXPECT_FALSE(listeners.is_taken({kOne, 81}));
}

TEST(Listeners, AreRestoredWithTheirNames) {
  Listeners listeners(8);
  EXPECT_TRUE(listeners.restore(3, {.local = {kOne, 80}, .generation = 7}));
  EXPECT_FALSE(listeners.restore(3, {.local = {kOne, 81}, .generation = 8})) << "the index";
  EXPECT_FALSE(listeners.restore(4, {.local = {kAny, 80}, .generation = 8})) << "the address";
  EXPECT_FALSE(listeners.restore(8, {.local = {kOne, 82}, .generation = 8})) << "beyond the table";
  listeners.restore_generations(9);
  EXPECT_TRUE(listeners.is_valid(3, 7));
  EXPECT_EQ(listeners.find({kOne, 80}), 3u);
  const uint32_t added = listeners.add({.local = {kTwo, 80}});
  EXPECT_NE(added, 3u);
  EXPECT_EQ(listeners[added].generation, 10u);
}

// A listener with the generation 0 refused each upgrade while it lived.
TEST(Listeners, GenerationsThatWrapLeaveZeroOut) {
  Listeners listeners(8);
  listeners.restore_generations(UINT32_MAX - 1);
  const uint32_t last = listeners.add({.local = {kOne, 80}});
  EXPECT_EQ(listeners[last].generation, UINT32_MAX);
  const uint32_t first = listeners.add({.local = {kTwo, 80}});
  EXPECT_EQ(listeners[first].generation, 1u);
  EXPECT_EQ(listeners.generations(), 1u);
}

TEST(Listeners, TwoAddressesMayShareAPort) {
  Listeners listeners(8);
  listeners.add({.local = {kOne, 80}});
  EXPECT_FALSE(listeners.is_taken({kTwo, 80}));
  const uint32_t second = listeners.add({.local = {kTwo, 80}});
  EXPECT_EQ(listeners.find({kTwo, 80}), second);
}

struct FakeRing {
  uint32_t read = 0;
  bool is_read(uint32_t position) const { return position <= read; }
};

TEST(Listeners, SessionsWaitUntilTheirClientHasReadOfThem) {
  Listener listener{.backlog = 2};
  FakeRing ring;
  for (uint32_t position = 1; position <= 3; ++position) {
    listener.begin_handshake();
    listener.end_handshake();
    listener.tell(position);
    listener.leave();
  }
  listener.forget_read(ring);
  EXPECT_TRUE(listener.is_full());
  ring.read = 2;
  listener.forget_read(ring);
  EXPECT_TRUE(listener.is_full());
  ring.read = 3;
  listener.forget_read(ring);
  EXPECT_EQ(listener.waiting(), 0u);
}

TEST(Listeners, AClientThatLeavesTheLastEntryUnreadStillMakesRoom) {
  Listener listener{.backlog = 2};
  FakeRing ring;
  for (uint32_t position = 1; position <= 100; ++position) {
    ring.read = position - 1;
    listener.forget_read(ring);
    ASSERT_FALSE(listener.is_full()) << position;
    listener.begin_handshake();
    listener.end_handshake();
    listener.tell(position);
    listener.leave();
  }
}

TEST(Listeners, AnOldNameDoesNotReachANewListener) {
  Listeners listeners(1);
  const uint32_t index = listeners.add({.local = {kOne, 80}});
  const uint32_t generation = listeners[index].generation;
  listeners.remove(index);
  EXPECT_FALSE(listeners.is_valid(index, generation));
  EXPECT_EQ(listeners.find({kOne, 80}), Listeners::kNone);
  listeners.add({.local = {kTwo, 90}});
  EXPECT_FALSE(listeners.is_valid(index, generation));
  EXPECT_EQ(listeners.add({.local = {kOne, 91}}), Listeners::kNone) << "the table is full";
}

}  // namespace
}  // namespace lyre::worker
