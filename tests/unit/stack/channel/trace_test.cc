#include "stack/channel/trace.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace lyre::channel {
namespace {

constexpr int64_t kOpened = 1'700'000'000'000'000'000;

class TraceRingTest : public ::testing::Test {
 protected:
  void push(uint32_t number) { ring_->push({number, TraceKind::kState, number, 2 * number}); }
  std::vector<TraceEvent> read(int64_t opened = kOpened) const {
    std::array<TraceEvent, TraceRing::kEvents> events;
    const uint32_t count = ring_->read(opened, events);
    return {events.begin(), events.begin() + count};
  }

  std::unique_ptr<TraceRing> ring_ = std::make_unique<TraceRing>();
};

TEST_F(TraceRingTest, HasNothingOfASessionThatItDoesNotHave) {
  EXPECT_TRUE(read().empty());
  ring_->begin(kOpened);
  push(1);
  EXPECT_TRUE(read(kOpened + 1).empty());
}

TEST_F(TraceRingTest, KeepsWhatAnEventSays) {
  ring_->begin(kOpened);
  ring_->push({kOpened / 1000, TraceKind::kEnded, UINT32_MAX, 7});
  ASSERT_EQ(read().size(), 1u);
  EXPECT_EQ(read()[0].unix_us, kOpened / 1000);
  EXPECT_EQ(read()[0].kind, TraceKind::kEnded);
  EXPECT_EQ(read()[0].first, UINT32_MAX);
  EXPECT_EQ(read()[0].second, 7u);
}

TEST_F(TraceRingTest, KeepsTheLastEventsInTheirOrder) {
  ring_->begin(kOpened);
  for (uint32_t i = 0; i < TraceRing::kEvents + 10; ++i) push(i);
  const auto events = read();
  ASSERT_EQ(events.size(), TraceRing::kEvents);
  for (uint32_t i = 0; i < events.size(); ++i) EXPECT_EQ(events[i].first, i + 10);
}

TEST_F(TraceRingTest, ForgetsTheSessionBefore) {
  ring_->begin(kOpened);
  for (uint32_t i = 0; i < 5; ++i) push(i);
  ring_->begin(kOpened + 1);
  push(9);
  EXPECT_TRUE(read().empty());
  ASSERT_EQ(read(kOpened + 1).size(), 1u);
  EXPECT_EQ(read(kOpened + 1)[0].first, 9u);
}

TEST_F(TraceRingTest, CountsEqualEventsInOne) {
  ring_->begin(kOpened);
  for (int64_t at = 1; at <= 3; ++at) ring_->push_or_add({at, TraceKind::kDropped, 4, 1});
  ring_->push_or_add({4, TraceKind::kDropped, 5, 1});
  const auto events = read();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].unix_us, 3);
  EXPECT_EQ(events[0].second, 3u);
  EXPECT_EQ(events[1].first, 5u);
}

TEST_F(TraceRingTest, ASumStaysAtItsMaximum) {
  ring_->begin(kOpened);
  for (const uint32_t count : {UINT32_MAX, 1u}) {
    ring_->push_or_add({1, TraceKind::kDropped, 4, count});
  }
  ASSERT_EQ(read().size(), 1u);
  EXPECT_EQ(read()[0].second, UINT32_MAX);
}

TEST(TraceEventBytes, AreNeverNone) {
  EXPECT_EQ(event_bytes(7), 7u);
  EXPECT_EQ(event_bytes(UINT32_MAX), UINT32_MAX - 1);
  EXPECT_EQ(event_bytes(uint64_t{5} << 30), UINT32_MAX - 1);
}

TEST_F(TraceRingTest, AReaderBesideTheWriterSeesWholeSessions) {
  constexpr uint32_t kSessions = 2000;
  std::atomic<bool> is_over = false;
  std::thread writer([&] {
    for (uint32_t session = 1; session <= kSessions; ++session) {
      ring_->begin(session);
      for (uint32_t i = 0; i < 200; ++i) {
        ring_->push({i, TraceKind::kState, session, i});
      }
    }
    is_over = true;
  });
  uint32_t session = 1;
  while (!is_over) {
    const auto events = read(session);
    if (events.empty()) session = session % kSessions + 1;
    for (size_t i = 0; i < events.size(); ++i) {
      EXPECT_EQ(events[i].first, session);
      EXPECT_EQ(events[i].second, events[0].second + i);
    }
  }
  writer.join();
}

}  // namespace
}  // namespace lyre::channel
