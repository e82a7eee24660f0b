#include "stack/io/dpdk/driver_calls.h"

#include <gtest/gtest.h>

namespace lyre::io::dpdk {
namespace {

/// A memif driver and a queue that polls it.
struct PolledMemif {
  explicit PolledMemif(bool keeps_memory_order) : calls(keeps_memory_order) {}
  /// Whether the driver was called.
  bool poll() {
    const uint32_t before = bursts;
    const uint16_t got = calls.call([this] { return is_up; },
                                    [this] {
                                      ++bursts;
                                      return uint16_t{7};
                                    });
    EXPECT_EQ(got, bursts > before ? 7 : 0);
    return bursts > before;
  }
  /// As the driver does it: the port is marked, then calls are awaited.
  void disconnect() {
    is_up = false;
    DriverCalls::await_none();
  }

  ConnectedCalls calls;
  bool is_up = false;
  uint32_t bursts = 0;
};

// A burst that began while the peer connected read rings that were not mapped: SIGSEGV.
TEST(ConnectedCalls, NoneReachesADriverWithoutALink) {
  PolledMemif memif(true);
  EXPECT_FALSE(memif.poll());
  memif.is_up = true;
  EXPECT_TRUE(memif.poll());
  memif.disconnect();
  EXPECT_FALSE(memif.poll());
  memif.is_up = true;
  EXPECT_TRUE(memif.poll());
}

TEST(ConnectedCalls, TheFirstFollowsATurnAfterTheLinkWhereTheCpuReordersStores) {
  PolledMemif memif(false);
  for (int connection = 0; connection < 2; ++connection) {
    memif.is_up = true;
    EXPECT_FALSE(memif.poll());
    EXPECT_TRUE(memif.poll());
    EXPECT_TRUE(memif.poll());
    memif.disconnect();
    EXPECT_FALSE(memif.poll());
  }
}

// It has connected again since the last look.
TEST(ConnectedCalls, AnotherConnectionIsLookedAtAgain) {
  PolledMemif memif(false);
  memif.is_up = true;
  memif.poll();
  ASSERT_TRUE(memif.poll());
  memif.disconnect();
  memif.is_up = true;
  EXPECT_FALSE(memif.poll());
  EXPECT_TRUE(memif.poll());
}

}  // namespace
}  // namespace lyre::io::dpdk
