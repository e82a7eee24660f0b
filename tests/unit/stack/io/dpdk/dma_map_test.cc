#include "stack/io/dpdk/dma_map.h"

#include <gtest/gtest.h>
#include <linux/vfio.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_memory.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "stack/io/backend.h"
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

/// DPDK's areas of external memory, and what drivers mapped of them: bytes by address.
struct FakeAreas {
  std::map<uint64_t, uint64_t> areas;
  std::map<rte_device*, std::map<uint64_t, uint64_t>> mapped;
  bool refuses = false;  ///< the drivers take no memory

  static uint64_t address(const void* at) { return reinterpret_cast<uint64_t>(at); }
  int fail(int error) const {
    rte_errno = error;
    return -1;
  }
  bool is_known(const void* at, size_t bytes) const {
    const auto next = areas.upper_bound(address(at));
    if (next == areas.begin()) return false;
    const auto& [begin, size] = *std::prev(next);
    return address(at) + bytes <= begin + size;
  }
  int add(const void* at, size_t bytes, size_t page_bytes) {
    if (address(at) % page_bytes != 0 || bytes % page_bytes != 0) return fail(EINVAL);
    if (is_known(at, 1)) return fail(EEXIST);
    if (areas.size() == RTE_MAX_MEMSEG_LISTS) return fail(ENOSPC);
    areas[address(at)] = bytes;
    return 0;
  }
  int remove(const void* at, size_t bytes) {
    const auto area = areas.find(address(at));
    if (area == areas.end() || area->second != bytes) return fail(ENOENT);
    areas.erase(area);
    return 0;
  }
  int map(rte_device* device, const void* at, size_t bytes) {
    if (refuses || !is_known(at, bytes)) return fail(EINVAL);
    mapped[device][address(at)] = bytes;
    return 0;
  }
  int unmap(rte_device* device, const void* at, size_t bytes) {
    auto& own = mapped[device];
    const auto range = own.find(address(at));
    if (!is_known(at, bytes) || range == own.end() || range->second != bytes) return fail(EINVAL);
    own.erase(range);
    return 0;
  }
};
FakeAreas* g_areas = nullptr;

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
extern "C" int rte_extmem_register(void* at, size_t bytes, rte_iova_t*, unsigned, size_t page) {
  return g_areas != nullptr ? g_areas->add(at, bytes, page) : 0;
}
extern "C" int rte_extmem_unregister(void* at, size_t bytes) {
  return g_areas != nullptr ? g_areas->remove(at, bytes) : 0;
}
extern "C" int rte_dev_dma_map(rte_device* device, void* at, uint64_t, size_t bytes) {
  return g_areas != nullptr ? g_areas->map(device, at, bytes) : 0;
}
extern "C" int rte_dev_dma_unmap(rte_device* device, void* at, uint64_t, size_t bytes) {
  return g_areas != nullptr ? g_areas->unmap(device, at, bytes) : remove_memory();
}
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

/// Addresses of which each part can be a region: nothing reads them.
class WindowAddresses {
 public:
  static constexpr size_t kBytes = 2 * kRegionWindowPageBytes;
  WindowAddresses()
      : space_(::mmap(nullptr, kBytes + kRegionWindowPageBytes, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    constexpr uint64_t kMask = kRegionWindowPageBytes - 1;
    const uint64_t first = (reinterpret_cast<uint64_t>(space_) + kMask) & ~kMask;
    all_ = {reinterpret_cast<const uint8_t*>(first), kBytes};
  }
  ~WindowAddresses() { ::munmap(space_, kBytes + kRegionWindowPageBytes); }
  WindowAddresses(const WindowAddresses&) = delete;
  WindowAddresses& operator=(const WindowAddresses&) = delete;
  std::span<const uint8_t> all() const { return all_; }

 private:
  void* space_;
  std::span<const uint8_t> all_;
};

/// A worker's pools, the memory of many clients in the window, and devices of such a driver.
struct DmaMapOfDrivers : DmaMapTest {
  static constexpr size_t kRegions = 500;
  DmaMapOfDrivers() {
    g_areas = &fake;
    map.set_window(window.all());
  }
  ~DmaMapOfDrivers() override { g_areas = nullptr; }

  const uint8_t* region(size_t i) const { return window.all().data() + i * kRegionBytes; }
  static size_t bytes(size_t i) { return (1 + i % 3) * kTestPageBytes; }
  bool add_region(size_t i) { return map.add(region(i), bytes(i), kTestPageBytes).ok(); }
  void remove_region(size_t i) { map.remove(region(i), bytes(i)); }
  void change(rte_device* device, bool is_added) {
    const auto lock = map.lock_devices();
    if (is_added) {
      EXPECT_TRUE(map.add_device(device, DmaMap::Reach::kDriver).ok());
    } else {
      map.remove_device(device, DmaMap::Reach::kDriver);
    }
  }

