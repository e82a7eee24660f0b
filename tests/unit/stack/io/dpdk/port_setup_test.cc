#include "stack/io/dpdk/port_setup.h"

#include <gtest/gtest.h>
#include <rte_ethdev.h>
#include <rte_version.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/busy_interrupt_thread.h"

namespace lyre::io::dpdk {
namespace {

constexpr uint16_t kPortId = RTE_MAX_ETHPORTS - 1;  // no device has it
constexpr uint16_t kFunctionId = kPortId - 1;

/// What gVNIC offers with the queue formats GQI and DQO (gve_dev_info_get(), 22.11 to 26.07).
constexpr uint64_t kGqiOffers = RTE_ETH_TX_OFFLOAD_MULTI_SEGS | RTE_ETH_TX_OFFLOAD_UDP_CKSUM |
                                RTE_ETH_TX_OFFLOAD_TCP_CKSUM | RTE_ETH_TX_OFFLOAD_SCTP_CKSUM |
                                RTE_ETH_TX_OFFLOAD_TCP_TSO;
constexpr uint64_t kDqoOffers = kGqiOffers | RTE_ETH_TX_OFFLOAD_IPV4_CKSUM;
constexpr uint16_t kUsualThreshold = 64;

/// What the test plays of a device.
struct PlayedNic {
  uint64_t tx_offers = 0;
  uint64_t tx_asked_for = 0;
  uint16_t rx_free_threshold = 0;
  bool drops_for_a_full_ring = false;
  uint16_t tx_ring_max = 4096;
  uint16_t tx_descriptors = 0;
  uint32_t flags = 0;
  uint16_t rx_queues = 4;
  uint16_t tx_queues = 4;
  const char* function = nullptr;  ///< the driver of a port with the same MAC address
  int mtu_answer = 0;              ///< of rte_eth_dev_set_mtu()
  DpdkVersion version{22, 11, 9};
  rte_eth_intr_conf interrupts = {};
} nic;

/// DPDK, started once in this process.
Backend* environment() {
  static std::unique_ptr<Backend> started;
  if (started != nullptr) return started.get();
  auto made = start_environment({.file_prefix = "lyre-unit-setup-" + std::to_string(::getpid())});
  if (!made || !(*made)->register_worker_thread()) return nullptr;
  started = std::move(*made);
  return started.get();
}

class ConfigurePort : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(environment(), nullptr);
    auto made = environment()->make_memory(0, {.rx_slots = 64, .tx_packets = 64});
    ASSERT_TRUE(made) << made.error().text;
    memory_ = std::move(*made);
    nic = {};
  }
  PortSetup set_up(const char* driver, uint64_t tx_offers, bool has_interrupts = false) {
    nic.tx_offers = tx_offers;
    const std::array<Memory*, 1> memories{static_cast<Memory*>(memory_.get())};
    auto setup = configure_port(kPortId, {.device = "0000:00:06.0"}, quirks_of(driver),
                                has_interrupts, memories);
    EXPECT_TRUE(setup) << setup.error().text;
    return setup ? *setup : PortSetup{};
  }
  /// What keeps a port on the VMbus from being set up; empty: nothing.
  std::string netvsc_refusal(size_t workers, uint32_t mtu_bytes = 1500) {
    const std::vector<Memory*> memories(workers, static_cast<Memory*>(memory_.get()));
    const auto setup = configure_port(kPortId, {.device = "vmbus:1", .mtu_bytes = mtu_bytes},
                                      quirks_of("net_netvsc"), false, memories);
    return setup ? "" : setup.error().text;
  }
  static bool is_asked_for_tso() { return (nic.tx_asked_for & RTE_ETH_TX_OFFLOAD_TCP_TSO) != 0; }

  std::unique_ptr<PacketMemory> memory_;
};

// Peers got other bytes than were sent, with a checksum that fits them.
TEST_F(ConfigurePort, LeavesTheTsoOfGqiAlone) {
  const PortSetup setup = set_up("net_gve", kGqiOffers);
  EXPECT_FALSE(is_asked_for_tso());
  EXPECT_EQ(setup.capabilities.tso_bytes_max, 0u);
  EXPECT_TRUE(setup.has_tcp_checksum);
  EXPECT_TRUE(setup.is_faulty);
}

TEST_F(ConfigurePort, UsesTheTsoOfDqo) {
  const PortSetup setup = set_up("net_gve", kDqoOffers);
  EXPECT_TRUE(is_asked_for_tso());
  EXPECT_GT(setup.capabilities.tso_bytes_max, 0u);
  EXPECT_FALSE(setup.is_faulty);
}

