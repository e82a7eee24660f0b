#include <gtest/gtest.h>
#include <rte_dev.h>
#include <rte_ethdev.h>
#include <sched.h>
#include <sys/mount.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/io_contract/dpdk_wire.h"
#include "tests/io_contract/frames.h"
#include "tests/io_contract/veth_pair.h"
#include "tests/support/no_descriptors_left.h"

namespace lyre::io::contract {
namespace {

constexpr uint32_t kMtuBytes = 1500;

/// Two ports on kernel interfaces, which are taken away and come back.
class InterfacesThatGo : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const Status made = make_veth_pair(kMtuBytes); !made) GTEST_SKIP() << made.error().text;
    auto started = environment();
    ASSERT_TRUE(started) << started.error().text;
    for (int end = 0; end < 2; ++end) {
      const std::string name = driver() + (end == 0 ? "0,iface=left" : "1,iface=right");
      auto memory =
          (*started)->make_memory(0, {.rx_slots = 8192, .devices = {name}, .tx_packets = 1024});
      ASSERT_TRUE(memory) << memory.error().text;
      memories_[end] = std::move(*memory);
      PacketMemory* const memories[] = {memories_[end].get()};
      auto port = (*started)->open_port({.device = name}, memories);
      ASSERT_TRUE(port) << port.error().text;
      ports_[end] = std::move(*port);
    }
  }
  void TearDown() override {
    for (auto& port : ports_) port.reset();
  }

  virtual std::string driver() const { return "net_af_packet"; }
  void look() {
    for (auto& port : ports_) port->look(now_ = now_ + seconds(1));
  }
  std::vector<PortState> states() const { return {ports_[0]->state(), ports_[1]->state()}; }
  /// Sends one from an end to the other; nullptr: it does not arrive.
  PacketBuf* receive_a_packet(int from) {
    PacketBuf* packet = nullptr;
    if (memories_[from]->alloc_tx({&packet, 1}) != 1) return nullptr;
    const std::vector<uint8_t> bytes = frame(7, 40);
    std::copy(bytes.begin(), bytes.end(), packet->data);
    packet->length = static_cast<uint32_t>(bytes.size());
    if (ports_[from]->queue(0).tx_burst({&packet, 1}) != 1) return nullptr;
    for (int i = 0; i < 1000; ++i) {
      if (ports_[1 - from]->queue(0).rx_burst({&packet, 1}) == 1) return packet;
      run("sleep 0.005");
    }
    return nullptr;
  }
  bool moves_a_packet(int from) {
    PacketBuf* packet = receive_a_packet(from);
    if (packet != nullptr) memories_[1 - from]->release({&packet, 1});
    return packet != nullptr;
  }

  void expect_no_change_at_the_limit() {
    const test::NoDescriptorsLeft none;
    look();
    EXPECT_EQ(states(), (std::vector{PortState::kRunning, PortState::kRunning}));
    for (auto& port : ports_) {
      EXPECT_FALSE(port->needs_restart());
      EXPECT_TRUE(port->is_link_up());
    }
  }

  Nanos now_ = seconds(1);
  std::unique_ptr<PacketMemory> memories_[2];
  std::unique_ptr<Port> ports_[2];
};

TEST_F(InterfacesThatGo, PortsAreAwayUntilTheInterfacesAreBack) {
  EXPECT_TRUE(moves_a_packet(0));
  remove_veth_pair();
  look();
  EXPECT_EQ(states(), (std::vector{PortState::kAway, PortState::kAway}));
  for (auto& port : ports_) {
    ASSERT_TRUE(port->needs_restart()) << "workers use it";
    EXPECT_FALSE(restart_at_once(*port));
    EXPECT_FALSE(port->needs_restart()) << "there is nothing to open";
    EXPECT_FALSE(port->is_link_up());
    EXPECT_EQ(port->rx_missed(), 0u);
    EXPECT_EQ(port->speed().port_mbps, 0u);
  }
  ASSERT_TRUE(make_veth_pair_again(kMtuBytes));
  look();
  for (auto& port : ports_) {
    ASSERT_TRUE(port->needs_restart());
    const Status restarted = restart_at_once(*port);
    EXPECT_TRUE(restarted) << restarted.error().text;
  }
  look();
  EXPECT_EQ(states(), (std::vector{PortState::kRunning, PortState::kRunning}));
  for (const int from : {0, 1}) EXPECT_TRUE(moves_a_packet(from)) << from;
  ports_[0]->suspend();
  EXPECT_EQ(memories_[0]->rx_slots_free(), memories_[0]->rx_slot_count());
}

