#include "stack/io/dpdk/device_args.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <set>
#include <string>

namespace lyre::io::dpdk {
namespace {

using ::testing::HasSubstr;

/// The id that DPDK is told of a memif, or the refusal.
std::string id_of(const std::string& options, const VirtualDeviceNeeds& needs) {
  DeviceArgs args = DeviceArgs::parse("net_memif0,role=client,socket=wire" + options);
  const Status prepared = prepare_virtual_device(args, needs);
  if (prepared.ok()) return std::string(args.value_of("id"));
  EXPECT_EQ(prepared.error().code, EINVAL);
  return prepared.error().text;
}

TEST(MemifId, OfOneQueueIsTheUsers) {
  EXPECT_EQ(id_of("", {}), "0");
  EXPECT_EQ(id_of(",id=7", {}), "7");
  EXPECT_EQ(id_of(",id=4194303", {}), "4194303");
}

// Ends that differ must not meet, whatever they have.
TEST(MemifId, DiffersWhereTheEndsWouldNotUnderstandEachOther) {
  std::set<std::string> ids;
  size_t wires = 0;
  for (uint32_t queues = 1; queues <= 64; ++queues) {
    for (const bool is_trusted : {false, true}) {
      for (const bool has_super_packets : {false, true}) {
        for (const char* own : {"0", "1", "4194303"}) {
          ids.insert(id_of(std::string(",id=") + own, {.queue_count = queues,
                                                       .is_trusted = is_trusted,
                                                       .has_super_packets = has_super_packets}));
          ++wires;
        }
      }
    }
  }
  EXPECT_EQ(ids.size(), wires);
}

TEST(MemifId, ThatNeedsTheBitsOfThePortIsRefusedInOneLine) {
  for (const char* wrong : {"4194304", "4294967296", "-1", "0x7", "7 ", "a", ""}) {
    EXPECT_EQ(id_of(std::string(",id=") + wrong, {}),
              "net_memif0: id must be a number of at most 4194303")
        << wrong;
  }
}

TEST(VirtualDevice, OtherDriversHaveNoId) {
  DeviceArgs args = DeviceArgs::parse("net_af_packet0,iface=eth1");
  ASSERT_TRUE(prepare_virtual_device(args, {.queue_count = 2, .is_trusted = true}));
  EXPECT_FALSE(args.has("id"));
  EXPECT_THAT(args.text(), HasSubstr(",qpairs=2"));
}

}  // namespace
}  // namespace lyre::io::dpdk
