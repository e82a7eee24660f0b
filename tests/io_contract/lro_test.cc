#include <gtest/gtest.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "stack/io/dpdk/mbuf_layout.h"
#include "stack/io/dpdk/memory.h"
#include "stack/io/dpdk/port_setup.h"
#include "stack/io/dpdk/queue.h"
#include "tests/io_contract/dpdk_wire.h"
#include "tests/io_contract/frames.h"

// LRO: what a NIC has to offer for it, and the packets that its driver gives. The test plays the
// device and the driver; tests/guests has a real one.
namespace lyre::io::contract {
namespace {

constexpr uint64_t kVirtioOffers = RTE_ETH_RX_OFFLOAD_TCP_LRO | RTE_ETH_RX_OFFLOAD_SCATTER |
                                   RTE_ETH_RX_OFFLOAD_TCP_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM;

constexpr uint16_t kPortId = RTE_MAX_ETHPORTS - 1;  // no device has it

struct PlayedNic {
  uint64_t offers = 0;
  uint64_t spreads_over = 0;
  uint64_t asked_for = 0;
  std::deque<rte_mbuf*> arrived;
} nic;

uint16_t receive(void*, rte_mbuf** out, uint16_t count) {
  uint16_t given = 0;
  for (; given < count && !nic.arrived.empty(); nic.arrived.pop_front()) {
    out[given++] = nic.arrived.front();
  }
  return given;
}

class Lro : public ::testing::Test {
 protected:
  void SetUp() override {
    auto started = environment();
    ASSERT_TRUE(started) << started.error().text;
    for (uint32_t i = 0; i < memories_.size(); ++i) {
      auto made = (*started)->make_memory(i, {.rx_slots = 512, .tx_packets = 256});
      ASSERT_TRUE(made) << made.error().text;
      memories_[i] = std::move(*made);
      own_[i] = static_cast<dpdk::Memory*>(memories_[i].get());
    }
    nic = {.offers = kVirtioOffers};
  }
  void TearDown() override {
    for (rte_mbuf* packet : nic.arrived) rte_pktmbuf_free(packet);
    nic = {};
  }

  Result<dpdk::PortSetup> set_up(const dpdk::DriverQuirks& quirks, size_t workers,
                                 bool has_super_packets = true) {
    const PortOptions options{.device = "0000:00:10.0", .has_super_packets = has_super_packets};
    return dpdk::configure_port(kPortId, options, quirks, false, std::span(own_).first(workers));
  }
  bool is_asked_for_lro() const { return (nic.asked_for & RTE_ETH_RX_OFFLOAD_TCP_LRO) != 0; }

  /// `bytes` in as many receive buffers as they need, as virtio's driver gives them.
  rte_mbuf* arrive(const std::vector<uint8_t>& bytes) {
    rte_mbuf* head = nullptr;
    for (size_t at = 0; at < bytes.size();) {
      rte_mbuf* part = dpdk::mbuf_of(own_[0]->alloc_rx());
      const size_t count = std::min<size_t>(bytes.size() - at, rte_pktmbuf_tailroom(part));
      std::memcpy(rte_pktmbuf_append(part, static_cast<uint16_t>(count)), bytes.data() + at, count);
      at += count;
      if (head == nullptr) {
        head = part;
      } else {
        rte_pktmbuf_chain(head, part);
      }
    }
    head->ol_flags = RTE_MBUF_F_RX_LRO | RTE_MBUF_F_RX_L4_CKSUM_NONE;
    nic.arrived.push_back(head);
    return head;
  }
  dpdk::Queue& queue(const dpdk::PortSetup& setup) {
    static void* no_data[RTE_MAX_QUEUES_PER_PORT] = {};
    rte_eth_fp_ops[kPortId].rx_pkt_burst = receive;
    rte_eth_fp_ops[kPortId].rxq.data = no_data;
    rte_eth_fp_ops[kPortId].rxq.clbk = no_data;
    queue_ = std::make_unique<dpdk::Queue>(
        dpdk::QueueSetup{.port_id = kPortId,
                         .quirks = &dpdk::quirks_of("net_virtio"),
                         .is_nic_up = &is_nic_up_,
                         .super_packet_slots = setup.super_packet_slots},
        *own_[0]);
    queue_->start();
    return *queue_;
  }

