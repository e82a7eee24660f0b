#include "stack/io/dpdk/queue.h"

#include <gtest/gtest.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <initializer_list>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "stack/io/complete_checksums.h"
#include "stack/io/dpdk/environment.h"
#include "stack/io/dpdk/memory.h"
#include "tests/unit/stack/io/dpdk/shared_pages.h"

namespace lyre::io::dpdk {
namespace {

constexpr uint16_t kPortId = RTE_MAX_ETHPORTS - 1;  // no device has it

/// A driver that the test plays: it keeps packets until it is asked for those that were sent, or is
/// given an empty burst.
struct PlayedDriver {
  size_t room = 0;
  int asked_answer = 0;         ///< of tx_done_cleanup
  uint32_t asked = 0;           ///< calls of it
  bool copies_headers = false;  ///< it frees the first segment at once, as mlx5 does
  std::deque<rte_mbuf*> held;

  void free_all() {
    for (; !held.empty(); held.pop_front()) rte_pktmbuf_free(held.front());
  }
} played;

uint16_t take(void*, rte_mbuf** packets, uint16_t count) {
  if (count == 0) played.free_all();
  uint16_t taken = 0;
  for (; taken < count && played.held.size() < played.room; ++taken) {
    rte_mbuf* packet = packets[taken];
    if (played.copies_headers && packet->next != nullptr) {
      rte_pktmbuf_free_seg(std::exchange(packet, packet->next));
    }
    played.held.push_back(packet);
  }
  return taken;
}

rte_mbuf* played_arrival = nullptr;  ///< what the driver receives next

uint16_t receive_arrival(void*, rte_mbuf** packets, uint16_t) {
  if (played_arrival == nullptr) return 0;
  packets[0] = std::exchange(played_arrival, nullptr);
  return 1;
}

/// vmxnet3's transmit ring. Its driver frees sent packets in each burst, and drops a packet that
/// has more segments than there are free descriptors, unless none is free. It tells that it was
/// sent.
struct PlayedRing {
  uint32_t room = 0;  ///< descriptors
  uint32_t used = 0;
  size_t sent = 0;  ///< packets that the device has read, and that can be freed
  uint32_t dropped = 0;
} played_ring;

uint16_t take_into_ring(void*, rte_mbuf** packets, uint16_t count) {
  PlayedRing& ring = played_ring;
  for (; ring.sent > 0; --ring.sent, played.held.pop_front()) {
    ring.used -= played.held.front()->nb_segs;
    rte_pktmbuf_free(played.held.front());
  }
  uint16_t taken = 0;
  for (; taken < count && ring.used < ring.room; ++taken) {
    if (ring.used + packets[taken]->nb_segs > ring.room) {
      rte_pktmbuf_free(packets[taken]);
      ++ring.dropped;
      continue;
    }
    ring.used += packets[taken]->nb_segs;
    played.held.push_back(packets[taken]);
  }
  return taken;
}

/// DPDK, started once in this process.
Backend* environment() {
  static std::unique_ptr<Backend> started;
  if (started != nullptr) return started.get();
  auto made = start_environment({.file_prefix = "lyre-unit-queue-" + std::to_string(::getpid())});
  if (!made || !(*made)->register_worker_thread()) return nullptr;
  started = std::move(*made);
  return started.get();
}

/// Queues of a port that cannot gather: each packet with a piece takes one of 64 copies.
class QueueOfCopies : public ::testing::Test {
 protected:
  static constexpr uint32_t kCopies = 64;
  static constexpr uint32_t kRegion = 3;

