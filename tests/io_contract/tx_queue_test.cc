#include <gtest/gtest.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <deque>
#include <memory>
#include <vector>

#include "stack/io/dpdk/ipv6_offloads.h"
#include "stack/io/dpdk/memory.h"
#include "stack/io/dpdk/queue.h"
#include "stack/worker/port.h"
#include "tests/io_contract/dpdk_wire.h"
#include "tests/io_contract/frames.h"

// What a queue says of packets that it gave to a driver, with a driver that the test plays: it
// takes as many as it has room for, and frees them when it is told to.
namespace lyre::io::contract {
namespace {

constexpr uint16_t kPortId = RTE_MAX_ETHPORTS - 1;  // no device has it: its link is down

struct PlayedDriver {
  size_t room = 0;
  std::deque<rte_mbuf*> held;

  void free(size_t count) {
    for (; count > 0; --count, held.pop_front()) rte_pktmbuf_free(held.front());
  }
} driver;

uint16_t send_to_driver(void*, rte_mbuf** packets, uint16_t count) {
  uint16_t taken = 0;
  for (; taken < count && driver.held.size() < driver.room; ++taken) {
    driver.held.push_back(packets[taken]);
  }
  return taken;
}

uint16_t take_all(void*, rte_mbuf**, uint16_t count) { return count; }
/// ena, by what its device reports: no IPv6 TSO, or neither that nor IPv6 checksums.
uint16_t refuse_ipv6_tso(void*, rte_mbuf** packets, uint16_t count) {
  const uint64_t refused = RTE_MBUF_F_TX_IPV6 | RTE_MBUF_F_TX_TCP_SEG;
  const auto is_refused = [&](rte_mbuf* m) { return (m->ol_flags & refused) == refused; };
  return static_cast<uint16_t>(std::find_if(packets, packets + count, is_refused) - packets);
}
uint16_t refuse_ipv6_checksums(void*, rte_mbuf** packets, uint16_t count) {
  const auto is_refused = [](rte_mbuf* m) {
    return (m->ol_flags & RTE_MBUF_F_TX_IPV6) != 0 && (m->ol_flags & RTE_MBUF_F_TX_L4_MASK) != 0;
  };
  return static_cast<uint16_t>(std::find_if(packets, packets + count, is_refused) - packets);
}

class TxQueue : public ::testing::Test {
 protected:
  void SetUp() override {
    auto started = environment();
    ASSERT_TRUE(started) << started.error().text;
    auto made = (*started)->make_memory(0, {.rx_slots = 64, .tx_packets = 256});
    ASSERT_TRUE(made) << made.error().text;
    memory = std::move(*made);
    static void* no_data[RTE_MAX_QUEUES_PER_PORT] = {};
    struct rte_eth_fp_ops& calls = rte_eth_fp_ops[kPortId];
    calls.tx_pkt_burst = send_to_driver;
    calls.txq.data = no_data;
    calls.txq.clbk = no_data;
    calls.tx_pkt_prepare = take_all;
    quirks.frees = dpdk::Frees::kWhenSending;
    queue = std::make_unique<dpdk::Queue>(
        dpdk::QueueSetup{
            .port_id = kPortId, .quirks = &quirks, .is_nic_up = &is_nic_up, .limits = {8, 8}},
        static_cast<dpdk::Memory&>(*memory));
    queue->start();
  }
  void TearDown() override {
    driver.free(driver.held.size());
    queue.reset();
    memory.reset();
  }
  void send(size_t count) {
    std::vector<PacketBuf*> packets(count);
    ASSERT_EQ(memory->alloc_tx(packets), count);
    for (PacketBuf* packet : packets) packet->length = 60;
    ASSERT_EQ(queue->tx_burst(packets), count);
  }