  std::array<std::unique_ptr<PacketMemory>, 2> memories_;
  std::array<dpdk::Memory*, 2> own_{};
  std::atomic<bool> is_nic_up_{true};
  std::unique_ptr<dpdk::Queue> queue_;
};

TEST_F(Lro, IsAskedForWhereSuperPacketsAreConfigured) {
  auto without = set_up(dpdk::quirks_of("net_virtio"), 1, false);
  ASSERT_TRUE(without) << without.error().text;
  EXPECT_FALSE(is_asked_for_lro());
  EXPECT_EQ(without->super_packet_slots, 0u);
  auto with = set_up(dpdk::quirks_of("net_virtio"), 1);
  ASSERT_TRUE(with) << with.error().text;
  EXPECT_TRUE(is_asked_for_lro());
  EXPECT_GT(with->super_packet_slots, 0u);
}

TEST_F(Lro, IsRefusedInOneLineWhereTheHostLacksAPart) {
  for (const uint64_t lacking :
       {RTE_ETH_RX_OFFLOAD_TCP_LRO, RTE_ETH_RX_OFFLOAD_SCATTER, RTE_ETH_RX_OFFLOAD_TCP_CKSUM}) {
    nic.offers = kVirtioOffers & ~lacking;
    auto setup = set_up(dpdk::quirks_of("net_virtio"), 1);
    ASSERT_FALSE(setup) << lacking;
    EXPECT_EQ(setup.error().code, ENOTSUP);
    EXPECT_NE(setup.error().text.find("guest_tso4"), std::string::npos) << setup.error().text;
    EXPECT_EQ(setup.error().text.find('\n'), std::string::npos);
  }
}

// A worker cannot hand a super-packet on: without RSS most of them would be lost.
TEST_F(Lro, OfSeveralWorkersNeedsRss) {
  auto setup = set_up(dpdk::quirks_of("net_virtio"), 2);
  ASSERT_FALSE(setup);
  EXPECT_NE(setup.error().text.find("RSS"), std::string::npos) << setup.error().text;
  nic.spreads_over = RTE_ETH_RSS_NONFRAG_IPV4_TCP;
  EXPECT_TRUE(set_up(dpdk::quirks_of("net_virtio"), 2));
}

TEST_F(Lro, OfADriverThatIsNotKnownToDoItRightIsRefused) {
  auto setup = set_up(dpdk::quirks_of("net_ena"), 1);
  ASSERT_FALSE(setup);
  EXPECT_NE(setup.error().text.find("net_played"), std::string::npos) << setup.error().text;
}

TEST_F(Lro, APacketOfSeveralBuffersIsAChainWhoseBytesTheHostVouchesFor) {
  auto setup = set_up(dpdk::quirks_of("net_virtio"), 1);
  ASSERT_TRUE(setup) << setup.error().text;
  const uint32_t free_before = own_[0]->rx_slots_free();
  const std::vector<uint8_t> sent = frame(7, 20'000);
  arrive(sent);
  PacketBuf* packet = nullptr;
  ASSERT_EQ(queue(*setup).rx_burst({&packet, 1}), 1u);
  EXPECT_TRUE(packet->is_super_packet());
  EXPECT_EQ(packet->l4_checksum, ChecksumVerdict::kGood);
  EXPECT_EQ(packet->rest_slots + 1u, free_before - own_[0]->rx_slots_free());
  std::vector<uint8_t> got;
  for (uint32_t slot = packet->slot; slot != PacketBuf::kNoSlot;) {
    PacketBuf* part = own_[0]->rx_packet(slot);
    got.insert(got.end(), part->data, part->data + part->length);
    slot = part->next_slot;
    own_[0]->release({&part, 1});
  }
  EXPECT_EQ(got, sent);
  EXPECT_EQ(own_[0]->rx_slots_free(), free_before);
}

// Its buffers were the ring's: an empty pool is no reason to leave it there.
TEST_F(Lro, APacketIsReceivedWhileThePoolIsEmpty) {
  auto setup = set_up(dpdk::quirks_of("net_virtio"), 1);
  ASSERT_TRUE(setup) << setup.error().text;
  arrive(frame(7, 20'000));
  std::vector<PacketBuf*> others;
  while (PacketBuf* other = own_[0]->alloc_rx()) others.push_back(other);
  PacketBuf* packet = nullptr;
  EXPECT_EQ(queue(*setup).rx_burst({&packet, 1}), 1u);
  while (packet != nullptr) {
    PacketBuf* const next =
        packet->next_slot == PacketBuf::kNoSlot ? nullptr : own_[0]->rx_packet(packet->next_slot);
    own_[0]->release({&packet, 1});
    packet = next;
  }
  own_[0]->release(others);
}

TEST_F(Lro, APacketOfSeveralBuffersThatNobodyAskedForIsDropped) {
  auto setup = set_up(dpdk::quirks_of("net_virtio"), 1, false);
  ASSERT_TRUE(setup) << setup.error().text;
  const uint32_t free_before = own_[0]->rx_slots_free();
  arrive(frame(7, 20'000));
  PacketBuf* packet = nullptr;
  EXPECT_EQ(queue(*setup).rx_burst({&packet, 1}), 0u);
  EXPECT_EQ(queue_->counters().rx_missed, 1u);
  EXPECT_EQ(own_[0]->rx_slots_free(), free_before);
}

}  // namespace
}  // namespace lyre::io::contract

// DPDK's functions, in front of which this program has some of the same name.
using lyre::io::contract::nic;
extern "C" {
int rte_eth_dev_info_get(uint16_t, rte_eth_dev_info* out) {
  *out = {};
  out->driver_name = "net_played";
  out->max_rx_queues = out->max_tx_queues = 4;
  out->max_mtu = 9000;
  out->max_rx_pktlen = 9018;
  out->rx_offload_capa = nic.offers;
  out->flow_type_rss_offloads = nic.spreads_over;
  static const uint32_t no_flags = 0;
  out->dev_flags = &no_flags;
  return 0;
}
int rte_eth_dev_configure(uint16_t, uint16_t, uint16_t, const rte_eth_conf* asked) {
  nic.asked_for = asked->rxmode.offloads;
  return 0;
}
int rte_eth_dev_adjust_nb_rx_tx_desc(uint16_t, uint16_t*, uint16_t*) { return 0; }
int rte_eth_rx_queue_setup(uint16_t, uint16_t, uint16_t, unsigned, const rte_eth_rxconf*,
                           rte_mempool*) {
  return 0;
}
int rte_eth_tx_queue_setup(uint16_t, uint16_t, uint16_t, unsigned, const rte_eth_txconf*) {
  return 0;
}
int rte_eth_macaddr_get(uint16_t, rte_ether_addr*) { return 0; }
int rte_eth_dev_socket_id(uint16_t) { return 0; }
}
