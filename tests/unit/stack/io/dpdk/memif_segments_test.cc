#include "stack/io/dpdk/memif_segments.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace lyre::io::dpdk {
namespace {

constexpr DpdkVersion kPacking[] = {{22, 11, 0}, {22, 11, 11}, {22, 11, 99}};
constexpr DpdkVersion kMerging[] = {{23, 3, 0}, {23, 7, 0}, {23, 11, 0}, {23, 11, 6},
                                    {24, 3, 0}, {24, 7, 0}, {24, 11, 0}, {24, 11, 4},
                                    {25, 3, 0}, {25, 7, 0}, {25, 11, 0}};
constexpr DpdkVersion kChaining[] = {{23, 11, 7}, {24, 11, 5}, {24, 11, 8}, {25, 11, 1},
                                     {25, 11, 4}, {26, 3, 0},  {26, 7, 0},  {27, 3, 0}};

// From 23.03 on nearly every packet was merged with others after one turn of the ring.
TEST(MemifSegments, AreThoseOfTheVersionsSources) {
  for (const DpdkVersion& version : kPacking) {
    EXPECT_EQ(memif_segments(version), MemifSegments::kPacked) << version.text();
  }
  for (const DpdkVersion& version : kMerging) {
    EXPECT_EQ(memif_segments(version), MemifSegments::kMerged) << version.text();
  }
  for (const DpdkVersion& version : kChaining) {
    EXPECT_EQ(memif_segments(version), MemifSegments::kChained) << version.text();
  }
}

TEST(MemifSegments, ArePackedOrOfASuperPacketWhereAPortGathers) {
  for (const bool has_super_packets : {false, true}) {
    EXPECT_TRUE(gathers_on_memif({22, 11, 9}, has_super_packets));
    EXPECT_FALSE(gathers_on_memif({24, 11, 4}, has_super_packets));
    EXPECT_EQ(gathers_on_memif({24, 11, 5}, has_super_packets), has_super_packets);
  }
}

TEST(MemifSegments, APortThatCopiesSaysWhy) {
  EXPECT_EQ(memif_remark({22, 11, 9}, false), "");
  EXPECT_EQ(memif_remark({24, 11, 8}, true), "");
  EXPECT_EQ(memif_remark({24, 11, 8}, false),
            "packets that are sent are copied into one buffer each: the memif driver of DPDK "
            "24.11.8 does not pack the segments of a packet");
}

TEST(MemifSegments, SuperPacketsNeedAVersionThatIsNamed) {
  EXPECT_TRUE(check_memif_super_packets("net_memif0", {22, 11, 0}));
  EXPECT_TRUE(check_memif_super_packets("net_memif0", {24, 11, 5}));
  const Status refused = check_memif_super_packets("net_memif0", {23, 11, 0});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EINVAL);
  EXPECT_EQ(refused.error().text,
            "net_memif0: no super-packets: the memif driver of DPDK 23.11.0 merges packets of "
            "several segments, allowed: super_packets = false, or DPDK 23.11.7, 24.11.5, 25.11.1, "
            "or 26.03 or later");
}

}  // namespace
}  // namespace lyre::io::dpdk