  void SetUp() override {
    played = {.room = 1000, .asked_answer = 0, .held = {}};
    ASSERT_NE(environment(), nullptr);
    auto made = environment()->make_memory(0, {.rx_slots = 64, .tx_packets = kCopies});
    ASSERT_TRUE(made) << made.error().text;
    memory = std::move(*made);
    ASSERT_TRUE(memory->add_region(kRegion, {client.data(), client.size()}));
    static void* no_data[RTE_MAX_QUEUES_PER_PORT] = {};
    struct rte_eth_fp_ops& calls = rte_eth_fp_ops[kPortId];
    calls.tx_pkt_burst = take;
    calls.txq.data = no_data;
    calls.txq.clbk = no_data;
    queue = make_queue();
    other = make_queue();
  }
  void TearDown() override {
    played.free_all();
    queue.reset();
    other.reset();
    memory.reset();
  }
  std::unique_ptr<Queue> make_queue() {
    auto made = std::make_unique<Queue>(QueueSetup{.port_id = kPortId,
                                                   .quirks = &quirks,
                                                   .is_nic_up = &is_nic_up,
                                                   .limits = limits,
                                                   .tx_descriptors = tx_descriptors},
                                        static_cast<Memory&>(*memory));
    made->start();
    return made;
  }
  /// Sends `count` packets with a piece each; returns how many the queue took.
  size_t send(Queue& by, size_t count) {
    std::vector<PacketBuf*> packets(count);
    EXPECT_EQ(memory->alloc_tx(packets), count);
    for (PacketBuf* packet : packets) {
      packet->length = 54;
      packet->pieces[0] = {kRegion, static_cast<uint32_t>(client.size()), 0};
      packet->piece_count = 1;
    }
    const size_t taken = by.tx_burst(packets);
    memory->release(std::span(packets).subspan(taken));
    return taken;
  }
  void send_all_copies(Queue& by) {
    for (uint32_t i = 0; i < kCopies; ++i) ASSERT_EQ(send(by, 1), 1u);
    ASSERT_EQ(played.held.size(), size_t{kCopies});
  }

