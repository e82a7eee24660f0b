#include "daemon/memory/region_registry.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/base/daemon_limits.h"
#include "tests/support/deadline.h"
#include "tests/unit/daemon/slow_file.h"

namespace lyre {
namespace {

constexpr uint64_t kBackgroundBytes = uint64_t{64} << 20;
static_assert(kBackgroundBytes > kMapAtOnceBytesMax);

/// A registry whose ports only count.
class RegionRegistryTest : public ::testing::Test {
 protected:
  RegionRegistryTest() {
    registry_.emplace(1, RegionLimits{.bytes_per_context_max = uint64_t{1} << 40},
                      PortMapping{.map =
                                      [this](const uint8_t*, uint64_t, uint64_t) {
                                        maps_here_ += std::this_thread::get_id() == here_;
                                        ++maps_;
                                      },
                                  .unmap = [this](const uint8_t*, uint64_t) { ++unmaps_; }},
                      [](uint32_t, const worker::Command&) {});
    registry_->set_owner(0, 7);
  }
  void add(uint64_t bytes) {
    OwnedFd file(::memfd_create("lyre-test", MFD_CLOEXEC));
    ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
    const auto name = registry_->add(0, {std::move(file), 0, bytes, system_page_bytes()});
    ASSERT_TRUE(name.ok()) << name.error().text;
  }

  /// About a minute at most: an end maps no more.
  void await_maps(int count) const {
    const test::Deadline deadline;
    while (maps_ < count && !deadline.is_over()) std::this_thread::yield();
  }

  const std::thread::id here_ = std::this_thread::get_id();
  std::atomic<int> maps_here_{0};
  std::atomic<int> maps_{0};
  std::atomic<int> unmaps_{0};
  std::optional<RegionRegistry> registry_;
};

// A daemon that stops while a port waits for memory that is being mapped did not end. Later it
// mapped first what it unmapped then.
TEST_F(RegionRegistryTest, EndsWhileAPortWouldGoFirst) {
  registry_->let_ports_go_first(true);
  add(kBackgroundBytes);
  registry_.reset();
  EXPECT_EQ(maps_, 0);
  EXPECT_EQ(unmaps_, 1);
}

// A driver with few places for memory is told of all addresses before the first memory in them.
TEST(RegionRegistryPorts, KnowWhereMemoryWillLie) {
  std::vector<std::span<const uint8_t>> windows;
  std::vector<const uint8_t*> mapped;
  RegionRegistry registry(
      1, {.bytes_per_context_max = uint64_t{1} << 40},
      {.map =
           [&](const uint8_t* base, uint64_t, uint64_t) {
             EXPECT_EQ(windows.size(), 1u);
             mapped.push_back(base);
           },
       .unmap = [](const uint8_t*, uint64_t) {},
       .set_window = [&](std::span<const uint8_t> window) { windows.push_back(window); }},
      [](uint32_t, const worker::Command&) {});
  registry.set_owner(0, 7);
  for (int i = 0; i < 2; ++i) {
    OwnedFd file(::memfd_create("lyre-test", MFD_CLOEXEC));
    const size_t bytes = system_page_bytes();
    ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
    ASSERT_TRUE(registry.add(0, {std::move(file), 0, bytes, bytes}).ok());
  }
  ASSERT_EQ(windows.size(), 1u);
  ASSERT_EQ(mapped.size(), 2u);
  for (const uint8_t* base : mapped) {
    EXPECT_GE(base, windows[0].data());
    EXPECT_LT(base, windows[0].data() + windows[0].size());
  }
}

// A client that registered and deregistered in turn had the daemon hold any number of descriptors,
// which one thread closes.
TEST(RegionRegistryFiles, ThatWaitToBeClosedCountForTheirUser) {
  SlowFile slow;
  RegionRegistry registry(1, {.bytes_per_context_max = uint64_t{1} << 40, .regions_per_uid_max = 3},
                          {}, [](uint32_t, const worker::Command&) {});
  registry.set_owner(0, 7);
  registry.set_owner(1, 8);
  const auto memory = [] {
    OwnedFd file(::memfd_create("lyre-test", MFD_CLOEXEC));
    EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(kBackgroundBytes)), 0);
    return file;
  };
  const auto add = [&](uint32_t context) {
    return registry.add(context, {memory(), 0, kBackgroundBytes, system_page_bytes()});
  };
  registry.close_memory(0, slow.take(), kBackgroundBytes);
  for (int i = 0; i < 3; ++i) registry.close_memory(0, memory(), kBackgroundBytes);
  const auto refused = add(0);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, EDQUOT);
  EXPECT_TRUE(add(1).ok());
  slow.let_close();
  const test::Deadline deadline;
  bool is_added = false;
  while (!is_added && !deadline.is_over()) is_added = add(0).ok();
  EXPECT_TRUE(is_added);
}

// Many clients that register at once kept the control thread from the watchdog.
TEST_F(RegionRegistryTest, MapsALimitedAmountBetweenTwoLooks) {
  constexpr int kFit = kMapAtOnceOfLookBytesMax / kMapAtOnceBytesMax;
  for (int i = 0; i <= kFit; ++i) add(kMapAtOnceBytesMax);
  EXPECT_EQ(maps_here_, kFit);
  registry_->poll();
  add(kMapAtOnceBytesMax);
  EXPECT_EQ(maps_here_, kFit + 1);
  await_maps(kFit + 2);
  registry_.reset();
  EXPECT_EQ(maps_, kFit + 2);
}

}  // namespace
}  // namespace lyre
