#include "stack/io/dpdk/driver_quirks.h"

#include <gtest/gtest.h>

#include "stack/io/packet_io.h"

namespace lyre::io::dpdk {
namespace {

constexpr uint32_t kNone = UINT16_MAX;

/// A driver, what it reports (rte_eth_desc_lim), and what may be given to it.
struct Case {
  const char* driver;
  TransmitLimits reported;
  TransmitLimits given;
};

class Segments : public testing::TestWithParam<Case> {};

TEST_P(Segments, AreNoMoreThanTheDriverTakes) {
  const Case& tested = GetParam();
  const DriverQuirks& quirks = quirks_of(tested.driver);
  ASSERT_EQ(quirks.driver, tested.driver) << "has no row";
  const TransmitLimits limits = transmit_limits(quirks, tested.reported);
  EXPECT_EQ(limits.segments_max, tested.given.segments_max);
  EXPECT_EQ(limits.tso_segments_max, tested.given.tso_segments_max);
}

INSTANTIATE_TEST_SUITE_P(
    Drivers, Segments,
    testing::Values(Case{"net_ena", {17, 17}, {16, 16}},             // >= is refused
                    Case{"net_gve", {9, 0}, {9, kNone}},             // 24.11.4
                    Case{"net_gve", {0, 0}, {9, kNone}},             // before
                    Case{"net_mana", {0, 30}, {30, 30}},             // 22.11: one is left out
                    Case{"net_mana", {30, 30}, {30, 30}},            // 24.11
                    Case{"net_netvsc", {0, 0}, {kNone, kNone}},      // without a VF
                    Case{"net_netvsc", {40, 40}, {40, 40}},          // as its VF
                    Case{"mlx5_pci", {58, 58}, {40, 40}},            // without TSO's headers
                    Case{"net_mlx4", {0, 0}, {22, 22}},              // says nothing
                    Case{"net_iavf", {0, 0}, {8, 64}},               // 22.11
                    Case{"net_iavf", {8, 4096}, {8, 64}},            // 24.11
                    Case{"net_ice", {0, 0}, {8, 64}},                // 22.11
                    Case{"net_ice", {8, 4096}, {8, 64}},             // 24.11
                    Case{"net_ice_dcf", {0, 0}, {8, 64}},            // says nothing
                    Case{"net_i40e", {8, 255}, {8, 64}},             //
                    Case{"net_ixgbe", {40, 40}, {40, 40}},           //
                    Case{"net_ixgbe_vf", {40, 40}, {40, 40}},        //
                    Case{"net_txgbe", {40, 40}, {40, 40}},           //
                    Case{"net_txgbe_vf", {40, 40}, {40, 40}},        //
                    Case{"net_ngbe", {40, 40}, {40, 40}},            //
                    Case{"net_ngbe_vf", {40, 40}, {40, 40}},         //
                    Case{"net_e1000_igb", {255, 255}, {64, 64}},     //
                    Case{"net_e1000_igb_vf", {255, 255}, {64, 64}},  //
                    Case{"net_e1000_em", {255, 255}, {255, 255}},    // no TSO
                    Case{"net_igc", {255, 255}, {64, 64}},           //
                    Case{"net_bnxt", {0, 0}, {31, 31}},              // says nothing
                    Case{"net_vmxnet3", {16, 255}, {16, 24}},        // refused from 24.11 on
                    Case{"net_enic", {16, 64}, {16, 64}},            //
                    Case{"net_hns3", {8, 63}, {8, 8}},               // it reports 63
                    Case{"net_hns3", {18, 63}, {8, 8}},              //
                    Case{"net_hns3_vf", {8, 63}, {8, 8}},            //
                    Case{"net_virtio", {0, 0}, {kNone, kNone}},      //
                    Case{"net_memif", {0, 0}, {kNone, kNone}}));

// What other tests play; nic_restart_test.cc plays the rest.
TEST(DriverQuirks, EnaFreesInAnyOrderAndCopiesHeadersToTheDevice) {
  const DriverQuirks& ena = quirks_of("net_ena");
  EXPECT_TRUE(ena.frees_in_any_order);
  EXPECT_EQ(ena.push_bytes_max, 224u);
}

// qede freed packets that it had not sent, idpf and ionic lost segments to their pools.
TEST(DriverQuirks, ADriverWithoutARowIsGivenOnePieceAtATime) {
  const DriverQuirks& unknown = quirks_of("net_unheard_of");
  EXPECT_TRUE(unknown.driver.empty());
  EXPECT_FALSE(unknown.is_virtual);
  EXPECT_TRUE(unknown.uses_checksums);
  EXPECT_GE(unknown.rx_room_bytes_min, 2048u);
  EXPECT_FALSE(unknown.can_gather);
  EXPECT_EQ(unknown.tx_descriptors, kFreedWithinPackets);
  EXPECT_EQ(unknown.frees, Frees::kWhenSending);
}

TEST(DriverQuirks, ADriverWithARowIsGivenPiecesUnlessItSaysOtherwise) {
  for (const char* driver : {"net_ena", "net_gve", "net_mana", "net_netvsc", "mlx5_pci", "net_mlx4",
                             "net_e1000_em", "net_bnxt", "net_hinic", "net_vmxnet3", "net_enic",
                             "net_hns3", "net_hns3_vf", "net_virtio", "net_iavf", "net_igc"}) {
    EXPECT_EQ(quirks_of(driver).driver, driver) << "has no row";
    EXPECT_TRUE(quirks_of(driver).can_gather) << driver;
  }
  for (const char* driver : {"net_enic", "net_hns3", "net_hns3_vf"}) {
    EXPECT_EQ(quirks_of(driver).frees, Frees::kOnRequest) << driver;
    EXPECT_EQ(quirks_of(driver).tx_descriptors, 0u) << driver;
  }
}

TEST(DriverQuirks, OnlyVirtioAnnouncesTheMachineAndIsLazyToFree) {
  EXPECT_TRUE(quirks_of("net_virtio").announces_itself);
  EXPECT_TRUE(quirks_of("net_virtio").is_lazy_to_free);
  for (const char* other : {"net_ena", "net_ixgbe_vf", "net_netvsc", "net_memif", "net_unknown"}) {
    EXPECT_FALSE(quirks_of(other).announces_itself) << other;
    EXPECT_FALSE(quirks_of(other).is_lazy_to_free) << other;
  }
}

TEST(DriverQuirks, EveryNicHasRoomForThePowerOfTwoItRoundsTo) {
  for (const char* nic :
       {"net_ena",     "net_gve",          "net_mana",     "net_netvsc",   "mlx5_pci",
        "net_mlx4",    "net_iavf",         "net_ice",      "net_ice_dcf",  "net_i40e",
        "net_ixgbe",   "net_ixgbe_vf",     "net_txgbe",    "net_txgbe_vf", "net_ngbe",
        "net_ngbe_vf", "net_e1000_igb",    "net_e1000_em", "net_igc",      "net_bnxt",
        "net_hinic",   "net_e1000_igb_vf", "net_vmxnet3",  "net_virtio",   "net_enic",
        "net_hns3",    "net_hns3_vf"}) {
    EXPECT_GE(quirks_of(nic).rx_room_bytes_min, 2048u) << nic;
    EXPECT_FALSE(quirks_of(nic).is_virtual) << nic;
  }
}

TEST(DriverQuirks, OnlyEc2LimitsAFlowByARuleThatIsKnown) {
  EXPECT_EQ(quirks_of("net_ena").flow_mbps, 5000u);
  EXPECT_EQ(quirks_of("net_gve").flow_mbps, 0u);
  EXPECT_EQ(quirks_of("net_virtio").flow_mbps, 0u);
}

TEST(DriverQuirks, FreesAreAskedForInTheWayThatTheDriverHas) {
  EXPECT_EQ(quirks_of("net_ena").frees, Frees::kOnRequest);
  EXPECT_EQ(quirks_of("mlx5_pci").frees, Frees::kOnStatus);
  EXPECT_EQ(quirks_of("net_gve").frees, Frees::kWhenSending);
}

// em and mlx4 have no tx_done_cleanup. That of igb ends with a queue that sends nothing more, that
// of igc crashes, and that of the last ten frees packets that were not sent.
TEST(DriverQuirks, DriversThatFreeByReuseHaveARingThatAWorkerCanFill) {
  for (const char* driver :
       {"net_e1000_igb", "net_e1000_igb_vf", "net_e1000_em", "net_igc", "net_mlx4", "net_i40e",
        "net_ice", "net_ice_dcf", "net_iavf", "net_ixgbe", "net_ixgbe_vf", "net_txgbe",
        "net_txgbe_vf", "net_ngbe", "net_ngbe_vf"}) {
    EXPECT_EQ(quirks_of(driver).frees, Frees::kWhenSending) << driver;
    EXPECT_EQ(quirks_of(driver).tx_descriptors, kFreedWithinPackets) << driver;
  }
}

// A packet of 255 segments never fitted the ring. em has no TSO.
TEST(DriverQuirks, ATsoPacketFitsAShortRing) {
  constexpr uint32_t kContext = 1;
  constexpr uint32_t kLeftInUse = 32;  // *_xmit_cleanup() looks so many descriptors ahead
  constexpr uint32_t kPiecesOnPages = 29;
  for (const char* driver : {"net_e1000_igb", "net_e1000_igb_vf", "net_igc", "net_i40e", "net_ice",
                             "net_ice_dcf", "net_iavf", "net_ixgbe", "net_ixgbe_vf", "net_txgbe",
                             "net_txgbe_vf", "net_ngbe", "net_ngbe_vf"}) {
    const DriverQuirks& quirks = quirks_of(driver);
    EXPECT_GE(quirks.tso_segments_max, kPiecesOnPages) << driver;
    EXPECT_LT(quirks.tso_segments_max + kContext + kLeftInUse, quirks.tx_descriptors) << driver;
  }
}

// A port on mlx4 below netvsc freed nothing within so many packets, and was started again.
TEST(DriverQuirks, NetvscHasTheRingOfAnyDriverThatMayBeBelowIt) {
  EXPECT_EQ(quirks_of("net_netvsc").frees, Frees::kOnRequest) << "without a virtual function";
  EXPECT_EQ(quirks_of("net_netvsc").tx_descriptors, kFreedWithinPackets);
}

/// Of a queue of `descriptors`, how many packets of one descriptor the driver takes before it frees
/// the first: as gve and hinic count.
uint32_t packets_until_freed(const char* driver, uint32_t descriptors) {
  const uint32_t threshold = tx_free_threshold(quirks_of(driver), descriptors);
  uint32_t free = descriptors - 1;  // one is never used
  uint32_t taken = 0;
  for (; free > 0 && free >= threshold; --free) ++taken;
  return taken;
}

TEST(DriverQuirks, DriversThatFreeByAThresholdDoSoWithinFewPackets) {
  for (const char* driver : {"net_gve", "net_hinic"}) {
    for (const uint32_t ring : {256u, 512u, 1024u, 4096u}) {
      EXPECT_LT(packets_until_freed(driver, ring), kFreedWithinPackets) << driver << ", " << ring;
      // check_tx_thresh_dqo() takes less than the ring without 3, and no less than tx_rs_thresh.
      EXPECT_LT(tx_free_threshold(quirks_of(driver), ring), ring - 3) << driver << ", " << ring;
      EXPECT_GE(tx_free_threshold(quirks_of(driver), ring), 32u) << driver << ", " << ring;
    }
    EXPECT_EQ(tx_free_threshold(quirks_of(driver), 4), 0u) << "a ring that is smaller";
  }
  EXPECT_EQ(tx_free_threshold(quirks_of("net_ena"), 1024), 0u) << "the driver's own";
}

TEST(DriverQuirks, OnlyGvesQueueFormatIsToldByItsChecksums) {
  EXPECT_TRUE(quirks_of("net_gve").is_faulty_without_ip_checksum);
  EXPECT_TRUE(quirks_of("net_gve").is_up_while_started);
  EXPECT_TRUE(quirks_of("net_gve").frees_in_any_order) << "DQO";
  for (const char* other : {"net_ena", "net_virtio", "mlx5_pci", "net_unheard_of"}) {
    EXPECT_FALSE(quirks_of(other).is_faulty_without_ip_checksum) << other;
    EXPECT_FALSE(quirks_of(other).is_up_while_started) << other;
  }
}

TEST(DriverQuirks, OnlyTheseLimitTheBytesOfASegment) {
  EXPECT_EQ(quirks_of("net_vmxnet3").segment_bytes_max, (1u << 14) - 1);
  EXPECT_EQ(quirks_of("net_enic").segment_bytes_max, (1u << 14) - 1);
  for (const char* driver : {"net_ixgbe", "net_ixgbe_vf", "net_txgbe", "net_txgbe_vf", "net_ngbe",
                             "net_ngbe_vf", "net_e1000_igb", "net_e1000_igb_vf", "net_igc"}) {
    EXPECT_LT(quirks_of(driver).segment_bytes_max, 1u << 14) << driver;
  }
  for (const char* other : {"net_ena", "net_ice", "net_i40e", "net_iavf"}) {
    EXPECT_EQ(quirks_of(other).segment_bytes_max, 65535u) << other << " cuts by itself";
  }
}

TEST(DriverQuirks, OnlyVmxnet3DropsWhatDoesNotFitItsRing) {
  EXPECT_TRUE(quirks_of("net_vmxnet3").drops_when_full);
  EXPECT_FALSE(quirks_of("net_vmxnet3").frees_in_any_order) << "TxOffer needs the order";
  for (const char* other : {"net_ena", "net_iavf", "net_virtio", "net_unheard_of"}) {
    EXPECT_FALSE(quirks_of(other).drops_when_full) << other;
  }
}

TEST(DriverQuirks, OnlyIavfFreesItsRingsByAResetAlone) {
  EXPECT_TRUE(quirks_of("net_iavf").frees_by_reset_only);
  for (const char* other : {"net_ixgbe_vf", "net_e1000_igb_vf", "net_ena", "net_ice"}) {
    EXPECT_FALSE(quirks_of(other).frees_by_reset_only) << other;
  }
}

TEST(DriverQuirks, OnlyTheseRefuseOtherQueueNumbersThanPowersOfTwo) {
  EXPECT_TRUE(quirks_of("net_mana").needs_power_of_two_queues);
  EXPECT_TRUE(quirks_of("net_ixgbe_vf").needs_power_of_two_queues);
  EXPECT_TRUE(quirks_of("net_txgbe_vf").needs_power_of_two_queues);
  EXPECT_TRUE(quirks_of("net_ngbe_vf").needs_power_of_two_queues);
  for (const char* other : {"net_ena", "net_gve", "mlx5_pci", "net_mlx4", "net_ixgbe", "net_netvsc",
                            "net_virtio", "net_vmxnet3", "net_memif"}) {
    EXPECT_FALSE(quirks_of(other).needs_power_of_two_queues) << other;
  }
}

TEST(DriverQuirks, OnlyTheseLoseWhatIsInTheirReceiveRings) {
  for (const char* driver : {"net_mana", "net_af_xdp"}) {
    EXPECT_TRUE(quirks_of(driver).loses_rx_ring) << driver;
  }
  for (const char* driver : {"net_netvsc", "mlx5_pci", "net_ena", "net_unknown"}) {
    EXPECT_FALSE(quirks_of(driver).loses_rx_ring) << driver;
  }
}

TEST(DriverQuirks, OnlyNetvscIsStartedWithoutInterruptsAtOnce) {
  EXPECT_FALSE(tries_interrupts(quirks_of("net_netvsc")));
  for (const char* driver : {"net_mana", "mlx5_pci", "net_ena", "net_tap", "net_unknown"}) {
    EXPECT_TRUE(tries_interrupts(quirks_of(driver))) << driver;
  }
  EXPECT_FALSE(tries_interrupts(quirks_of("net_memif")));
}

TEST(DriverQuirks, OnlyNetvscCountsWhatItsFunctionCounts) {
  EXPECT_EQ(fall_of_counters(quirks_of("net_netvsc")), Fall::kPartGone);
  for (const char* other : {"net_mana", "mlx5_pci", "net_mlx4", "net_ena", "net_unknown"}) {
    EXPECT_EQ(fall_of_counters(quirks_of(other)), Fall::kBegunAgain) << other;
  }
}

TEST(DriverQuirks, OnlyTheseReadPacketMemoryAlone) {
  for (const char* driver : {"net_mana", "net_mlx4", "net_netvsc"}) {
    EXPECT_TRUE(quirks_of(driver).reads_pools_only) << driver;
  }
  for (const char* other : {"mlx5_pci", "net_ena", "net_gve", "net_virtio", "net_memif"}) {
    EXPECT_FALSE(quirks_of(other).reads_pools_only) << other;
  }
}

// A client that truncated a file that it sends from stopped the TAP port for all: writev() fails at
// such a page, and the driver takes no packet behind it.
TEST(DriverQuirks, NoClientsMemoryIsGivenToDriversThatSendByASystemCall) {
  EXPECT_FALSE(quirks_of("net_tap").can_gather);
  EXPECT_FALSE(quirks_of("net_af_xdp").can_gather) << "from the first segment only";
  EXPECT_TRUE(quirks_of("net_memif").can_gather);
}

/// max_mtu and max_rx_pktlen of the drivers, and the MTU that may be configured.
TEST(MtuLimit, IsWhatTheDriverStates) {
  EXPECT_EQ(mtu_limit(1460, 1460 + 14), 1460u) << "gve, 24.11: a frame without CRC";
  EXPECT_EQ(mtu_limit(9000, 9000 + 14), 9000u) << "mana, 24.11: a frame without CRC";
  EXPECT_EQ(mtu_limit(1500, 1518), 1500u) << "mana, 22.11";
  EXPECT_EQ(mtu_limit(9216, 9216 + 18), 9216u) << "ena";
  EXPECT_EQ(mtu_limit(9000, 16384), 9000u) << "vmxnet3, 22.11";
  EXPECT_EQ(mtu_limit(9702, 9728), 9702u) << "i40e, ice, iavf: room for two VLAN tags";
}

TEST(MtuLimit, FollowsFromTheFrameWhereTheDriverStatesNone) {
  EXPECT_EQ(mtu_limit(UINT16_MAX, 2048), 2030u) << "netvsc";
  EXPECT_EQ(mtu_limit(UINT16_MAX, 65536), 65518u) << "mlx5, 22.11";
  EXPECT_EQ(mtu_limit(UINT16_MAX, 10), 0u);
}

}  // namespace
}  // namespace lyre::io::dpdk