  const std::vector<uint8_t> client = std::vector<uint8_t>(1000, 7);
  DriverQuirks quirks;
  TransmitLimits limits{1, 1};
  uint32_t tx_descriptors = 0;
  std::atomic<bool> is_nic_up{true};
  std::unique_ptr<PacketMemory> memory;
  std::unique_ptr<Queue> queue;
  std::unique_ptr<Queue> other;
};

// The driver was not called any more, because nothing could be prepared. The port was started again
// after ten seconds.
TEST_F(QueueOfCopies, AsksTheDriverForTheCopiesThatItSent) {
  send_all_copies(*queue);
  EXPECT_EQ(send(*queue, 2), 2u);
  EXPECT_EQ(queue->tx_held(), 2u);
  EXPECT_EQ(queue->counters().tx_full, 0u);
}

// mana frees in a burst only.
TEST_F(QueueOfCopies, AsksADriverWithoutACallForItByAnEmptyBurst) {
  played.asked_answer = -ENOTSUP;
  send_all_copies(*queue);
  EXPECT_EQ(send(*queue, 1), 1u);
}

// Clients were lent bytes that were none of the packet's.
TEST_F(QueueOfCopies, DropsAReceivedPacketWhoseBytesAreOutsideOfItsPool) {
  static void* no_data[RTE_MAX_QUEUES_PER_PORT] = {};
  struct rte_eth_fp_ops& calls = rte_eth_fp_ops[kPortId];
  calls.rx_pkt_burst = receive_arrival;
  calls.rxq.data = no_data;
  calls.rxq.clbk = no_data;
  const auto slots = memory->rx_slots_free();
  char outside[2048] = {};
  rte_mbuf_ext_shared_info shared = {};
  shared.free_cb = [](void*, void*) {};
  rte_mbuf_ext_refcnt_set(&shared, 1);
  for (const bool is_outside : {true, false}) {
    played_arrival = rte_pktmbuf_alloc(static_cast<Memory&>(*memory).rx_mempool());
    ASSERT_NE(played_arrival, nullptr);
    if (is_outside) rte_pktmbuf_attach_extbuf(played_arrival, outside, 0, sizeof outside, &shared);
    played_arrival->data_len = 60;
    played_arrival->pkt_len = 60;
    PacketBuf* received[1];
    ASSERT_EQ(queue->rx_burst(received), is_outside ? 0u : 1u);
    if (!is_outside) memory->release(received);
    EXPECT_EQ(queue->counters().rx_missed, 1u);
    EXPECT_EQ(memory->rx_slots_free(), slots);
  }
}

// These free packets that were not sent, or crash.
TEST_F(QueueOfCopies, DoesNotAskADriverThatAnswersWrongly) {
  for (const char* driver :
       {"net_i40e", "net_ice", "net_iavf", "net_ixgbe", "net_ixgbe_vf", "net_txgbe", "net_txgbe_vf",
        "net_ngbe", "net_e1000_igb", "net_e1000_igb_vf", "net_igc"}) {
    quirks = quirks_of(driver);
    ASSERT_EQ(send(*queue, 1), 1u);
    queue->reclaim();
    EXPECT_EQ(played.asked, 0u) << driver;
    EXPECT_GT(queue->tx_held(), 0u) << driver;
  }
  quirks = DriverQuirks{};
  queue->reclaim();
  EXPECT_EQ(played.asked, 1u) << "others are asked";
}

// It had to send by itself first, which it did not while it had nothing to send.
TEST_F(QueueOfCopies, AsksTheDriversOfOtherPortsAsWell) {
  send_all_copies(*queue);
  EXPECT_EQ(send(*other, 1), 1u);
  EXPECT_EQ(queue->tx_held(), 0u);
}

// mlx4, which has a ring smaller than the copies: it frees nothing when it is asked.
TEST_F(QueueOfCopies, TakesNothingWhereTheDriverFreesNothing) {
  quirks.frees = Frees::kWhenSending;
  send_all_copies(*queue);
  EXPECT_EQ(send(*queue, 1), 0u);
  EXPECT_EQ(queue->counters().tx_full, 1u);
}

// A port was started again that held nothing.
TEST_F(QueueOfCopies, DoesNotWaitForADriverThatHoldsNothing) {
  quirks.frees = Frees::kWhenSending;
  send_all_copies(*queue);
  EXPECT_EQ(send(*other, 1), 0u);
  EXPECT_EQ(other->counters().tx_full, 1u);
  EXPECT_EQ(other->tx_progress().waits, 0u);
}

TEST_F(QueueOfCopies, WaitsForADriverWhoseRingIsFull) {
  played.room = 10;
  EXPECT_EQ(send(*queue, 20), 20u) << "ten are pending";
  EXPECT_EQ(send(*queue, 1), 0u);
  EXPECT_EQ(queue->tx_progress().waits, 1u);
}

// ENA. Both counted as freed, and a client wrote over what the first one still sent.
TEST_F(QueueOfCopies, APacketFreedBeforeEarlierOnesOfItsBurstIsNotCounted) {
  quirks.frees_in_any_order = true;
  quirks.frees = Frees::kWhenSending;
  ASSERT_EQ(send(*queue, 2), 2u);
  rte_pktmbuf_free(played.held.back());
  played.held.pop_back();
  queue->reclaim();
  EXPECT_EQ(queue->tx_held(), 2u);
  played.free_all();
  queue->reclaim();
  EXPECT_EQ(queue->tx_held(), 0u);
}

TEST_F(QueueOfCopies, APartOfABurstThatIsFreedInAnyOrderIsCountedWithTheRest) {
  quirks.frees_in_any_order = true;
  quirks.frees = Frees::kWhenSending;
  played.room = 2;
  ASSERT_EQ(send(*queue, 3), 3u) << "one is pending";
  rte_pktmbuf_free(played.held.back());
  played.held.pop_back();
  queue->reclaim();  // sends the last one
  ASSERT_EQ(played.held.size(), 2u);
  rte_pktmbuf_free(played.held.back());
  played.held.pop_back();
  queue->reclaim();
  EXPECT_EQ(queue->tx_held(), 3u) << "the first one is in the ring";
  played.free_all();
  queue->reclaim();
  EXPECT_EQ(queue->tx_held(), 0u);
}

std::vector<uint8_t> bytes_of(const rte_mbuf& packet) {
  std::vector<uint8_t> bytes;
  for (const rte_mbuf* segment = &packet; segment != nullptr; segment = segment->next) {
    const auto* data = rte_pktmbuf_mtod(segment, const uint8_t*);
    bytes.insert(bytes.end(), data, data + segment->data_len);
  }
  return bytes;
}

/// Queues of a port that sends client memory, whose driver copies the first 224 bytes to the device
/// as ENA's does.
class QueueThatPushes : public QueueOfCopies {
 protected:
  static constexpr uint32_t kHeaderBytes = 66;

