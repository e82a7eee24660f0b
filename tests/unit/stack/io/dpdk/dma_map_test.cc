#include "stack/io/dpdk/dma_map.h"

#include <gtest/gtest.h>
#include <linux/vfio.h>
#include <rte_dev.h>
#include <rte_memory.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/stack/io/dpdk/shared_pages.h"

namespace {

/// The kernel's side of a VFIO container (vfio_iommu_type1): bytes by the address where they are
/// mapped.
struct FakeContainer {
  static constexpr int kFd = 1 << 20;  // no descriptor has it
  std::map<uint64_t, uint64_t> mapped;
  int error = 0;  ///< of each map()

  int map(const vfio_iommu_type1_dma_map& request) {
    if (error != 0) return errno = error, -1;
    const auto next = mapped.lower_bound(request.iova);
    const bool reaches_next = next != mapped.end() && next->first < request.iova + request.size;
    const bool is_reached = next != mapped.begin() && [&] {
      const auto last = std::prev(next);
      return last->first + last->second > request.iova;
    }();
    if (reaches_next || is_reached) return errno = EEXIST, -1;
    mapped[request.iova] = request.size;
    return 0;
  }
  int unmap(const vfio_iommu_type1_dma_unmap& request) {
    const auto at = mapped.find(request.iova);
    if (at == mapped.end() || at->second != request.size) return errno = EINVAL, -1;
    mapped.erase(at);
    return 0;
  }
};
FakeContainer* g_container = nullptr;

std::atomic<int> g_removals{0};
std::atomic<bool> g_do_removals_overlap{false};

int remove_memory() {
  if (g_removals.fetch_add(1) > 0) g_do_removals_overlap = true;
  std::this_thread::sleep_for(std::chrono::microseconds(100));
  g_removals.fetch_sub(1);
  return 0;
}

}  // namespace

// In place of DPDK's and the C library's.
extern "C" int rte_vfio_get_container_fd() {
  return g_container != nullptr ? FakeContainer::kFd : -1;
}
extern "C" int rte_extmem_register(void*, size_t, rte_iova_t*, unsigned, size_t) { return 0; }
extern "C" int rte_extmem_unregister(void*, size_t) { return 0; }
extern "C" int rte_dev_dma_map(rte_device*, void*, uint64_t, size_t) { return 0; }
extern "C" int rte_dev_dma_unmap(rte_device*, void*, uint64_t, size_t) { return remove_memory(); }
extern "C" int ioctl(int fd, unsigned long request, ...) noexcept {
  va_list arguments;
  va_start(arguments, request);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  if (fd != FakeContainer::kFd) {
    return static_cast<int>(::syscall(SYS_ioctl, fd, request, argument));
  }
  if (request == VFIO_IOMMU_MAP_DMA) {
    return g_container->map(*static_cast<vfio_iommu_type1_dma_map*>(argument));
  }
  return g_container->unmap(*static_cast<vfio_iommu_type1_dma_unmap*>(argument));
}

namespace lyre::io::dpdk {
namespace {

/// This process has no VFIO container: memory is refused as soon as there is a VFIO device.
struct DmaMapTest : ::testing::Test {
  DmaMap map;
  const SharedPages memory{4};

