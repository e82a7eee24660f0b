#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "stack/io/dpdk/interface_groups.h"
#include "tests/io_contract/dpdk_wire.h"
#include "tests/io_contract/veth_pair.h"

namespace lyre::io::contract {
namespace {

constexpr uint32_t kMtuBytes = 1500;
constexpr MacAddress kGroup{{0x33, 0x33, 0xff, 0, 0, 5}};
constexpr MacAddress kOtherGroup{{0x33, 0x33, 0xff, 0, 0, 6}};
constexpr const char* kGroupText = "3333ff000005";
constexpr const char* kOtherText = "3333ff000006";

/// Whether the kernel has told the interface's driver to let frames to the group through.
bool passes(const std::string& interface, const std::string& group) {
  std::ifstream groups("/proc/net/dev_mcast");
  for (std::string line; std::getline(groups, line);) {
    std::istringstream fields(line);
    std::string index, name, users, global_users, address;
    fields >> index >> name >> users >> global_users >> address;
    if (name == interface && address == group) return true;
  }
  return false;
}

class GroupsOfAnInterface : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const Status made = make_veth_pair(kMtuBytes); !made) GTEST_SKIP() << made.error().text;
  }
};

TEST_F(GroupsOfAnInterface, AreJoinedAsLongAsTheyAreWanted) {
  {
    dpdk::InterfaceGroups joined;
    ASSERT_TRUE(joined.join("left", std::vector{kGroup}));
    EXPECT_TRUE(passes("left", kGroupText));
    EXPECT_FALSE(passes("right", kGroupText));
    ASSERT_TRUE(joined.join("left", std::vector{kOtherGroup}));
    EXPECT_FALSE(passes("left", kGroupText));
    EXPECT_TRUE(passes("left", kOtherText));
    const Status failed = joined.join("nowhere", std::vector{kGroup});
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, ENODEV);
    EXPECT_TRUE(passes("left", kOtherText)) << "as before";
  }
  EXPECT_FALSE(passes("left", kOtherText));
}

// A NIC filtered the solicitations of peers to which the host had not sent before.
TEST_F(GroupsOfAnInterface, ArePassedToAPortWhileItIsOpen) {
  auto started = environment();
  ASSERT_TRUE(started) << started.error().text;
  const std::string device = "net_af_packet0,iface=left";
  auto memory =
      (*started)->make_memory(0, {.rx_slots = 1024, .devices = {device}, .tx_packets = 256});
  ASSERT_TRUE(memory) << memory.error().text;
  PacketMemory* const memories[] = {memory->get()};
  auto opened = (*started)->open_port({.device = device}, memories);
  ASSERT_TRUE(opened) << opened.error().text;
  std::unique_ptr<Port> port = std::move(*opened);
  EXPECT_FALSE(passes("left", kGroupText));
  ASSERT_TRUE(port->join(std::vector{kGroup}));
  EXPECT_TRUE(passes("left", kGroupText));

  remove_veth_pair();
  port->look(seconds(1));
  EXPECT_FALSE(restart_at_once(*port));
  ASSERT_TRUE(make_veth_pair_again(kMtuBytes));
  EXPECT_FALSE(passes("left", kGroupText));
  port->look(seconds(60));
  const Status restarted = restart_at_once(*port);
  ASSERT_TRUE(restarted) << restarted.error().text;
  EXPECT_TRUE(passes("left", kGroupText)) << "joined again";
  port.reset();
  EXPECT_FALSE(passes("left", kGroupText));
}

}  // namespace
}  // namespace lyre::io::contract
