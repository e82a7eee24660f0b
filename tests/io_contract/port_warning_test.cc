#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>

#include "tests/io_contract/dpdk_wire.h"
#include "tests/io_contract/veth_pair.h"

namespace lyre::io::contract {
namespace {

using ::testing::HasSubstr;

constexpr const char* kForwards = "/proc/sys/net/ipv4/conf/left/forwarding";

/// A port on packet sockets at one end of a veth pair.
class PortWarning : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const Status made = make_veth_pair(1500); !made) GTEST_SKIP() << made.error().text;
    // A new network namespace has that of the first one.
    ASSERT_TRUE(set(kForwards, 0));
  }
  void TearDown() override { port_.reset(); }

  static bool set(const std::string& file, int value) {
    return static_cast<bool>(std::ofstream(file) << value << std::flush);
  }
  Status open(const std::string& interface) {
    auto started = environment();
    if (!started) return started.error();
    const std::string device = "net_af_packet0,iface=" + interface;
    port_.reset();
    auto memory =
        (*started)->make_memory(0, {.rx_slots = 1024, .devices = {device}, .tx_packets = 256});
    if (!memory) return memory.error();
    memory_ = std::move(*memory);
    PacketMemory* const memories[] = {memory_.get()};
    auto port = (*started)->open_port({.device = device}, memories);
    if (!port) return port.error();
    port_ = std::move(*port);
    return Ok{};
  }
  /// What the port warns of some time later: one line.
  std::string warning() {
    port_->look(now_ = now_ + seconds(60));
    EXPECT_EQ(port_->info().warning.find('\n'), std::string::npos);
    return port_->info().warning;
  }

  Nanos now_ = seconds(1);
  std::unique_ptr<PacketMemory> memory_;
  std::unique_ptr<Port> port_;
};

// Such packets are dropped, and TCP crawls.
TEST_F(PortWarning, NamesTheCureOfAnInterfaceThatMergesToMoreThan64KiB) {
  ASSERT_TRUE(open("left"));
  EXPECT_EQ(port_->info().warning, "");
  if (!run("ip link set left gro_max_size 200000")) GTEST_SKIP() << "this kernel has no BIG TCP";
  constexpr const char* kCure = "ip link set left gro_max_size 65536";
  EXPECT_THAT(warning(), HasSubstr(kCure));
  ASSERT_TRUE(run(kCure));
  EXPECT_EQ(warning(), "");
}

// A packet socket gets a copy: the kernel answered SYNs to the port with "prohibited", or sent each
// packet on to its default route.
TEST_F(PortWarning, NamesTheCureOfAKernelThatForwards) {
  ASSERT_TRUE(set(kForwards, 1));
  ASSERT_TRUE(open("left"));
  EXPECT_THAT(port_->info().warning, HasSubstr(std::string("echo 0 > ") + kForwards));
  ASSERT_TRUE(set(kForwards, 0));
  EXPECT_EQ(warning(), "");
}

// The port was up, and all of its sessions timed out.
TEST_F(PortWarning, TellsOfAnInterfaceWhoseAddressOrMtuChanges) {
  ASSERT_TRUE(open("left"));
  EXPECT_EQ(warning(), "");
  ASSERT_TRUE(run("ip link set left address 02:00:00:00:00:77"));
  EXPECT_THAT(warning(), HasSubstr("02:00:00:00:00:77, and nothing arrives"));
  ASSERT_TRUE(run("ip link set left address 02:00:00:00:00:01"));
  EXPECT_EQ(warning(), "");
  ASSERT_TRUE(run("ip link set left mtu 1400"));
  EXPECT_THAT(warning(), HasSubstr("ip link set left mtu 1500"));
  ASSERT_TRUE(run("ip link set left mtu 1500"));
  EXPECT_EQ(warning(), "");
}

// ARP requests with Ethernet's header went into the tunnel.
TEST_F(PortWarning, AnInterfaceWithoutEthernetIsRefused) {
  if (!run("ip tuntap add mode tun name tunnel")) GTEST_SKIP() << "this kernel has no TUN";
  const Status refused = open("tunnel");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().text, "net_af_packet0: tunnel carries no Ethernet frames");
}

// It had the number of before, and received nothing.
TEST_F(PortWarning, AnInterfaceThatWasElsewhereIsAway) {
  ASSERT_TRUE(open("left"));
  const std::string wait_for_it =
      "for i in $(seq 1000); do kill -0 $! || exit 1; "
      "[ $(readlink /proc/$!/ns/net) != $(readlink /proc/self/ns/net) ] && exit 0; "
      "sleep 0.01; done; exit 1";
  if (!run("unshare --net sleep 60 & echo $! > " + scratch_folder() + "/elsewhere; (" +
           wait_for_it + ")")) {
    GTEST_SKIP() << "no second network namespace";
  }
  const std::string other = "$(cat " + scratch_folder() + "/elsewhere)";
  const std::string back = "ip link set left netns " + std::to_string(getpid());
  ASSERT_TRUE(run("ip link set left netns " + other));
  const bool is_back = run("nsenter --net=/proc/" + other + "/ns/net " + back);
  EXPECT_TRUE(run("kill " + other));
  ASSERT_TRUE(is_back);
  static_cast<void>(warning());
  EXPECT_EQ(port_->state(), PortState::kAway);
}

}  // namespace
}  // namespace lyre::io::contract
