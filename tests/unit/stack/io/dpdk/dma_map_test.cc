#include "stack/io/dpdk/dma_map.h"

#include <gtest/gtest.h>

#include "tests/unit/stack/io/dpdk/shared_pages.h"

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
    return map.add_device(nullptr, reach);
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

TEST_F(DmaMapTest, OneChangeOfDevicesAtATime) {
  const auto lock = map.lock_devices();
  EXPECT_FALSE(map.try_lock_devices().has_value());
}

}  // namespace
}  // namespace lyre::io::dpdk
