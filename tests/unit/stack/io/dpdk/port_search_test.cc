#include "stack/io/dpdk/port_search.h"

#include <gtest/gtest.h>

namespace lyre::io::dpdk {
namespace {

TEST(PortSearch, ADeviceIsFoundByItsName) {
  const DeviceArgs args = DeviceArgs::parse("0000:00:06.0,llq_policy=1");
  EXPECT_TRUE(belongs_to(args, "0000:00:06.0", "00:0d:3a:00:00:01"));
  EXPECT_FALSE(belongs_to(args, "0000:00:07.0", "00:0d:3a:00:00:01"));
}

TEST(PortSearch, PortsOfOneFunctionAreToldApartByTheirMac) {
  const DeviceArgs args = DeviceArgs::parse("7870:00:00.0,mac=00:0d:3a:00:00:0a");
  EXPECT_TRUE(belongs_to(args, "7870:00:00.0", "00:0D:3A:00:00:0A"));
  EXPECT_FALSE(belongs_to(args, "7870:00:00.0", "00:0D:3A:00:00:0B"));
  EXPECT_FALSE(belongs_to(args, "7870:00:00.0", ""));
}

}  // namespace
}  // namespace lyre::io::dpdk
