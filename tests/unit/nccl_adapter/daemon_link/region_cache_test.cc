#include "nccl_adapter/daemon_link/region_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

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

/// Three buffers that the daemon has refused: its limit is used up.
class RefusedRegions : public Regions {
 protected:
  RefusedRegions() {
    host().refuses_memory = true;
    for (size_t i = 1; i <= 3; ++i) {
      taken_.push_back(cache_.take(here().context(), memory_.data(), memory_.size() / i));
    }
    asked_ = host().memory_requests;
  }
  adapter_sim::Host& host() { return network_.host(0); }
  /// As an instance with this clock does.
  void tick_until(int64_t now_ns) {
    for (; now_ns_ < now_ns; now_ns_ += kTickNs) cache_.ask_again(here().context(), now_ns_);
  }
  size_t known() const {
    return static_cast<size_t>(std::count_if(
        taken_.begin(), taken_.end(), [](const Memory* own) { return own->region != nullptr; }));
  }
  uint32_t asked_again() { return host().memory_requests - asked_; }

  std::vector<Memory*> taken_;

 private:
  uint32_t asked_ = 0;
  int64_t now_ns_ = 0;
};

// They were copied for the rest of the communicator.
TEST_F(RefusedRegions, AreRegisteredOneAfterTheOtherOnceTheLimitHasRoom) {
  tick_until(kAskAgainNs / 2);
  host().refuses_memory = false;
  EXPECT_EQ(known(), 0u);
  tick_until(kAskAgainNs + 2 * kTickNs);
  EXPECT_EQ(known(), 1u) << "each registration holds the instance's lock";
  tick_until(kAskAgainNs + 3 * kAskNextNs);
  EXPECT_EQ(known(), 3u);
  tick_until(100 * kSecond);
  EXPECT_EQ(asked_again(), 3u);
  EXPECT_EQ(g_lines, 2) << "that they are copied, and that they are not any more";
}

// An upgrade that refused one would hold the next request, and the communicator with it.
TEST_F(RefusedRegions, AreAskedForHalfAMinuteAfterTheLastRefusal) {
  tick_until(29 * kSecond);
  EXPECT_EQ(asked_again(), 0u);
  taken_.push_back(cache_.take(here().context(), memory_.data(), memory_.size() / 4));
  EXPECT_EQ(asked_again(), 1u);
  tick_until(58 * kSecond);
  EXPECT_EQ(asked_again(), 1u);
  tick_until(150 * kSecond);
  EXPECT_EQ(asked_again(), 5u) << "after 59, 89, 119 and 149 s";
  EXPECT_EQ(g_lines, 1);
}

TEST_F(RefusedRegions, AreNotAskedForOnceTheyAreGivenBack) {
  for (Memory* memory : taken_) cache_.give_back(memory);
  tick_until(100 * kSecond);
  EXPECT_EQ(asked_again(), 0u);
}

TEST_F(RefusedRegions, AreAskedForAtOnceWhenTheDaemonCameBack) {
  cache_.on_detached();
  tick_until(100 * kSecond);
  EXPECT_EQ(asked_again(), 0u);
  host().refuses_memory = false;
  cache_.on_attached(here().context());
  EXPECT_EQ(known(), 3u);
}

// As by a memory helper that is slow at that moment.
TEST_F(RefusedRegions, AreAskedForAlsoWhereOneIsRefusedForGood) {
  host().refuses_memory = false;
  host().final_refusals = 1;
  tick_until(100 * kSecond);
  EXPECT_EQ(known(), 2u);
  EXPECT_EQ(taken_[0]->region, nullptr);
  EXPECT_EQ(asked_again(), 3u);
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

// What the daemon cannot map, it cannot map later.
TEST_F(CopiedRegions, AreNotAskedForAgain) {
  cache_.take(here().context(), memory_.data(), memory_.size());
  for (int64_t now_ns = 0; now_ns < 100 * kSecond; now_ns += kTickNs) {
    cache_.ask_again(here().context(), now_ns);
  }
  EXPECT_EQ(network_.host(0).memory_requests, 1u);
}

}  // namespace
}  // namespace lyre::nccl_adapter
