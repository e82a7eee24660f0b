#include "nccl_adapter/daemon_link/region_cache.h"

#include <gtest/gtest.h>

#include "nccl_adapter/observe/log.h"
#include "tests/unit/nccl_adapter/support/two_hosts.h"

namespace lyre::nccl_adapter {
namespace {

int g_lines = 0;

void count_line(nccl_abi::LogLevel, unsigned long, const char*, int, const char*, ...) {
  ++g_lines;
}

class Regions : public TwoHosts {
 protected:
  explicit Regions(bool is_memory_direct = true)
      : TwoHosts({.hosts = 2, .rails = 2, .is_memory_direct = is_memory_direct}) {
    g_lines = 0;
    set_logger(count_line);
  }
  ~Regions() override { set_logger(nullptr); }

  RegionCache cache_;
  std::vector<uint8_t> memory_ = std::vector<uint8_t>(1 << 20);
};

TEST_F(Regions, TheSameMemoryIsRegisteredOnce) {
  Memory* first = cache_.take(here().context(), memory_.data(), memory_.size());
  ASSERT_NE(first->region, nullptr);
  EXPECT_EQ(cache_.take(here().context(), memory_.data(), memory_.size()), first);
  EXPECT_EQ(first->users, 2u);
  EXPECT_NE(cache_.take(here().context(), memory_.data(), memory_.size() / 2), first);
}

TEST_F(Regions, TheLastUserGivesTheMemoryBack) {
  Memory* memory = cache_.take(here().context(), memory_.data(), memory_.size());
  cache_.take(here().context(), memory_.data(), memory_.size());
  cache_.give_back(memory);
  EXPECT_EQ(memory->users, 1u);
  EXPECT_NE(memory->region, nullptr);
  cache_.give_back(memory);
  EXPECT_EQ(cache_.take(here().context(), memory_.data(), memory_.size())->users, 1u);
}

TEST_F(Regions, SmallMemoryIsCopiedInAnyCase) {
  EXPECT_EQ(cache_.take(here().context(), memory_.data(), kZeroCopyBytesMin - 1)->region, nullptr);
}

TEST_F(Regions, ADaemonThatCameBackLearnsOfAllMemory) {
  Memory* memory = cache_.take(here().context(), memory_.data(), memory_.size());
  cache_.on_detached();
  EXPECT_EQ(memory->region, nullptr);
  Memory* meanwhile = cache_.take(nullptr, memory_.data(), memory_.size() / 2);
  EXPECT_EQ(meanwhile->region, nullptr);
  cache_.on_attached(here().context());
  EXPECT_NE(memory->region, nullptr);
  EXPECT_NE(meanwhile->region, nullptr);
}

// The daemon that comes back is asked again, and its reasons are logged.
TEST_F(Regions, ADaemonThatIsGoneIsNoReasonForCopies) {
  network_.kill_daemon(0);
  EXPECT_EQ(cache_.take(here().context(), memory_.data(), memory_.size())->region, nullptr);
  EXPECT_EQ(g_lines, 0);
}

class CopiedRegions : public Regions {
 protected:
  CopiedRegions() : Regions(false) {}
};

TEST_F(CopiedRegions, AreLoggedOnceForEachDaemon) {
  cache_.take(here().context(), memory_.data(), memory_.size());
  cache_.take(here().context(), memory_.data(), memory_.size() / 2);
  EXPECT_EQ(g_lines, 1);
  cache_.on_detached();
  cache_.on_attached(here().context());
  EXPECT_EQ(g_lines, 2);
}

}  // namespace
}  // namespace lyre::nccl_adapter