  Status add(DmaMap::Need need) {
    return map.add(memory.data(), memory.bytes(), kTestPageBytes, need);
  }
  bool add_device(DmaMap::Reach reach = DmaMap::Reach::kVfio) {
    const auto lock = map.lock_devices();
    return map.add_device(nullptr, reach).ok();
  }
  void remove_device(DmaMap::Reach reach) {
    const auto lock = map.lock_devices();
    map.remove_device(nullptr, reach);
  }
};

/// One client must not keep a NIC that was reset from all others.
TEST_F(DmaMapTest, ADeviceIsAddedThoughMemoryOfAClientIsRefused) {
  ASSERT_TRUE(add(DmaMap::Need::kOptional).ok());
  ASSERT_TRUE(map.is_readable(memory.data()));
  EXPECT_TRUE(add_device());
  EXPECT_FALSE(map.is_readable(memory.data())) << "its data must be copied from now on";
}

TEST_F(DmaMapTest, ADeviceIsAddedAgainThoughMemoryWasRefusedBefore) {
  EXPECT_TRUE(add_device());
  EXPECT_FALSE(add(DmaMap::Need::kOptional).ok());
  remove_device(DmaMap::Reach::kVfio);
  EXPECT_TRUE(add_device());
  EXPECT_FALSE(map.is_readable(memory.data()));
}

TEST_F(DmaMapTest, ADeviceThatCannotReachPacketMemoryIsRefused) {
  ASSERT_TRUE(add(DmaMap::Need::kRequired).ok());
  EXPECT_FALSE(add_device());
}

TEST_F(DmaMapTest, ADriverThatReadsPoolsOnlyGetsCopies) {
  ASSERT_TRUE(add(DmaMap::Need::kOptional).ok());
  EXPECT_TRUE(add_device(DmaMap::Reach::kPoolsOnly));
  EXPECT_FALSE(map.is_readable(memory.data())) << "what was added before";
  const SharedPages later(4);
  EXPECT_FALSE(map.add(later.data(), later.bytes(), kTestPageBytes).ok()) << "what is added later";
  EXPECT_FALSE(map.is_readable(later.data()));
  map.remove(later.data(), later.bytes());
  remove_device(DmaMap::Reach::kPoolsOnly);
  EXPECT_TRUE(map.add(later.data(), later.bytes(), kTestPageBytes).ok()) << "it is gone";
}

/// Also where other devices take physical addresses.
TEST_F(DmaMapTest, PacketMemoryIsReachedByADriverThatReadsPoolsOnly) {
  map.set_physical_addresses(true);
  EXPECT_TRUE(add_device(DmaMap::Reach::kPoolsOnly));
  EXPECT_FALSE(add(DmaMap::Need::kOptional).ok());
  map.set_physical_addresses(false);
  const SharedPages pool(4);
  EXPECT_TRUE(map.add(pool.data(), pool.bytes(), kTestPageBytes, DmaMap::Need::kRequired).ok());
}

/// Devices are added for seconds, and workers must not wait.
TEST_F(DmaMapTest, KnownMemoryIsAddedAndRemovedWhileADeviceIsAdded) {
  ASSERT_TRUE(add(DmaMap::Need::kOptional).ok());
  const auto lock = map.lock_devices();
  EXPECT_TRUE(add(DmaMap::Need::kOptional).ok());
  map.remove(memory.data(), memory.bytes());
  EXPECT_TRUE(map.is_readable(memory.data()));
}

TEST_F(DmaMapTest, TheLastUserForgetsTheMemory) {
  ASSERT_TRUE(add(DmaMap::Need::kOptional).ok());
  map.remove(memory.data(), memory.bytes());
  EXPECT_FALSE(map.is_readable(memory.data()));
}

// mlx5 changes a list under a lock that readers share.
TEST_F(DmaMapTest, ADriverRemovesMemoryForOneThreadAtATime) {
  ASSERT_TRUE(add_device(DmaMap::Reach::kDriver));
  const auto add_and_remove = [this](const SharedPages& pages) {
    for (int i = 0; i < 50; ++i) {
      EXPECT_TRUE(map.add(pages.data(), pages.bytes(), kTestPageBytes).ok());
      map.remove(pages.data(), pages.bytes());
    }
  };
  const SharedPages others(4);
  std::thread other([&] { add_and_remove(others); });
  add_and_remove(memory);
  other.join();
  EXPECT_FALSE(g_do_removals_overlap);
}

TEST_F(DmaMapTest, OneChangeOfDevicesAtATime) {
  const auto lock = map.lock_devices();
  EXPECT_FALSE(map.try_lock_devices().has_value());
}

struct DmaMapOfAContainer : DmaMapTest {
  DmaMapOfAContainer() { g_container = &container; }
  ~DmaMapOfAContainer() override { g_container = nullptr; }

  FakeContainer container;
};

/// DPDK has 256 entries for it. A removal that fails would leave the pages of a client that is gone
/// where the memory of the next one comes to lie.
TEST_F(DmaMapOfAContainer, TakesAndForgetsMoreMemoryThanDpdkHasEntriesFor) {
  ASSERT_TRUE(add_device());
  std::vector<std::unique_ptr<SharedPages>> many;
  for (size_t i = 0; i < 600; ++i) {
    many.push_back(std::make_unique<SharedPages>(1 + i % 3));  // neighbours of different sizes
    EXPECT_TRUE(map.add(many.back()->data(), many.back()->bytes(), kTestPageBytes).ok());
  }
  EXPECT_EQ(container.mapped.size(), many.size());
  for (const auto& pages : many) map.remove(pages->data(), pages->bytes());
  EXPECT_TRUE(container.mapped.empty());
}

TEST_F(DmaMapOfAContainer, RefusesMemoryWhereOtherPagesAreMapped) {
  ASSERT_TRUE(add_device());
  container.mapped[reinterpret_cast<uint64_t>(memory.data()) + kTestPageBytes] = kTestPageBytes;
  EXPECT_FALSE(add(DmaMap::Need::kOptional).ok());
}

TEST_F(DmaMapOfAContainer, SaysWhyMemoryIsRefused) {
  container.error = ENOMEM;  // more than RLIMIT_MEMLOCK
  ASSERT_TRUE(add(DmaMap::Need::kRequired).ok());
  const auto lock = map.lock_devices();
  const Status added = map.add_device(nullptr, DmaMap::Reach::kVfio);
  ASSERT_FALSE(added.ok());
  EXPECT_NE(added.error().text.find(std::strerror(ENOMEM)), std::string::npos);
}

TEST_F(DmaMapOfAContainer, IsEmptyBeforeItsLastDeviceGoes) {
  ASSERT_TRUE(add(DmaMap::Need::kRequired).ok());
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(add_device());
  EXPECT_EQ(container.mapped.size(), 1u);
  remove_device(DmaMap::Reach::kVfio);
  EXPECT_EQ(container.mapped.size(), 1u);
  remove_device(DmaMap::Reach::kVfio);
  EXPECT_TRUE(container.mapped.empty());
  ASSERT_TRUE(add_device());
  EXPECT_EQ(container.mapped.size(), 1u);
}

}  // namespace
}  // namespace lyre::io::dpdk