// A daemon at its limit took the interfaces for away, and closed their ports.
TEST_F(InterfacesThatGo, StayWhileTheProcessHasNoDescriptorLeft) {
  expect_no_change_at_the_limit();
}

// Workers and peers know a port by its address.
TEST_F(InterfacesThatGo, WithAnotherAddressAreNotTheSame) {
  remove_veth_pair();
  look();
  for (auto& port : ports_) EXPECT_FALSE(restart_at_once(*port));
  ASSERT_TRUE(make_veth_pair_again(kMtuBytes));
  ASSERT_TRUE(run("ip link set left address 02:00:00:00:00:77"));
  look();
  const Status restarted = restart_at_once(*ports_[0]);
  ASSERT_FALSE(restarted);
  EXPECT_NE(restarted.error().text.find("another address"), std::string::npos);
  EXPECT_EQ(ports_[0]->state(), PortState::kAway);
  EXPECT_FALSE(ports_[0]->needs_restart()) << "it is tried again later";
  ASSERT_TRUE(run("ip link set left address 02:00:00:00:00:01"));
  look();
  EXPECT_TRUE(restart_at_once(*ports_[0]));
}

/// The driver frees nothing of its rings when it closes.
class XdpInterfacesThatGo : public InterfacesThatGo {
 protected:
  std::string driver() const override { return "net_af_xdp"; }
  using Slots = std::vector<uint32_t>;
  Slots slots_free() const {
    return {memories_[0]->rx_slots_free(), memories_[1]->rx_slots_free()};
  }
  Slots all_slots() const { return {memories_[0]->rx_slot_count(), memories_[1]->rx_slot_count()}; }
};

TEST_F(XdpInterfacesThatGo, StayWhileTheProcessHasNoDescriptorLeft) {
  expect_no_change_at_the_limit();
}

// Each time cost a worker the 2048 slots of a ring, and the third one stopped all of its ports.
TEST_F(XdpInterfacesThatGo, CostNoSlots) {
  const Slots when_open = slots_free();
  EXPECT_LT(when_open, all_slots());
  for (int round = 0; round < 5; ++round) {
    for (const int from : {0, 1}) EXPECT_TRUE(moves_a_packet(from)) << from;
    remove_veth_pair();
    look();
    for (auto& port : ports_) EXPECT_FALSE(restart_at_once(*port));
    EXPECT_EQ(slots_free(), all_slots()) << round;
    ASSERT_TRUE(make_veth_pair_again(kMtuBytes));
    look();
    for (auto& port : ports_) {
      const Status restarted = restart_at_once(*port);
      ASSERT_TRUE(restarted) << restarted.error().text;
    }
    look();
    EXPECT_EQ(slots_free(), when_open) << round;
  }
}

TEST_F(XdpInterfacesThatGo, CostNoSlotsWhenTheyCannotBeOpened) {
  remove_veth_pair();
  look();
  EXPECT_FALSE(restart_at_once(*ports_[0]));
  ASSERT_TRUE(make_veth_pair_again(kMtuBytes));
  ASSERT_TRUE(run("ip link set left address 02:00:00:00:00:77"));
  for (int attempt = 0; attempt < 3; ++attempt) {
    EXPECT_FALSE(restart_at_once(*ports_[0]));
    EXPECT_EQ(slots_free()[0], all_slots()[0]) << attempt;
  }
  ASSERT_TRUE(run("ip link set left address 02:00:00:00:00:01"));
  EXPECT_TRUE(restart_at_once(*ports_[0]));
}

