#include "nccl_adapter/daemon_link/rest.h"

#include <gtest/gtest.h>

#include "tests/unit/nccl_adapter/support/connected_hosts.h"

namespace lyre::nccl_adapter {
namespace {

constexpr int kLongestUs = 500;

class RestTest : public ConnectedHosts {
 protected:
  explicit RestTest(bool are_cores_busy = true)
      : ConnectedHosts({.hosts = 2, .rails = 2, .are_cores_busy = are_cores_busy}) {
    pass(kMs);
  }

  Rest rest_;
};

class RestOnAnIdleCore : public RestTest {
 protected:
  RestOnAnIdleCore() : RestTest(false) {}
};

TEST_F(RestTest, OneThreadRestsAtATime) {
  ASSERT_TRUE(rest_.begin(here().context(), kLongestUs));
  EXPECT_TRUE(rest_.is_under_way());
  EXPECT_FALSE(rest_.begin(here().context(), kLongestUs));
  rest_.end();
  EXPECT_FALSE(rest_.is_under_way());
  EXPECT_TRUE(rest_.begin(here().context(), kLongestUs));
  rest_.end();
}

TEST_F(RestTest, WaitsNoLongerThanItWasAllowed) {
  ASSERT_TRUE(rest_.begin(here().context(), kLongestUs));
  const int64_t from_ns = events_.now_ns();
  rest_.wait();
  EXPECT_EQ(events_.now_ns() - from_ns, int64_t{kLongestUs} * 1000);
  rest_.end();
}

TEST_F(RestOnAnIdleCore, NobodyRests) {
  EXPECT_FALSE(rest_.begin(here().context(), kLongestUs));
  EXPECT_FALSE(rest_.is_under_way());
}

TEST_F(RestTest, AThreadThatTookEventsEndsItOnce) {
  ASSERT_TRUE(rest_.begin(here().context(), kLongestUs));
  rest_.after_poll(here().context(), true);
  rest_.after_poll(here().context(), true);
  rest_.end();
  EXPECT_TRUE(rest_.begin(here().context(), kLongestUs)) << "what ended the last one is over";
  rest_.end();
}

}  // namespace
}  // namespace lyre::nccl_adapter