  void SetUp() override {
    quirks.push_bytes_max = 224;
    limits = {16, 16};
    QueueOfCopies::SetUp();
    if (HasFatalFailure()) return;
    ASSERT_TRUE(memory->add_region(kPinned, {.base = pages.data(), .bytes = pages.bytes()}));
    ASSERT_GT(memory->region_segment_bytes(kPinned), 0u) << "it would be copied";
    std::iota(pages.data(), pages.data() + pages.bytes(), uint8_t{0});
  }
  /// Sends a packet with these pieces of one range, and returns it as the driver got it.
  rte_mbuf* send_pieces(std::initializer_list<uint32_t> lengths) {
    PacketBuf* packet = nullptr;
    EXPECT_EQ(memory->alloc_tx({&packet, 1}), 1u);
    packet->length = kHeaderBytes;
    std::fill_n(packet->data, kHeaderBytes, uint8_t{0});
    packet->wants_checksums = true;
    packet->data[kEthernetHeaderBytes] = 0x45;  // IPv4
    packet->l3_bytes = 20;
    packet->l4_bytes = 32;
    uint32_t at = 0;
    for (const uint32_t length : lengths) {
      packet->pieces[packet->piece_count++] = {kPinned, length, at};
      at += length;
    }
    sent.assign(pages.data(), pages.data() + at);
    EXPECT_EQ(queue->tx_burst({&packet, 1}), 1u);
    return played.held.back();
  }
  /// The TCP checksum that belongs to the packet, over the pseudo-header's sum of 0.
  static uint16_t checksum_of(std::vector<uint8_t> bytes) {
    std::fill_n(bytes.begin() + kTcpAt + kTcpChecksumAt, 2, uint8_t{0});
    ChecksumSum sum;
    sum.add({bytes.data() + kTcpAt, bytes.size() - kTcpAt});
    return sum.finish();
  }
  void expect_whole(const rte_mbuf& packet) {
    const std::vector<uint8_t> bytes = bytes_of(packet);
    ASSERT_EQ(bytes.size(), kHeaderBytes + sent.size());
    EXPECT_EQ(packet.pkt_len, bytes.size());
    EXPECT_TRUE(std::equal(sent.begin(), sent.end(), bytes.begin() + kHeaderBytes));
    uint16_t checksum = 0;
    std::memcpy(&checksum, bytes.data() + kTcpAt + kTcpChecksumAt, sizeof checksum);
    EXPECT_EQ(checksum, checksum_of(bytes));
  }

