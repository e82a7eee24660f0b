#include "stack/io/dpdk/retry_clock.h"

#include <gtest/gtest.h>

namespace lyre::io::dpdk {
namespace {

TEST(RetryClock, TheTimeBetweenAttemptsDoubles) {
  RetryClock retry;
  Nanos now = seconds(100);
  retry.look(now);
  EXPECT_TRUE(retry.is_due());
  for (Nanos period = RetryClock::kPeriodMin; period < RetryClock::kPeriodMax;
       period = period * 2) {
    retry.note_failure();
    EXPECT_FALSE(retry.is_slowest());
    EXPECT_FALSE(retry.is_due());
    retry.look(now);
    EXPECT_FALSE(retry.is_due());
    retry.look(now + period - nanos(1));
    EXPECT_FALSE(retry.is_due());
    retry.look(now = now + period);
    EXPECT_TRUE(retry.is_due());
  }
  retry.note_failure();
  EXPECT_TRUE(retry.is_slowest());
  retry.look(now);
  retry.look(now + RetryClock::kPeriodMax);
  EXPECT_TRUE(retry.is_due());
}

TEST(RetryClock, BeginsAnewAfterASuccess) {
  RetryClock retry;
  retry.look(seconds(1));
  for (int i = 0; i < 4; ++i) retry.note_failure();
  retry.note_success();
  EXPECT_TRUE(retry.is_due());
  retry.note_failure();
  retry.look(seconds(10));
  retry.look(seconds(10) + RetryClock::kPeriodMin);
  EXPECT_TRUE(retry.is_due());
}

}  // namespace
}  // namespace lyre::io::dpdk