TEST_F(XdpInterfacesThatGo, CostNoSlotsWhileAnotherSocketHasTheQueue) {
  ports_[0]->suspend();
  ports_[0]->close();
  const MemoryOptions options{.rx_slots = 8192, .devices = {"net_af_xdp2"}, .tx_packets = 1024};
  auto memory = (*environment())->make_memory(0, options);
  ASSERT_TRUE(memory) << memory.error().text;
  PacketMemory* const memories[] = {memory->get()};
  auto other = (*environment())->open_port({.device = "net_af_xdp2,iface=left"}, memories);
  ASSERT_TRUE(other) << other.error().text;
  for (int attempt = 0; attempt < 3; ++attempt) {
    EXPECT_FALSE(restart_at_once(*ports_[0]));
    EXPECT_EQ(slots_free()[0], all_slots()[0]) << attempt;
  }
  (*other)->suspend();
  (*other)->close();
  EXPECT_TRUE(restart_at_once(*ports_[0]));
  EXPECT_TRUE(moves_a_packet(1));
}

// An upgrade closes a port, and opens it again when the new process fails. A packet that was
// received before stays with the caller.
TEST_F(XdpInterfacesThatGo, CostNoSlotsWhenAPortIsClosed) {
  PacketBuf* kept = receive_a_packet(0);
  ASSERT_NE(kept, nullptr);
  const std::vector<uint8_t> bytes(kept->data, kept->data + kept->length);
  ports_[1]->suspend();
  ports_[1]->close();
  EXPECT_EQ(slots_free()[1], all_slots()[1] - 1);
  ASSERT_TRUE(restart_at_once(*ports_[1]));
  EXPECT_TRUE(moves_a_packet(0));
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), kept->data));
  memories_[1]->release({&kept, 1});
  ports_[1]->suspend();
  ports_[1]->close();
  EXPECT_EQ(slots_free()[1], all_slots()[1]);
}

/// Shows a device on a VMbus, to this thread only.
bool show_vmbus_device(const std::string& folder) {
  return unshare(CLONE_NEWNS) == 0 &&
         mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("none", "/sys/bus", "tmpfs", 0, nullptr) == 0 &&
         std::filesystem::create_directories(folder);
}

// `lyre nic unbind` under a daemon: two drivers used the NIC.
TEST(NicsThatGo, ToAnotherKernelDriverAreClosed) {
  const std::string name = "net_null9";
  const std::string folder = "/sys/bus/vmbus/devices/" + name;
  auto started = environment();
  ASSERT_TRUE(started) << started.error().text;
  auto memory = (*started)->make_memory(0, {.rx_slots = 1024, .tx_packets = 256});
  ASSERT_TRUE(memory) << memory.error().text;
  PacketMemory* const memories[] = {memory->get()};
  ASSERT_EQ(rte_eal_hotplug_add("vdev", name.c_str(), ""), 0);
  if (!show_vmbus_device(folder)) GTEST_SKIP() << "needs the right to mount";
  auto port = (*started)->open_port({.device = "vmbus:" + name}, memories);
  ASSERT_TRUE(port) << port.error().text;
  (*port)->look(seconds(1));
  EXPECT_EQ((*port)->state(), PortState::kRunning);
  std::filesystem::create_directory_symlink("/sys/bus/vmbus", folder + "/driver");
  (*port)->look(seconds(2));
  EXPECT_EQ((*port)->state(), PortState::kAway);
  EXPECT_FALSE(restart_at_once(**port));
  uint16_t id = 0;
  EXPECT_NE(rte_eth_dev_get_port_by_name(name.c_str(), &id), 0) << "DPDK has no such port any more";
}

}  // namespace
}  // namespace lyre::io::contract