TEST_F(ConfigurePort, UsesTheTsoOfOtherDriversWithoutIpChecksums) {
  const PortSetup setup = set_up("net_virtio", kGqiOffers);
  EXPECT_TRUE(is_asked_for_tso());
  EXPECT_FALSE(setup.is_faulty);
}

// Drivers lost segments of such packets to their pools, or freed packets that were not sent.
TEST_F(ConfigurePort, LeavesSegmentsAndTsoOfADriverThatWasNotComparedAlone) {
  const PortSetup setup = set_up("net_unheard_of", kDqoOffers);
  EXPECT_FALSE(is_asked_for_tso());
  EXPECT_EQ(nic.tx_asked_for & RTE_ETH_TX_OFFLOAD_MULTI_SEGS, 0u);
  EXPECT_EQ(setup.capabilities.tso_bytes_max, 0u);
  EXPECT_EQ(setup.limits.segments_max, 1u);
  EXPECT_TRUE(setup.has_tcp_checksum);
  EXPECT_EQ(nic.tx_descriptors, kFreedWithinPackets);
  set_up("net_enic", kDqoOffers);
  EXPECT_TRUE(is_asked_for_tso());
}

TEST_F(ConfigurePort, TellsWhetherReceivedChecksumsAreVerified) {
  const std::array<Memory*, 1> memories{static_cast<Memory*>(memory_.get())};
  const auto of = [&](const char* driver) {
    auto setup = configure_port(kPortId, {.device = "net_0", .is_trusted = true}, quirks_of(driver),
                                false, memories);
    EXPECT_TRUE(setup) << setup.error().text;
    return setup ? *setup : PortSetup{};
  };
  EXPECT_TRUE(of("net_memif").is_rx_trusted);
  EXPECT_TRUE(of("net_memif").capabilities.rx_checksum_in_hardware);
}

// From DPDK 23.03 on memif's driver merged packets of several segments with those behind them.
TEST_F(ConfigurePort, GathersOnMemifOnlyWhereItsDriverPacksSegments) {
  nic.version = {22, 11, 9};
  EXPECT_GT(set_up("net_memif", RTE_ETH_TX_OFFLOAD_MULTI_SEGS).limits.segments_max, 1u);
  for (const DpdkVersion& version : {DpdkVersion{24, 11, 4}, DpdkVersion{24, 11, 8}}) {
    nic.version = version;
    EXPECT_EQ(set_up("net_memif", RTE_ETH_TX_OFFLOAD_MULTI_SEGS).limits.segments_max, 1u);
    EXPECT_EQ(nic.tx_asked_for & RTE_ETH_TX_OFFLOAD_MULTI_SEGS, 0u);
    EXPECT_GT(set_up("net_virtio", kDqoOffers).limits.segments_max, 1u) << "of other drivers";
  }
}

// Super-packets fit no other buffer than those of the ring.
TEST_F(ConfigurePort, GathersSuperPacketsOnMemif) {
  const std::array<Memory*, 1> memories{static_cast<Memory*>(memory_.get())};
  for (const DpdkVersion& version : {DpdkVersion{22, 11, 9}, DpdkVersion{24, 11, 8}}) {
    nic.version = version;
    nic.tx_offers = RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
    auto setup = configure_port(kPortId, {.device = "net_0", .has_super_packets = true},
                                quirks_of("net_memif"), false, memories);
    ASSERT_TRUE(setup) << setup.error().text;
    EXPECT_GT(setup->limits.segments_max, 1u);
    EXPECT_NE(nic.tx_asked_for & RTE_ETH_TX_OFFLOAD_MULTI_SEGS, 0u);
  }
}

// gve frees what its receive ring points to when it stops: up to 63 packets that were delivered.
TEST_F(ConfigurePort, LetsGveFillItsReceiveRingAtOnce) {
  set_up("net_gve", kDqoOffers);
  EXPECT_EQ(nic.rx_free_threshold, 1u);
  set_up("net_ena", kDqoOffers);
  EXPECT_EQ(nic.rx_free_threshold, kUsualThreshold) << "the driver's own";
}

