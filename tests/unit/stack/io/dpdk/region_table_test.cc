#include "stack/io/dpdk/region_table.h"

#include <gtest/gtest.h>

#include "tests/unit/stack/io/dpdk/shared_pages.h"

namespace lyre::io::dpdk {
namespace {

struct RegionTableTest : ::testing::Test {
  DmaMap dma_map;
  RegionTable table{dma_map};

  bool add(uint32_t region, const SharedPages& memory) {
    return table.add(region, {.base = memory.data(), .bytes = memory.bytes()});
  }
};

TEST_F(RegionTableTest, ByItsOwnAddressWhereDevicesKnowThat) {
  const SharedPages memory(4);
  ASSERT_TRUE(add(7, memory));
  EXPECT_TRUE(table.is_readable_by_ports(7));
  const size_t at = kTestPageBytes + 904;  // in the second page
  const RegionTable::Run run = table.run_at(7, at);
  EXPECT_EQ(run.iova, reinterpret_cast<uint64_t>(memory.data()) + at);
  EXPECT_EQ(run.bytes, memory.bytes() - at);
}

TEST_F(RegionTableTest, PageByPageWhereDevicesKnowPhysicalAddresses) {
  dma_map.set_physical_addresses(true);
  const SharedPages memory(4);
  if (!memory.can_be_seen()) GTEST_SKIP() << "physical addresses are root's to see";
  ASSERT_TRUE(add(7, memory));
  EXPECT_TRUE(table.is_readable_by_ports(7));
  const std::vector<uint64_t> addresses = memory.addresses();
  const size_t at = kTestPageBytes + 904;  // in the second page
  const RegionTable::Run run = table.run_at(7, at);
  EXPECT_EQ(run.iova, addresses[1] + 904);
  EXPECT_EQ(run.bytes, 2 * kTestPageBytes - at);
  EXPECT_EQ(table.run_at(7, 3 * kTestPageBytes).iova, addresses[3]);
  EXPECT_EQ(table.bytes_of({.region = 7, .length = 9, .offset = at}).data(), memory.data() + at);
}

// vmxnet3 destroys the descriptor of a longer segment.
TEST_F(RegionTableTest, NoPartIsLongerThanADriverTakes) {
  constexpr uint32_t kDriverBytes = 3000;
  table.limit_parts(kDriverBytes);
  table.limit_parts(UINT16_MAX);  // another port's driver
  const SharedPages memory(4);
  ASSERT_TRUE(add(7, memory));
  const uint32_t part = table.segment_bytes(7);
  EXPECT_EQ(part, 2048u);
  for (size_t at = 0; at < memory.bytes(); at += 100) {
    const RegionTable::Run run = table.run_at(7, at);
    EXPECT_EQ(run.iova, reinterpret_cast<uint64_t>(memory.data()) + at);
    EXPECT_EQ(run.bytes, part - at % part) << "parts start at multiples of their size";
  }
}

TEST_F(RegionTableTest, WhatCannotBePinnedIsKnownAndCopied) {
  dma_map.set_physical_addresses(true);
  const SharedPages memory(4, PROT_READ);
  ASSERT_TRUE(add(7, memory));
  EXPECT_FALSE(table.is_readable_by_ports(7));
  EXPECT_EQ(table.bytes_of({.region = 7, .length = 9, .offset = 0}).data(), memory.data());
  table.remove(7);
  EXPECT_TRUE(add(7, SharedPages(4))) << "its place is free again";
}

TEST_F(RegionTableTest, WhatANewDeviceCannotReachIsCopied) {
  const SharedPages memory(4);
  ASSERT_TRUE(add(7, memory));
  {
    const auto lock = dma_map.lock_devices();
    ASSERT_TRUE(dma_map.add_device(nullptr, DmaMap::Reach::kVfio).ok())
        << "without a VFIO container";
  }
  table.look_again();
  EXPECT_FALSE(table.is_readable_by_ports(7));
}

/// The control thread maps before the workers and unmaps after them.
TEST_F(RegionTableTest, TheFirstUserOfMemoryDecidesForTheOthers) {
  dma_map.set_physical_addresses(true);
  const SharedPages memory(4);
  if (!memory.can_be_seen()) GTEST_SKIP() << "physical addresses are root's to see";
  ASSERT_TRUE(dma_map.add(memory.data(), memory.bytes(), kTestPageBytes).ok());
  const std::vector<uint64_t> pinned = memory.addresses();
  ASSERT_TRUE(memory.punch());
  ASSERT_TRUE(add(7, memory));
  EXPECT_EQ(table.run_at(7, 0).iova, pinned[0]) << "not the page that lies there since";
  table.remove(7);
  dma_map.remove(memory.data(), memory.bytes());
  EXPECT_TRUE(dma_map.page_addresses(memory.data()).empty());
}

}  // namespace
}  // namespace lyre::io::dpdk
