#include "stack/io/dpdk/interface_faults.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace lyre::io::dpdk {
namespace {

/// The kernel's settings of forwarding, as files.
class ForwardingKernel : public ::testing::Test {
 protected:
  ~ForwardingKernel() override { std::filesystem::remove_all(proc_); }
  void set(const std::string& file, int value) {
    const std::filesystem::path path = proc_ + "/sys/net/" + file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << value << '\n';
  }
  std::string warning(const std::vector<IpAddress>& own) const {
    return forwarding_kernel("eth1", own, proc_);
  }

  const std::string proc_ =
      std::filesystem::temp_directory_path() / ("lyre-proc-" + std::to_string(getpid()));
  const IpAddress v4_ = IpAddress::v4(0x0a090001);
  const IpAddress v6_{{0xfd, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
};

TEST_F(ForwardingKernel, IsOneWithTheSettingOfAFamilyThatThePortHas) {
  EXPECT_EQ(warning({v4_, v6_}), "") << "the kernel has no such family";
  set("ipv4/conf/eth1/forwarding", 0);
  set("ipv6/conf/all/forwarding", 1);
  EXPECT_EQ(warning({v4_}), "");
  EXPECT_NE(warning({v4_, v6_}).find("/sys/net/ipv6/conf/all/forwarding"), std::string::npos);
  set("ipv4/conf/eth1/forwarding", 1);
  set("ipv6/conf/all/forwarding", 0);
  EXPECT_EQ(warning({v6_}), "");
  EXPECT_NE(warning({v4_}).find("/sys/net/ipv4/conf/eth1/forwarding"), std::string::npos);
}

}  // namespace
}  // namespace lyre::io::dpdk