// ixgbe and igb received nothing for any worker while the ring of one was full.
TEST_F(ConfigurePort, AFullRingOfSeveralDropsPackets) {
  for (const char* driver : {"net_ixgbe", "net_e1000_igb", "net_igc", "net_ena"}) {
    for (const size_t queues : {1, 2, 3}) {
      nic = {};
      const std::vector<Memory*> memories(queues, static_cast<Memory*>(memory_.get()));
      ASSERT_TRUE(
          configure_port(kPortId, {.device = "0000:00:06.0"}, quirks_of(driver), false, memories));
      EXPECT_EQ(nic.drops_for_a_full_ring, queues > 1) << driver << ", " << queues;
    }
  }
}

// mlx5 told nobody that its device had failed.
TEST_F(ConfigurePort, AsksForTheInterruptOfARemovedDevice) {
  nic.flags = RTE_ETH_DEV_INTR_LSC | RTE_ETH_DEV_INTR_RMV;
  set_up("mlx5_pci", kDqoOffers, true);
  EXPECT_EQ(nic.interrupts.rmv, 1u);
  EXPECT_EQ(nic.interrupts.rxq, 1u);
  nic.flags = RTE_ETH_DEV_INTR_LSC;
  set_up("net_virtio", kDqoOffers);
  EXPECT_EQ(nic.interrupts.rmv, 0u) << "DPDK refuses it";
}

// On uio the host was told that the guest announces itself after a migration, and it did not.
TEST_F(ConfigurePort, GivesVirtioTheInterruptByWhichItAnnouncesTheMachine) {
  for (const bool has_interrupts : {true, false}) {
    nic.flags = RTE_ETH_DEV_INTR_LSC;
    set_up("net_virtio", kDqoOffers, has_interrupts);
    const bool arrives = has_link_interrupt(has_interrupts, "/sys/bus/pci/devices/0000:00:06.0");
    EXPECT_EQ(nic.interrupts.lsc != 0, arrives);
    EXPECT_EQ(nic.interrupts.rxq != 0, has_interrupts);
    nic.flags = 0;
    EXPECT_TRUE(set_up("net_virtio", kDqoOffers, has_interrupts).has_link_state) << "it is asked";
    EXPECT_EQ(nic.interrupts.lsc, 0u) << "DPDK refuses it";
  }
  nic.flags = RTE_ETH_DEV_INTR_LSC;
  set_up("net_ixgbe", kDqoOffers, true);
  EXPECT_EQ(nic.interrupts.lsc, 0u);
  set_up("net_ena", kDqoOffers);
  EXPECT_EQ(nic.interrupts.lsc, 1u);
}

// With an interrupt that never comes the link would stay as it was at the start.
TEST(LinkInterrupt, IsTheLineWhereQueuesHaveNone) {
  char folder[] = "/tmp/lyre-irq-XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  const std::string file = std::string(folder) + "/irq";
  EXPECT_FALSE(has_link_interrupt(false, folder));
  for (const char* line : {"0\n", "11\n", ""}) {
    std::ofstream(file) << line;
    EXPECT_EQ(has_link_interrupt(false, folder), std::string_view(line) == "11\n") << line;
    EXPECT_TRUE(has_link_interrupt(true, folder));
  }
  std::filesystem::remove_all(folder);
}

// The driver kept a ring of packets of clients that had ended, and was closed and opened again.
TEST_F(ConfigurePort, GivesVirtiosPackedRingsAsManyDescriptorsAsAWorkerFills) {
  nic.tx_ring_max = UINT16_MAX;
  set_up("net_virtio", kDqoOffers);
  EXPECT_EQ(nic.tx_descriptors, kFreedWithinPackets);
  nic.tx_ring_max = 32768;
  set_up("net_virtio", kDqoOffers);
  EXPECT_EQ(nic.tx_descriptors, 1024u) << "of split rings";
}

// The host was told 1500, and dropped longer frames.
TEST_F(ConfigurePort, NetvscTakesNoMtuThatItsHostIsNotTold) {
  nic.mtu_answer = -ENOTSUP;
  EXPECT_EQ(netvsc_refusal(1, 1500), "");
  EXPECT_EQ(netvsc_refusal(1, 1501),
            "vmbus:1: MTU 1501 cannot be told to the host before DPDK 24.03.0, allowed: 1500");
  nic.mtu_answer = 0;
  EXPECT_EQ(netvsc_refusal(1, 1501), "");
}

// It was told to use a version that it used.
TEST_F(ConfigurePort, NetvscTakesNoMtuThatALaterVersionCannotTell) {
  nic.version = {24, 3, 0};
  nic.mtu_answer = -ENOTSUP;
  EXPECT_EQ(netvsc_refusal(1, 1501), "vmbus:1: does not take MTU 1501: Operation not supported");
}

