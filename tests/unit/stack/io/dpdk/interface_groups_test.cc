#include "stack/io/dpdk/interface_groups.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace lyre::io::dpdk {
namespace {

/// Whether the kernel listens to the IPv6 group, and answers the queries of MLD routers for it.
bool listens(const std::string& interface, const std::string& group) {
  std::ifstream groups("/proc/net/igmp6");
  for (std::string line; std::getline(groups, line);) {
    std::istringstream fields(line);
    std::string index, name, address;
    fields >> index >> name >> address;
    if (name == interface && address == group) return true;
  }
  return false;
}

// Queries went to the kernel alone, beside which a port has its address: a switch that snoops MLD
// forgot the port's group.
TEST(InterfaceGroups, OfSolicitedNodesAreTheKernelsToo) {
  constexpr MacAddress kSolicitedNode{{0x33, 0x33, 0xff, 0x4c, 0x59, 0x52}};
  constexpr MacAddress kAnother{{0x33, 0x33, 0, 0x4c, 0x59, 0x52}};
  if (!listens("lo", "ff020000000000000000000000000001")) GTEST_SKIP() << "no IPv6 here";
  InterfaceGroups joined;
  const Status done = joined.join("lo", std::vector{kSolicitedNode, kAnother});
  if (!done) GTEST_SKIP() << done.error().text;
  EXPECT_TRUE(listens("lo", "ff0200000000000000000001ff4c5952"));
  joined.leave();
  EXPECT_FALSE(listens("lo", "ff0200000000000000000001ff4c5952"));
}

}  // namespace
}  // namespace lyre::io::dpdk
