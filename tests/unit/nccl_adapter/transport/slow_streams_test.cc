#include "nccl_adapter/transport/slow_streams.h"

#include <gtest/gtest.h>

#include "nccl_adapter/limits.h"

namespace lyre::nccl_adapter {
namespace {

class SlowStreamsTest : public ::testing::Test {
 protected:
  /// Looks for some windows; the last stream that was found slow.
  std::optional<size_t> watch(const std::vector<uint64_t>& rates, uint32_t windows,
                              bool is_backlogged = true) {
    std::optional<size_t> found;
    for (int64_t ns = 0; ns < windows * kSlowWindowNs; ns += kTickNs) {
      std::vector<SlowStreams::Look> looks;
      for (size_t i = 0; i < rates.size(); ++i) looks.push_back({i, session_, rates[i], true});
      looks.back().is_backlogged = is_backlogged;
      if (const auto slow = streams_.look(looks, kTickNs)) found = slow;
    }
    return found;
  }

  uint32_t session_ = 1;
  SlowStreams streams_;
};

constexpr uint32_t kEnough = kSlowWindows;

TEST_F(SlowStreamsTest, HalfOfTheNeighboursRateIsASharedPath) {
  EXPECT_EQ(watch({1000, 1000, 500}, kEnough), 2u);
}

TEST_F(SlowStreamsTest, OfTwoThatShareAPathOneIsNamed) {
  const auto found = watch({1000, 500, 1000, 499, 1000}, kEnough);
  EXPECT_EQ(found, 3u);
}

TEST_F(SlowStreamsTest, OneWindowSaysNothing) {
  EXPECT_EQ(watch({1000, 1000, 500}, kEnough - 1), std::nullopt);
  EXPECT_EQ(watch({1000, 1000, 1000}, 1), std::nullopt);
  EXPECT_EQ(watch({1000, 1000, 500}, 1), std::nullopt);
}

TEST_F(SlowStreamsTest, EqualRatesAreNotSlow) {
  EXPECT_EQ(watch({500, 501, 499}, 10), std::nullopt);
}

TEST_F(SlowStreamsTest, WhoHasLittleToSendIsNotSlow) {
  EXPECT_EQ(watch({1000, 1000, 500}, 10, false), std::nullopt);
}

TEST_F(SlowStreamsTest, OneThatCarriesNothingIsNotSlowButStalls) {
  EXPECT_EQ(watch({500, 0, 500}, 10), std::nullopt);
}

TEST_F(SlowStreamsTest, OneThatIsGoneIsNotSlow) {
  watch({1000, 1000, 500}, 1);
  EXPECT_EQ(watch({1000, 1000}, 10), std::nullopt);
}

TEST_F(SlowStreamsTest, ASuccessorIsWatchedFromItsBeginning) {
  watch({1000, 1000, 500}, kEnough);
  session_ = 2;
  EXPECT_EQ(watch({1000, 1000, 500}, kEnough - 1), std::nullopt);
}

}  // namespace
}  // namespace lyre::nccl_adapter