  const size_t kRegionBytes = 3 * kTestPageBytes;
  const WindowAddresses window;
  FakeAreas fake;
  rte_device* const first = reinterpret_cast<rte_device*>(0x1000);  // nothing looks into them
  rte_device* const second = reinterpret_cast<rte_device*>(0x2000);
};

// DPDK has 128 places. Each region took one, so a hundred of them left none, and the others were
// copied.
TEST_F(DmaMapOfDrivers, ReadMoreRegionsThanDpdkHasPlacesFor) {
  ASSERT_TRUE(add(DmaMap::Need::kRequired).ok());
  change(first, true);
  EXPECT_EQ(fake.areas.size(), 2u);
  for (size_t i = 0; i < kRegions; ++i) {
    ASSERT_TRUE(add_region(i)) << i;
    EXPECT_TRUE(map.is_readable(region(i)));
    EXPECT_EQ(fake.areas.size(), 2u) << i;
    EXPECT_EQ(fake.mapped[first].at(FakeAreas::address(region(i))), bytes(i));
  }
  EXPECT_EQ(fake.mapped[first].size(), kRegions + 1);
}

TEST_F(DmaMapOfDrivers, ForgetOneRegionOfTheWindow) {
  change(first, true);
  for (size_t i = 0; i < 3; ++i) ASSERT_TRUE(add_region(i));
  auto left = fake.mapped[first];
  left.erase(FakeAreas::address(region(1)));
  remove_region(1);
  EXPECT_EQ(fake.mapped[first], left);
  EXPECT_EQ(fake.areas.size(), 1u);
  remove_region(0);
  remove_region(2);
  EXPECT_TRUE(fake.mapped[first].empty());
  EXPECT_TRUE(add_region(0));
  remove_region(0);
  change(first, false);
  EXPECT_TRUE(fake.areas.empty()) << "the addresses may be used for something else";
}

TEST_F(DmaMapOfDrivers, KnowAllRegionsWhenTheyComeLater) {
  ASSERT_TRUE(add(DmaMap::Need::kRequired).ok());
  change(first, true);
  for (size_t i = 0; i < kRegions; ++i) ASSERT_TRUE(add_region(i));
  change(second, true);
  EXPECT_EQ(fake.mapped[second], fake.mapped[first]);
  change(first, false);
  EXPECT_TRUE(fake.mapped[first].empty());
  EXPECT_EQ(fake.mapped[second].size(), kRegions + 1);
  for (size_t i = 0; i < kRegions; ++i) EXPECT_TRUE(map.is_readable(region(i)));
}

TEST_F(DmaMapOfDrivers, NeedAPlaceForMemoryThatIsPartlyOutsideOfTheWindow) {
  change(first, true);
  const uint8_t* before = window.all().data() - kTestPageBytes;
  const uint8_t* end = window.all().data() + window.all().size();
  EXPECT_TRUE(map.add(before, kTestPageBytes, kTestPageBytes).ok());
  EXPECT_TRUE(map.add(end - kTestPageBytes, kTestPageBytes, kTestPageBytes).ok());
  EXPECT_EQ(fake.areas.size(), 2u);
  EXPECT_EQ(fake.areas.at(FakeAreas::address(window.all().data())), window.all().size());
  EXPECT_EQ(fake.areas.at(FakeAreas::address(before)), kTestPageBytes);
}

/// The memory of more attachments than DPDK has places for.
struct DmaMapOfManyClients : DmaMapOfDrivers {
  DmaMapOfManyClients() {
    while (arenas.size() < RTE_MAX_MEMSEG_LISTS) arenas.push_back(std::make_unique<SharedPages>(1));
  }
  Status add_arena(const std::unique_ptr<SharedPages>& arena) {
    return map.add(arena->data(), arena->bytes(), kTestPageBytes);
  }

  std::vector<std::unique_ptr<SharedPages>> arenas;
};

TEST_F(DmaMapOfManyClients, SaysThatDpdkHasNoPlaceLeft) {
  change(first, true);
  Status refused = Ok{};
  for (const auto& arena : arenas) {
    ASSERT_TRUE(refused.ok()) << "only the last one";
    refused = add_arena(arena);
  }
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ENOSPC);
  const std::string places = std::to_string(RTE_MAX_MEMSEG_LISTS) + " places";
  EXPECT_NE(refused.error().text.find(places), std::string::npos) << refused.error().text;
  EXPECT_FALSE(map.is_readable(arenas.back()->data()));
  map.remove(arenas.back()->data(), arenas.back()->bytes());
  map.remove(arenas.front()->data(), arenas.front()->bytes());
  EXPECT_TRUE(add_arena(arenas.back()).ok()) << "there is a place again";
}

// A process that came by an upgrade maps all arenas first: every region would be copied.
TEST_F(DmaMapOfManyClients, KeepsThePlaceOfTheWindow) {
  change(first, true);
  for (const auto& arena : arenas) static_cast<void>(add_arena(arena));
  EXPECT_TRUE(add_region(0));
}

TEST_F(DmaMapOfManyClients, KeepsThePlaceOfTheWindowForADeviceThatComesLater) {
  for (const auto& arena : arenas) ASSERT_TRUE(add_arena(arena).ok());
  ASSERT_TRUE(add_region(0));
  change(first, true);
  EXPECT_TRUE(map.is_readable(region(0)));
}

// What a driver refuses leaves nothing behind.
TEST_F(DmaMapOfDrivers, ForgetWhatADriverDoesNotTake) {
  change(first, true);
  SharedPages arena(1);
  fake.refuses = true;
  EXPECT_FALSE(map.add(arena.data(), arena.bytes(), kTestPageBytes).ok());
  EXPECT_FALSE(add_region(0));
  fake.refuses = false;
  EXPECT_EQ(fake.areas.size(), 1u) << "the window's";
  map.remove(arena.data(), arena.bytes());
  remove_region(0);
  EXPECT_TRUE(add_region(0));
}

}  // namespace
}  // namespace lyre::io::dpdk
