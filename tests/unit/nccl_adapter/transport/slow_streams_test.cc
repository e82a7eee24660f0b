#include "nccl_adapter/transport/slow_streams.h"

#include <gtest/gtest.h>

#include "nccl_adapter/limits.h"

namespace lyre::nccl_adapter {
namespace {

/// What a stream does between two looks.
struct Doing {
  uint64_t acked_bytes = 0;
  bool is_active = true;
  bool is_judged = is_active;
};

constexpr uint32_t kLooksToFind = kSlowWindowLooks * kSlowWindows;
constexpr uint64_t kFull = kSlowWindowBytesMin;
constexpr uint64_t kHalf = kFull / 2;
constexpr Doing kIdle = {0, false};

class SlowStreamsTest : public ::testing::Test {
 protected:
  std::optional<size_t> look(const std::vector<Doing>& streams) {
    std::vector<SlowStreams::Look> looks;
    for (size_t i = 0; i < streams.size(); ++i) {
      const Doing& doing = streams[i];
      looks.push_back({i, session_, doing.acked_bytes, doing.is_active, doing.is_judged});
    }
    const std::optional<SlowStreams::Slow> slow = streams_.look(looks);
    if (!slow) return std::nullopt;
    EXPECT_LT(slow->percent, kSlowPercent);
    return slow->stream;
  }
  /// The first stream that is found slow within so many looks.
  std::optional<size_t> watch(const std::vector<Doing>& streams, uint32_t looks) {
    for (uint32_t i = 0; i < looks; ++i) {
      if (const auto slow = look(streams)) return slow;
    }
    return std::nullopt;
  }

  uint32_t session_ = 1;
  SlowStreams streams_;
};

TEST_F(SlowStreamsTest, HalfOfTheNeighboursRateIsASharedPath) {
  EXPECT_EQ(watch({{kFull}, {kFull}, {kHalf}}, kLooksToFind), 2u);
}

TEST_F(SlowStreamsTest, OfTwoThatShareAPathOneIsNamedAndTheOtherStays) {
  const std::vector<Doing> streams = {{kFull}, {kHalf}, {kFull}, {kHalf - 1}, {kFull}};
  EXPECT_EQ(watch(streams, kLooksToFind), 3u);
  EXPECT_EQ(watch(streams, kLooksToFind - 1), std::nullopt);
}

TEST_F(SlowStreamsTest, OneWindowSaysNothing) {
  EXPECT_EQ(watch({{kFull}, {kHalf}}, kLooksToFind - 1), std::nullopt);
  EXPECT_EQ(watch({{kFull}, {kFull}}, kSlowWindowLooks), std::nullopt);
  EXPECT_EQ(watch({{kFull}, {kHalf}}, kLooksToFind - 1), std::nullopt);
}

// A job waits for its slow stream: the others work now and then.
TEST_F(SlowStreamsTest, NeighboursThatAreIdleMostOfTheTimeShowItAllTheSame) {
  std::optional<size_t> found;
  for (uint32_t i = 0; i < kLooksToFind && !found; ++i) {
    EXPECT_EQ(watch({kIdle, {kHalf / 100}}, 25), std::nullopt);
    found = look({{kFull, true, false}, {kHalf / 100}});
  }
  EXPECT_EQ(found, 1u);
}

// For want of a processor, say: it is no fault of the stream which had data at that time.
TEST_F(SlowStreamsTest, ATimeInWhichNobodyDeliversAnythingSaysNothing) {
  for (uint32_t i = 0; i < 10 * kLooksToFind; ++i) {
    EXPECT_EQ(look({kIdle, kIdle, {0}}), std::nullopt);
    EXPECT_EQ(look({{kFull}, {kFull}, {kFull}}), std::nullopt);
  }
}

// What is acknowledged is known by whole pieces, at different times for each stream.
TEST_F(SlowStreamsTest, StreamsThatDeliverInTurnsAreEqual) {
  for (uint32_t i = 0; i < 10 * kLooksToFind; ++i) {
    EXPECT_EQ(look({{kFull}, {0}, {0}}), std::nullopt);
    EXPECT_EQ(look({{0}, {kFull}, {0}}), std::nullopt);
    EXPECT_EQ(look({{0}, {0}, {kFull}}), std::nullopt);
  }
}

// Messages are cut into pieces, of which one stream has one more than the other.
TEST_F(SlowStreamsTest, AFewPiecesSayNothing) {
  EXPECT_EQ(watch({{kBlockBytes / 10}, {1}}, kLooksToFind), std::nullopt);
}

TEST_F(SlowStreamsTest, EqualRatesAreNotSlow) {
  EXPECT_EQ(watch({{kFull}, {kFull + 1}, {kFull - 1}}, 10 * kLooksToFind), std::nullopt);
}

TEST_F(SlowStreamsTest, WhoHasLittleToSendIsNotSlow) {
  EXPECT_EQ(watch({{kFull}, {kFull}, {kHalf, true, false}}, 10 * kLooksToFind), std::nullopt);
}

TEST_F(SlowStreamsTest, OneThatCarriesNothingIsNotSlowButStalls) {
  EXPECT_EQ(watch({{kFull}, {0}, {kFull}}, 10 * kLooksToFind), std::nullopt);
}

TEST_F(SlowStreamsTest, OneThatIsGoneIsNotSlow) {
  watch({{kFull}, {kFull}, {kHalf}}, kLooksToFind - 1);
  EXPECT_EQ(watch({{kFull}, {kFull}}, 10 * kLooksToFind), std::nullopt);
}

TEST_F(SlowStreamsTest, ASuccessorIsWatchedFromItsBeginning) {
  watch({{kFull}, {kFull}, {kHalf}}, kLooksToFind - 1);
  session_ = 2;
  EXPECT_EQ(watch({{kFull}, {kFull}, {kHalf}}, kLooksToFind - 1), std::nullopt);
}

}  // namespace
}  // namespace lyre::nccl_adapter
