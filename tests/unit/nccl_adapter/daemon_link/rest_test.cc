#include "nccl_adapter/daemon_link/rest.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/nccl_adapter/support/connected_hosts.h"

namespace lyre::nccl_adapter {
namespace {

class RestTest : public ConnectedHosts {
 protected:
  explicit RestTest(bool are_cores_busy = true)
      : ConnectedHosts({.hosts = 2, .rails = 2, .are_cores_busy = are_cores_busy}) {
    pass(kMs);
  }

  /// How long a rest takes that nothing ends.
  int64_t rest_for_us() {
    EXPECT_TRUE(rest_.begin(here().context()));
    const int64_t from_ns = events_.now_ns();
    rest_.wait();
    rest_.end();
    return (events_.now_ns() - from_ns) / 1000;
  }

  Rest rest_;
};

class RestOnAnIdleCore : public RestTest {
 protected:
  RestOnAnIdleCore() : RestTest(false) {}
};

TEST_F(RestTest, OneThreadRestsAtATime) {
  ASSERT_TRUE(rest_.begin(here().context()));
  EXPECT_TRUE(rest_.is_under_way());
  EXPECT_FALSE(rest_.begin(here().context()));
  rest_.end();
  EXPECT_FALSE(rest_.is_under_way());
  EXPECT_TRUE(rest_.begin(here().context()));
  rest_.end();
}

TEST_F(RestTest, EachIsTwiceAsLongUntilNcclGetsSomethingToDo) {
  int64_t expected_us = kRestUsMin;
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(rest_for_us(), expected_us);
    expected_us = std::min<int64_t>(expected_us * 2, kRestUsMax);
  }
  EXPECT_EQ(expected_us, kRestUsMax);
  rest_.begin_anew();
  EXPECT_EQ(rest_for_us(), kRestUsMin);
}

TEST_F(RestOnAnIdleCore, NobodyRests) {
  EXPECT_FALSE(rest_.begin(here().context()));
  EXPECT_FALSE(rest_.is_under_way());
}

TEST_F(RestTest, AThreadThatTookEventsEndsItOnce) {
  ASSERT_TRUE(rest_.begin(here().context()));
  rest_.after_poll(here().context(), true);
  rest_.after_poll(here().context(), true);
  rest_.end();
  EXPECT_TRUE(rest_.begin(here().context())) << "what ended the last one is over";
  rest_.end();
}

}  // namespace
}  // namespace lyre::nccl_adapter