  std::unique_ptr<PacketMemory> memory;
  dpdk::DriverQuirks quirks;
  std::atomic<bool> is_nic_up{false};
  std::unique_ptr<dpdk::Queue> queue;
};

TEST_F(TxQueue, HoldsWhatTheDriverHolds) {
  driver.room = 100;
  send(20);
  EXPECT_EQ(queue->tx_held(), 20u);
  driver.free(20);
  queue->reclaim();
  EXPECT_EQ(queue->tx_held(), 0u);
}

// Of a burst of which the driver took a part, the rest is dropped when the link is down. The part
// is still in the driver's ring.
TEST_F(TxQueue, HoldsThePartOfABurstThatTheDriverTook) {
  driver.room = 10;
  send(20);
  ASSERT_EQ(driver.held.size(), 10u);
  queue->reclaim();
  ASSERT_EQ(queue->counters().tx_dropped, 10u);
  EXPECT_GE(queue->tx_held(), 10u);
  driver.free(5);
  queue->reclaim();
  EXPECT_GE(queue->tx_held(), 5u);
  driver.free(5);
  driver.room = 100;
  send(1);  // and what is sent later shows that all before it was freed
  driver.free(1);
  queue->reclaim();
  EXPECT_EQ(queue->tx_held(), 0u);
}

TEST_F(TxQueue, HoldsThePartOfABurstUntilTheDriverIsClosed) {
  driver.room = 10;
  send(20);
  queue->suspend();
  EXPECT_GE(queue->tx_held(), 10u);
  driver.free(10);
  queue->on_closed();
  queue->reclaim();
  EXPECT_EQ(queue->tx_held(), 0u);
}

// They waited until another packet was sent, for the retransmission timer if need be.
TEST_F(TxQueue, AWorkersPortOffersTheRestOfABurstAgain) {
  worker::Port port(*queue, 1500);
  std::vector<PacketBuf*> packets(20);
  ASSERT_EQ(memory->alloc_tx(packets), packets.size());
  for (PacketBuf* packet : packets) {
    packet->length = 60;
    port.queue(packet);
  }
  driver.room = 10;
  EXPECT_EQ(port.flush(), 20u);
  ASSERT_EQ(driver.held.size(), 10u);
  EXPECT_TRUE(port.has_unsent());
  port.begin_turn();
  EXPECT_EQ(port.flush(), 0u) << "the driver has no room yet";
  driver.room = 100;
  EXPECT_EQ(port.flush(), 0u);
  EXPECT_EQ(driver.held.size(), 10u) << "the port is full until the next turn";
  port.begin_turn();
  EXPECT_EQ(port.flush(), 0u) << "they were taken before";
  EXPECT_EQ(driver.held.size(), 20u);
  EXPECT_FALSE(port.has_unsent());
}

/// Sends a TSO packet with one piece of client memory.
size_t send_piece(dpdk::Queue& queue, PacketMemory& memory, const BufRef& piece) {
  PacketBuf* packet = nullptr;
  EXPECT_EQ(memory.alloc_tx({&packet, 1}), 1u);
  const std::vector<uint8_t> front = headers(1, piece.length);
  std::copy(front.begin(), front.end(), packet->data);
  packet->length = kHeaderBytes;
  packet->pieces[0] = piece;
  packet->piece_count = 1;
  packet->wants_checksums = true;
  packet->l3_bytes = kL3Bytes;
  packet->l4_bytes = kL4Bytes;
  packet->tso_bytes = 1460;
  return queue.tx_burst({&packet, 1});
}

/// A queue with TSO of a device that was opened again and cannot read the region of its client any
/// more. Its worker still sends TSO packets of it.
struct QueueOfUnreadableMemory {
  static constexpr uint32_t kRegion = 3;