  static constexpr uint32_t kPinned = 4;
  static constexpr size_t kTcpAt = kEthernetHeaderBytes + 20;
  const SharedPages pages{1};
  std::vector<uint8_t> sent;
};

// The driver gave the device an empty segment.
TEST_F(QueueThatPushes, ASmallPayloadIsCopiedToTheHeaders) {
  const rte_mbuf* packet = send_pieces({20});
  EXPECT_EQ(packet->nb_segs, 1);
  expect_whole(*packet);
  EXPECT_EQ(queue->counters().tx_linearised_bytes, 20u);
}

TEST_F(QueueThatPushes, APieceThatEndsWithThePushedBytesIsCopied) {
  const rte_mbuf* packet = send_pieces({30, 128, 500});
  EXPECT_EQ(packet->nb_segs, 2);
  EXPECT_EQ(packet->data_len, 224);
  expect_whole(*packet);
}

TEST_F(QueueThatPushes, ALongerPieceIsNotCopied) {
  const rte_mbuf* packet = send_pieces({159, 20});
  EXPECT_EQ(packet->nb_segs, 3);
  expect_whole(*packet);
  EXPECT_EQ(queue->counters().tx_linearised_bytes, 0u);
}

TEST_F(QueueThatPushes, OtherDriversSendSmallPayloadsUncopied) {
  quirks.push_bytes_max = 0;
  EXPECT_EQ(send_pieces({20})->nb_segs, 2);
}

TEST_F(QueueThatPushes, APortOfOneSegmentGetsACopyInPacketMemory) {
  limits = {1, 1};
  queue = make_queue();
  const rte_mbuf* packet = send_pieces({500, 500});
  EXPECT_EQ(packet->nb_segs, 1);
  EXPECT_EQ(memory->region_holds(kPinned), 0u);
  expect_whole(*packet);
}

// The packet counted as freed while its payload waited in the NIC, and the client wrote over it.
TEST_F(QueueThatPushes, APacketIsHeldUntilItsLastSegmentIsFreed) {
  quirks.push_bytes_max = 0;
  quirks.frees = Frees::kWhenSending;
  played.copies_headers = true;
  send_pieces({500, 500});
  queue->reclaim();
  EXPECT_EQ(queue->tx_held(), 1u);
  EXPECT_GT(memory->region_holds(kPinned), 0u);
  played.free_all();
  queue->reclaim();
  EXPECT_EQ(queue->tx_held(), 0u);
  EXPECT_EQ(memory->region_holds(kPinned), 0u);
}

TEST_F(QueueThatPushes, ARefusedPacketIsNotHeld) {
  quirks.push_bytes_max = 0;
  played.room = 1;
  send_pieces({500});
  send_pieces({500});
  queue->suspend();
  EXPECT_EQ(memory->region_holds(kPinned), 1u) << "the driver's";
}

/// Of a driver whose NIC takes fewer bytes by a descriptor than a segment may have: so many.
class QueueOfShortDescriptors
    : public QueueOfCopies,
      public ::testing::WithParamInterface<std::pair<const char*, uint32_t>> {
 protected:
  static constexpr uint32_t kPinned = 4;
  static constexpr uint32_t kPieceBytes = 60 << 10;

  void SetUp() override {
    quirks = quirks_of(GetParam().first);
    limits = {40, 40};
    QueueOfCopies::SetUp();
    if (HasFatalFailure()) return;
    ASSERT_TRUE(memory->add_region(kPinned, {.base = pages.data(), .bytes = pages.bytes()}));
    ASSERT_GT(memory->region_segment_bytes(kPinned), 0u) << "it would be copied";
  }
  const SharedPages pages{(kPieceBytes + kTestPageBytes - 1) / kTestPageBytes};
};

// A descriptor of the NIC takes less than a segment may have, and the driver does not cut.
TEST_P(QueueOfShortDescriptors, ALargePieceIsCutToWhatADescriptorTakes) {
  PacketBuf* packet = nullptr;
  ASSERT_EQ(memory->alloc_tx({&packet, 1}), 1u);
  packet->length = 54;
  packet->pieces[packet->piece_count++] = {kPinned, kPieceBytes, 0};
  ASSERT_EQ(queue->tx_burst({&packet, 1}), 1u);
  EXPECT_EQ(played.held.front()->pkt_len, 54 + kPieceBytes);
  for (const rte_mbuf* segment = played.held.front(); segment != nullptr; segment = segment->next) {
    EXPECT_LE(segment->data_len, GetParam().second);
  }
  EXPECT_EQ(queue->counters().tx_linearised_bytes, 0u) << "it was copied";
}

INSTANTIATE_TEST_SUITE_P(Drivers, QueueOfShortDescriptors,
                         testing::Values(std::pair("net_ixgbe", 15872u),
                                         std::pair("net_enic", 16383u)));

/// A queue with vmxnet3's ring, of which 31 descriptors can be in use.
class QueueOfARing : public QueueThatPushes {
 protected:
  static constexpr uint32_t kSegments = 7;  // four such packets fit