// Nothing said which key is wrong, nor what it may be.
TEST_F(ConfigurePort, MoreWorkersThanQueuePairsNameTheKey) {
  nic.rx_queues = 32;
  nic.tx_queues = 16;
  EXPECT_EQ(netvsc_refusal(16), "");
  EXPECT_EQ(netvsc_refusal(17),
            "vmbus:1: has 16 queue pairs, and there are 17 workers, allowed: workers.cores with at "
            "most 16");
}

TEST_F(ConfigurePort, QueuePairsAreKnownBeforeAPortIsOpened) {
  nic.rx_queues = 16;
  nic.tx_queues = 8;
  EXPECT_EQ(environment()->queue_pairs_max("0000:00:06.0,llq_policy=1"), 8u);
  EXPECT_EQ(environment()->queue_pairs_max("net_af_xdp0,iface=eth1"), 1u);
}

// DPDK said "VF configuration failed" only.
TEST_F(ConfigurePort, NetvscHasAsManyQueuesAsItsFunctionTakes) {
  nic.function = "net_mana";
  EXPECT_EQ(netvsc_refusal(3),
            "vmbus:1: net_mana takes 1, 2, 4, 8 or so many workers, and there are 3, allowed: "
            "workers.cores with 2");
  EXPECT_EQ(netvsc_refusal(2), "");
  {
    test::BusyInterruptThread busy;
    ASSERT_TRUE(busy.is_set());
    EXPECT_EQ(netvsc_refusal(3), "") << "not known: that thread may close the function";
  }
  nic.function = "mlx5_pci";
  EXPECT_EQ(netvsc_refusal(3), "");
  nic.function = nullptr;
  EXPECT_EQ(netvsc_refusal(3), "");
}

}  // namespace
}  // namespace lyre::io::dpdk

// DPDK's functions, in front of which this program has some of the same name.
using lyre::io::dpdk::kFunctionId;
using lyre::io::dpdk::kPortId;
using lyre::io::dpdk::kUsualThreshold;
using lyre::io::dpdk::nic;
extern "C" {
int rte_eth_dev_info_get(uint16_t port_id, rte_eth_dev_info* out) {
  *out = {};
  out->driver_name = port_id == kFunctionId ? nic.function : "net_played";
  out->max_rx_queues = nic.rx_queues;
  out->max_tx_queues = nic.tx_queues;
  out->max_mtu = 9000;
  out->max_rx_pktlen = 9018;
  out->tx_offload_capa = nic.tx_offers;
  out->tx_desc_lim.nb_max = nic.tx_ring_max;
  out->dev_flags = &nic.flags;
  out->default_rxconf.rx_free_thresh = kUsualThreshold;
  return 0;
}
int rte_eth_dev_configure(uint16_t, uint16_t, uint16_t, const rte_eth_conf* asked) {
  nic.tx_asked_for = asked->txmode.offloads;
  nic.interrupts = asked->intr_conf;
  return 0;
}
int rte_eth_dev_adjust_nb_rx_tx_desc(uint16_t, uint16_t*, uint16_t*) { return 0; }
int rte_eth_rx_queue_setup(uint16_t, uint16_t, uint16_t, unsigned, const rte_eth_rxconf* asked,
                           rte_mempool*) {
  nic.rx_free_threshold = asked->rx_free_thresh;
  nic.drops_for_a_full_ring = asked->rx_drop_en != 0;
  return 0;
}
int rte_eth_tx_queue_setup(uint16_t, uint16_t, uint16_t descriptors, unsigned,
                           const rte_eth_txconf*) {
  nic.tx_descriptors = descriptors;
  return 0;
}
int rte_eth_macaddr_get(uint16_t, rte_ether_addr*) { return 0; }
int rte_eth_dev_get_port_by_name(const char* name, uint16_t* port_id) {
  if (std::string_view(name) != "0000:00:06.0") return -ENODEV;
  *port_id = kPortId;
  return 0;
}
int rte_eth_dev_is_valid_port(uint16_t port_id) {
  return port_id == kPortId || (port_id == kFunctionId && nic.function != nullptr);
}
unsigned int rte_version_year(void) { return nic.version.year; }
unsigned int rte_version_month(void) { return nic.version.month; }
unsigned int rte_version_minor(void) { return nic.version.patch; }
int rte_eth_dev_set_mtu(uint16_t, uint16_t) { return nic.mtu_answer; }
int rte_eth_dev_socket_id(uint16_t) { return 0; }
}
