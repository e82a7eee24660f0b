#include "stack/io/dpdk/multicast_filter.h"

#include <gtest/gtest.h>
#include <rte_ethdev.h>

#include <cerrno>

namespace lyre::io::dpdk {
namespace {

/// What a driver answers. DPDK does for one that has no such function.
struct PlayedFilter {
  int list_answer = -ENOTSUP;
  int all_answer = -ENOTSUP;
  uint32_t listed = 0;
  int asked_for_all = 0;
} played_filter;

class MulticastFilter : public ::testing::Test {
 protected:
  void SetUp() override { played_filter = {}; }
  static int receive(const char* driver) {
    constexpr MacAddress kGroups[] = {{{0x33, 0x33, 0xff, 0, 0, 1}}, {{0x33, 0x33, 0, 0, 0, 1}}};
    return receive_groups(0, quirks_of(driver), kGroups);
  }
};

// Each start on these NICs, and on netvsc above MANA, warned that neighbours may not find the
// host's IPv6 addresses.
TEST_F(MulticastFilter, ANicWithoutOneNeedsNoCall) {
  for (const char* driver : {"net_ena", "net_gve", "net_mana", "net_netvsc"}) {
    EXPECT_EQ(receive(driver), 0) << driver;
  }
}

TEST_F(MulticastFilter, ADriverThatCanTellItsFilterNothingFails) {
  for (const char* driver : {"mlx5_pci", "net_virtio", "net_unheard_of"}) {
    EXPECT_EQ(receive(driver), -ENOTSUP) << driver;
  }
}

TEST_F(MulticastFilter, ACallThatTheDriverHasAndThatFailsIsAFailure) {
  played_filter.all_answer = -EIO;
  EXPECT_EQ(receive("net_ena"), -EIO);
  played_filter = {.list_answer = -EIO};
  EXPECT_EQ(receive("net_ena"), -ENOTSUP);
}

TEST_F(MulticastFilter, IsGivenAListAndOpenedForAllOnlyWhereThatFails) {
  played_filter.list_answer = played_filter.all_answer = 0;
  EXPECT_EQ(receive("net_ice"), 0);
  EXPECT_EQ(played_filter.listed, 2u);
  EXPECT_EQ(played_filter.asked_for_all, 0);
  played_filter.list_answer = -ENOSPC;
  EXPECT_EQ(receive("net_ice"), 0);
  EXPECT_EQ(played_filter.asked_for_all, 1);
}

}  // namespace
}  // namespace lyre::io::dpdk

// DPDK's functions, in front of which this program has some of the same name.
using lyre::io::dpdk::played_filter;
extern "C" {
int rte_eth_dev_set_mc_addr_list(uint16_t, rte_ether_addr*, uint32_t count) {
  played_filter.listed = count;
  return played_filter.list_answer;
}
int rte_eth_allmulticast_enable(uint16_t) {
  ++played_filter.asked_for_all;
  return played_filter.all_answer;
}
}