  void SetUp() override {
    quirks.drops_when_full = true;
    tx_descriptors = 32;
    QueueThatPushes::SetUp();
    if (HasFatalFailure()) return;
    quirks.push_bytes_max = 0;
    played.asked_answer = -ENOTSUP;
    played_ring = {.room = tx_descriptors - 1};
    rte_eth_fp_ops[kPortId].tx_pkt_burst = take_into_ring;
  }
  /// Sends packets of seven segments in one burst. Returns how many the queue took.
  size_t send_large(size_t count) {
    std::vector<PacketBuf*> packets(count);
    EXPECT_EQ(memory->alloc_tx(packets), count);
    for (PacketBuf* packet : packets) {
      packet->length = kHeaderBytes;
      for (uint32_t i = 1; i < kSegments; ++i) {
        packet->pieces[packet->piece_count++] = {kPinned, 100, 100 * i};
      }
    }
    const size_t taken = queue->tx_burst(packets);
    memory->release(std::span(packets).subspan(taken));
    return taken;
  }
  /// The device reads so many packets, and the worker asks for them.
  void read_and_reclaim(size_t count) {
    played_ring.sent = count;
    queue->reclaim();
  }
};

// The driver dropped it, and the session waited for its retransmission timer.
TEST_F(QueueOfARing, APacketThatDoesNotFitTheRingWaits) {
  for (int i = 0; i < 4; ++i) ASSERT_EQ(send_large(1), 1u);
  EXPECT_EQ(send_large(1), 1u);
  EXPECT_EQ(played_ring.dropped, 0u);
  EXPECT_TRUE(queue->has_unsent());
  read_and_reclaim(1);
  EXPECT_EQ(played_ring.dropped, 0u);
  EXPECT_FALSE(queue->has_unsent());
  EXPECT_EQ(played.held.size(), 4u);
  EXPECT_EQ(queue->counters().tx_packets, 5u);
  read_and_reclaim(4);
  EXPECT_EQ(queue->tx_held(), 0u);
}

TEST_F(QueueOfARing, OfABurstThatDoesNotFitAPartIsSent) {
  EXPECT_EQ(send_large(5), 5u);
  EXPECT_EQ(played.held.size(), 4u);
  EXPECT_TRUE(queue->has_unsent());
  EXPECT_EQ(queue->counters().tx_packets, 4u);
  EXPECT_EQ(send_large(1), 0u) << "one is pending";
  read_and_reclaim(2);
  EXPECT_TRUE(queue->has_unsent()) << "only the last packet of the part was marked";
  read_and_reclaim(2);
  EXPECT_FALSE(queue->has_unsent());
  EXPECT_EQ(played.held.size(), 1u);
  EXPECT_GE(queue->tx_held(), 1u);
  read_and_reclaim(1);
  EXPECT_EQ(queue->tx_held(), 0u);
  EXPECT_EQ(played_ring.dropped, 0u);
}

TEST_F(QueueOfARing, ARingThatIsReadAgainAndAgainIsFilledAgain) {
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(send_large(4), 4u);
    EXPECT_EQ(played.held.size(), 4u);
    read_and_reclaim(4);
    EXPECT_EQ(queue->tx_held(), 0u);
  }
  EXPECT_EQ(played_ring.dropped, 0u);
}

TEST_F(QueueOfARing, APacketThatWaitsIsDroppedWithTheLink) {
  ASSERT_EQ(send_large(5), 5u);
  is_nic_up = false;
  queue->reclaim();
  EXPECT_FALSE(queue->has_unsent());
  EXPECT_EQ(queue->counters().tx_dropped, 1u);
  EXPECT_EQ(queue->tx_held(), 5u) << "four are in the ring";
  read_and_reclaim(4);
  EXPECT_EQ(queue->tx_held(), 0u);
}

}  // namespace
}  // namespace lyre::io::dpdk

/// DPDK's function, in front of which this program has one of the same name.
extern "C" int rte_eth_tx_done_cleanup(uint16_t, uint16_t, uint32_t) {
  using lyre::io::dpdk::played;
  ++played.asked;
  if (played.asked_answer == 0) played.free_all();
  return played.asked_answer;
}
