#include "stack/channel/ring.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

namespace lyre::channel {
namespace {

struct Shared {
  RingIndices indices{};
  uint64_t entries[8]{};
};
using Producer = RingProducer<uint64_t, 8>;
using Consumer = RingConsumer<uint64_t, 8>;

TEST(Ring, PushedEntriesAppearWithPublishAndInOrder) {
  Shared shared;
  Producer producer(&shared.indices, shared.entries);
  Consumer consumer(&shared.indices, shared.entries);
  ASSERT_GE(producer.room(2), 2u);
  producer.push(11);
  producer.push(22);
  EXPECT_EQ(consumer.available(), 0u);
  producer.publish();
  ASSERT_EQ(consumer.available(), 2u);
  EXPECT_EQ(consumer.pop(), 11u);
  EXPECT_EQ(consumer.pop(), 22u);
}

TEST(Ring, AnEntryThatIsPutBackIsTheNextOneAgain) {
  Shared shared;
  Producer producer(&shared.indices, shared.entries);
  Consumer consumer(&shared.indices, shared.entries);
  producer.push(11);
  producer.push(22);
  producer.publish();
  ASSERT_EQ(consumer.available(), 2u);
  EXPECT_EQ(consumer.pop(), 11u);
  EXPECT_EQ(consumer.pop(), 22u);
  consumer.put_back();
  consumer.publish();
  EXPECT_EQ(producer.room(8), 7u);
  ASSERT_EQ(consumer.available(), 1u);
  EXPECT_EQ(consumer.pop(), 22u);
  EXPECT_EQ(consumer.available(), 0u);
}

TEST(Ring, FullRingHasRoomAgainOnlyAfterTheConsumerPublished) {
  Shared shared;
  Producer producer(&shared.indices, shared.entries);
  Consumer consumer(&shared.indices, shared.entries);
  for (uint64_t i = 0; i < 8; ++i) producer.push(i);
  producer.publish();
  EXPECT_EQ(producer.room(), 0u);
  ASSERT_EQ(consumer.available(), 8u);
  consumer.pop();
  EXPECT_EQ(producer.room(), 0u);
  consumer.publish();
  EXPECT_EQ(producer.room(), 1u);
}

TEST(Ring, ProducerIsBrokenByAConsumerThatClaimsMoreThanWasProduced) {
  Shared shared;
  Producer producer(&shared.indices, shared.entries);
  for (uint64_t i = 0; i < 8; ++i) producer.push(i);
  producer.publish();
  shared.indices.head.store(9);
  EXPECT_EQ(producer.room(), 0u);
  EXPECT_TRUE(producer.is_broken());
}

TEST(Ring, ConsumerIsBrokenByAProducerThatClaimsMoreThanFits) {
  Shared shared;
  Consumer consumer(&shared.indices, shared.entries);
  shared.indices.tail.store(9);
  EXPECT_EQ(consumer.available(), 0u);
  EXPECT_TRUE(consumer.is_broken());
}

TEST(Ring, TwoThreadsSeeEveryEntryOnceAndInOrder) {
  Shared shared;
  constexpr uint64_t kCount = 200'000;
  std::thread thread([&] {
    Producer producer(&shared.indices, shared.entries);
    for (uint64_t i = 0; i < kCount;) {
      if (producer.room() == 0) {
        std::this_thread::yield();
        continue;
      }
      producer.push(i++);
      producer.publish();
    }
  });
  Consumer consumer(&shared.indices, shared.entries);
  bool is_ordered = true;
  for (uint64_t expected = 0; expected < kCount;) {
    if (consumer.available() == 0) {
      std::this_thread::yield();
      continue;
    }
    is_ordered &= consumer.pop() == expected++;
    consumer.publish();
  }
  thread.join();
  EXPECT_TRUE(is_ordered);
}

// No wakeup is lost: a sleeper is rung, or it saw the work and did not sleep.
TEST(Doorbell, SleeperIsWokenOrSeesTheWork) {
  constexpr uint32_t kRounds = 20'000;
  constexpr uint32_t kRoundOver = 2;
  std::atomic<uint32_t> sleeps{0};
  std::atomic<uint32_t> work{0};
  std::atomic<uint32_t> rings{0};
  std::atomic<bool> is_missed{false};
  std::thread waker([&] {
    for (uint32_t round = 1; round <= kRounds && !is_missed; ++round) {
      work.store(round);
      if (must_ring(sleeps)) ++rings;
      while (sleeps != kRoundOver && !is_missed) std::this_thread::yield();
      sleeps = 0;
    }
  });
  for (uint32_t round = 1; round <= kRounds && !is_missed; ++round) {
    const uint32_t rings_before = rings;
    if (announce_sleep(sleeps, [&] { return work.load() >= round; })) {
      uint64_t spins = 0;
      while (rings == rings_before && ++spins < 10'000'000) std::this_thread::yield();
      is_missed = rings == rings_before;
    }
    sleeps = kRoundOver;
    while (sleeps == kRoundOver && !is_missed) std::this_thread::yield();
  }
  waker.join();
  EXPECT_FALSE(is_missed);
}

TEST(ContextLayout, PartsFollowEachOtherWithoutOverlap) {
  const ContextLayout layout = ContextLayout::of(3, 1 << 20, 1 << 16);
  EXPECT_EQ(layout.rings_offset, kHeaderBytes);
  EXPECT_GE(layout.arena_offset, layout.rings_offset + 3 * sizeof(RingPair));
  EXPECT_GE(layout.copy_offset, layout.arena_offset + (1 << 20));
  EXPECT_GE(layout.total_bytes, layout.copy_offset + (1 << 16));
}

TEST(ContextLayout, ArenaAndCopyAreaBeginWithAPage) {
  for (const uint64_t page_bytes : {4096u, 16384u, 65536u}) {
    const ContextLayout layout = ContextLayout::of(3, page_bytes + 1, 5000, page_bytes);
    EXPECT_EQ(layout.arena_offset % page_bytes, 0u);
    EXPECT_EQ(layout.copy_offset, layout.arena_offset + 2 * page_bytes);
    EXPECT_EQ(layout.total_bytes % page_bytes, 0u);
  }
}

}  // namespace
}  // namespace lyre::channel