  QueueOfUnreadableMemory(const dpdk::DriverQuirks& quirks, const std::atomic<bool>& is_nic_up) {
    memory->add_region(kRegion, {client.data(), client.size()});
    {
      const auto lock = map.lock_devices();
      EXPECT_TRUE(map.add_device(nullptr, dpdk::DmaMap::Reach::kPoolsOnly).ok());
    }
    memory->look_at_regions_again();
    queue =
        std::make_unique<dpdk::Queue>(dpdk::QueueSetup{.port_id = kPortId,
                                                       .capabilities = {.tso_bytes_max = 65'000},
                                                       .quirks = &quirks,
                                                       .is_nic_up = &is_nic_up,
                                                       .limits = {8, 16},
                                                       .has_ip_checksum = true,
                                                       .has_tcp_checksum = true},
                                      *memory);
    queue->start();
  }
  ~QueueOfUnreadableMemory() { driver.free(driver.held.size()); }
  size_t send(uint32_t payload_bytes) {
    return send_piece(*queue, *memory, {kRegion, payload_bytes, 0});
  }

  dpdk::DmaMap map;
  std::vector<uint8_t> client = pattern(9, 60'000);
  std::unique_ptr<dpdk::Memory> memory =
      std::move(*dpdk::Memory::make({.dma_map = &map}, 0, {.rx_slots = 64, .tx_packets = 256}));
  std::unique_ptr<dpdk::Queue> queue;
};

// They were all dropped, for as long as the region was known.
TEST_F(TxQueue, CopiesATsoPacketThatTheDeviceCannotRead) {
  driver.room = 100;
  QueueOfUnreadableMemory unreadable(quirks, is_nic_up);
  constexpr uint32_t kPayload = 20'000;
  ASSERT_EQ(unreadable.send(kPayload), 1u);
  ASSERT_EQ(driver.held.size(), 1u);
  const rte_mbuf* copy = driver.held[0];
  EXPECT_NE(copy->ol_flags & RTE_MBUF_F_TX_TCP_SEG, 0u);
  EXPECT_EQ(copy->tso_segsz, 1460);
  EXPECT_EQ(copy->l4_len, kL4Bytes);
  ASSERT_EQ(copy->pkt_len, kHeaderBytes + kPayload);
  std::vector<uint8_t> bytes(copy->pkt_len);
  const void* at = rte_pktmbuf_read(copy, 0, copy->pkt_len, bytes.data());
  EXPECT_EQ(at, bytes.data()) << "in several buffers";
  bytes.erase(bytes.begin(), bytes.begin() + kHeaderBytes);
  EXPECT_EQ(bytes, pattern(9, kPayload));
  EXPECT_EQ(unreadable.queue->counters().tx_dropped, 0u);
}

// A driver that takes a packet of too many segments may stop its queue.
TEST_F(TxQueue, DropsACopyThatTheDeviceCannotGather) {
  driver.room = 100;
  QueueOfUnreadableMemory unreadable(quirks, is_nic_up);
  ASSERT_EQ(unreadable.send(40'000), 1u);
  EXPECT_EQ(driver.held.size(), 0u);
  EXPECT_EQ(unreadable.queue->counters().tx_dropped, 1u);
}

// The driver writes a longer one over other bits of its descriptor, and other memory is sent.
TEST_F(TxQueue, GivesVmxnet3NoSegmentThatItsDescriptorCannotHold) {
  driver.room = 100;
  constexpr uint32_t kRegion = 3;
  constexpr uint32_t kPayload = 60'000;
  constexpr uint32_t kDescriptorBytesMax = (1u << 14) - 1;
  const std::vector<uint8_t> client = pattern(9, kPayload);
  const dpdk::DriverQuirks& vmxnet3 = dpdk::quirks_of("net_vmxnet3");
  ASSERT_TRUE(memory->add_region(kRegion, {client.data(), client.size()}));
  dpdk::Queue of_vmxnet3(dpdk::QueueSetup{.port_id = kPortId,
                                          .capabilities = {.tso_bytes_max = 65'000},
                                          .quirks = &vmxnet3,
                                          .is_nic_up = &is_nic_up,
                                          .limits = {16, vmxnet3.tso_segments_max},
                                          .has_ip_checksum = true,
                                          .has_tcp_checksum = true},
                         static_cast<dpdk::Memory&>(*memory));
  of_vmxnet3.start();
  ASSERT_EQ(send_piece(of_vmxnet3, *memory, {kRegion, kPayload, 0}), 1u);
  ASSERT_EQ(driver.held.size(), 1u);
  EXPECT_EQ(of_vmxnet3.counters().tx_linearised_bytes, 0u);
  uint32_t bytes = 0;
  for (const rte_mbuf* segment = driver.held[0]; segment != nullptr; segment = segment->next) {
    EXPECT_LE(segment->data_len, kDescriptorBytesMax);
    bytes += segment->data_len;
  }
  EXPECT_EQ(bytes, kHeaderBytes + kPayload);
  driver.free(1);
  memory->remove_region(kRegion);
}

/// What a queue of a driver with TSO counts of two TSO packets, of which the driver takes one.
IoCounters counted_of_one_tso_packet(PacketMemory& memory, const dpdk::DriverQuirks& quirks,
                                     const std::atomic<bool>& is_nic_up, uint32_t payload_bytes) {
  constexpr uint32_t kRegion = 3;
  const std::vector<uint8_t> client = pattern(9, payload_bytes);
  EXPECT_TRUE(memory.add_region(kRegion, {client.data(), client.size()}));
  IoCounters counted;
  {
    dpdk::Queue cutting(dpdk::QueueSetup{.port_id = kPortId,
                                         .capabilities = {.tso_bytes_max = 65'000},
                                         .quirks = &quirks,
                                         .is_nic_up = &is_nic_up,
                                         .limits = {16, 24},
                                         .has_ip_checksum = true,
                                         .has_tcp_checksum = true},
                        static_cast<dpdk::Memory&>(memory));
    cutting.start();
    driver.room = 1;
    EXPECT_EQ(send_piece(cutting, memory, {kRegion, payload_bytes, 0}), 1u);
    EXPECT_EQ(send_piece(cutting, memory, {kRegion, payload_bytes, 0}), 1u);
    EXPECT_TRUE(cutting.has_unsent());
    counted = cutting.counters();
    driver.free(driver.held.size());
  }
  memory.remove_region(kRegion);
  return counted;
}

// They counted as one packet, with one header.
TEST_F(TxQueue, CountsThePacketsThatTheNicCuts) {
  for (const uint32_t cuts : {2u, 10u, 41u}) {
    for (const uint32_t payload_bytes : {1460 * (cuts - 1) + 1, 1460 * cuts}) {
      const IoCounters counted =
          counted_of_one_tso_packet(*memory, quirks, is_nic_up, payload_bytes);
      EXPECT_EQ(counted.tx_packets, cuts) << payload_bytes;
      EXPECT_EQ(counted.tx_bytes, payload_bytes + cuts * kHeaderBytes) << payload_bytes;
    }
  }
}

// It may reach another machine of the host uncut.
TEST_F(TxQueue, CountsWhatAVirtioHostIsGivenAsOnePacket) {
  quirks.super_packets = dpdk::SuperPackets::kLro;
  const IoCounters counted = counted_of_one_tso_packet(*memory, quirks, is_nic_up, 60'000);
  EXPECT_EQ(counted.tx_packets, 1u);
  EXPECT_EQ(counted.tx_bytes, 60'000u + kHeaderBytes);
}

dpdk::PortSetup offloads_of_ipv6(dpdk::Memory& memory) {
  dpdk::PortSetup setup{.capabilities = {.tso_bytes_max = 65'000}, .has_tcp_checksum = true};
  const Status asked = dpdk::limit_to_ipv6_offloads(kPortId, memory, setup);
  EXPECT_TRUE(asked.ok()) << asked.error().text;
  EXPECT_TRUE(setup.has_tcp_checksum);
  EXPECT_EQ(setup.capabilities.tso_bytes_max, 65'000u);
  return setup;
}

// The port is restarted until there is one.
TEST_F(TxQueue, LearnsNothingOfIpv6WithoutABuffer) {
  auto& packets = static_cast<dpdk::Memory&>(*memory);
  std::vector<rte_mbuf*> all;
  while (rte_mbuf* mbuf = rte_pktmbuf_alloc(packets.copy_mempool())) all.push_back(mbuf);
  dpdk::PortSetup setup{.has_tcp_checksum = true};
  const Status asked = dpdk::limit_to_ipv6_offloads(kPortId, packets, setup);
  rte_pktmbuf_free_bulk(all.data(), static_cast<unsigned>(all.size()));
  ASSERT_FALSE(asked);
  EXPECT_EQ(asked.error().code, ENOMEM);
  EXPECT_FALSE(setup.has_ipv6_tcp_checksum);
}

TEST_F(TxQueue, OffersNothingOverIpv6ThatItCannotAskFor) {
  auto made =
      (*environment())->make_memory(1, {.rx_slots = 64, .mtu_bytes = 576, .tx_packets = 64});
  ASSERT_TRUE(made) << made.error().text;
  const dpdk::PortSetup setup = offloads_of_ipv6(static_cast<dpdk::Memory&>(**made));
  EXPECT_FALSE(setup.has_ipv6_tcp_checksum) << "the packet does not fit a buffer";
  EXPECT_FALSE(setup.capabilities.has_ipv6_tso);
}

TEST_F(TxQueue, OffersOverIpv6WhatTheDriverTakes) {
  auto& packets = static_cast<dpdk::Memory&>(*memory);
  dpdk::PortSetup setup = offloads_of_ipv6(packets);
  EXPECT_TRUE(setup.has_ipv6_tcp_checksum);
  EXPECT_TRUE(setup.capabilities.has_ipv6_tso);
  rte_eth_fp_ops[kPortId].tx_pkt_prepare = refuse_ipv6_tso;
  setup = offloads_of_ipv6(packets);
  EXPECT_TRUE(setup.has_ipv6_tcp_checksum);
  EXPECT_FALSE(setup.capabilities.has_ipv6_tso);
  rte_eth_fp_ops[kPortId].tx_pkt_prepare = refuse_ipv6_checksums;
  setup = offloads_of_ipv6(packets);
  EXPECT_FALSE(setup.has_ipv6_tcp_checksum);
  EXPECT_FALSE(setup.capabilities.has_ipv6_tso);
}

// All of them were dropped.
TEST_F(TxQueue, ComputesTheChecksumOverIpv6ThatTheDeviceLacks) {
  driver.room = 100;
  rte_eth_fp_ops[kPortId].tx_pkt_prepare = refuse_ipv6_checksums;
  dpdk::Queue lacking(dpdk::QueueSetup{.port_id = kPortId,
                                       .quirks = &quirks,
                                       .is_nic_up = &is_nic_up,
                                       .limits = {8, 8},
                                       .has_ip_checksum = true,
                                       .has_tcp_checksum = true},
                      static_cast<dpdk::Memory&>(*memory));
  lacking.start();
  for (const Family family : {Family::kIpv6, Family::kIpv4}) {
    PacketBuf* packet = nullptr;
    ASSERT_EQ(memory->alloc_tx({&packet, 1}), 1u);
    const std::vector<uint8_t> bytes = frame(1, 100, family);
    std::copy(bytes.begin(), bytes.end(), packet->data);
    packet->length = static_cast<uint32_t>(bytes.size());
    packet->wants_checksums = true;
    packet->l3_bytes = l3_bytes_of(family);
    packet->l4_bytes = kL4Bytes;
    ASSERT_EQ(lacking.tx_burst({&packet, 1}), 1u);
  }
  EXPECT_EQ(lacking.counters().tx_dropped, 0u);
  EXPECT_EQ(lacking.counters().software_checksums, 1u);
  ASSERT_EQ(driver.held.size(), 2u);
  const rte_mbuf* over_ipv6 = driver.held[0];
  EXPECT_EQ(over_ipv6->ol_flags & RTE_MBUF_F_TX_L4_MASK, 0u);
  EXPECT_TRUE(
      has_good_tcp_checksum({rte_pktmbuf_mtod(over_ipv6, const uint8_t*), over_ipv6->data_len}));
  EXPECT_EQ(driver.held[1]->ol_flags & RTE_MBUF_F_TX_L4_MASK, RTE_MBUF_F_TX_TCP_CKSUM);
  driver.free(2);
}

// The worker does not ask a NIC's driver, which the control thread asks.
TEST_F(TxQueue, KeepsWaitingPacketsWhileTheControlThreadSawTheLinkUp) {
  is_nic_up = true;
  EXPECT_TRUE(queue->is_link_up());
  driver.room = 10;
  send(20);
  queue->reclaim();
  EXPECT_EQ(queue->counters().tx_dropped, 0u);
  is_nic_up = false;
  queue->reclaim();
  EXPECT_EQ(queue->counters().tx_dropped, 10u);
  queue->suspend();
  is_nic_up = true;
  EXPECT_FALSE(queue->is_link_up()) << "it does not run";
}

// A queue for which no worker waits may keep what it has: the worker calls note_wait() otherwise.
TEST_F(TxQueue, CountsTheWaitsThatTheWorkerTells) {
  driver.room = 100;
  send(1);
  const uint64_t before = queue->tx_progress().waits;
  for (int i = 0; i < 10; ++i) queue->reclaim();
  EXPECT_EQ(queue->tx_progress().waits, before);
  queue->note_wait();
  EXPECT_EQ(queue->tx_progress().waits, before + 1);
}

}  // namespace
}  // namespace lyre::io::contract
