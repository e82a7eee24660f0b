#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "stack/io/sim/link.h"
#include "stack/io/sim/pcap_port.h"
#include "tests/io_contract/frames.h"

namespace lyre::io::sim {
namespace {

constexpr uint32_t kRegion = 3;

/// Two ports with `queues` queues each, and one memory per queue.
struct Pair {
  explicit Pair(const LinkOptions& options, uint32_t queues = 1) : link(options) {
    for (int end = 0; end < 2; ++end) {
      for (uint32_t q = 0; q < queues; ++q) {
        memories[end].push_back(std::make_unique<Memory>(
            MemoryOptions{.rx_slots = 2048, .frame_bytes = options.mtu_bytes + 18}));
        link.add_queue(end, *memories[end].back());
      }
    }
  }
  bool send(const std::vector<uint8_t>& frame, bool wants_checksums = false) {
    PacketBuf* packet = nullptr;
    if (memories[0][0]->alloc_tx({&packet, 1}) == 0) return false;
    packet->data -= 64;
    std::memcpy(packet->data, frame.data(), frame.size());
    packet->length = static_cast<uint32_t>(frame.size());
    packet->wants_checksums = wants_checksums;
    packet->l3_bytes = packet->l4_bytes = 20;
    return link.queue(0, 0).tx_burst({&packet, 1}) == 1;
  }
  /// The frames that arrived at queue `q` of end 1; their packets are released.
  std::vector<std::vector<uint8_t>> receive(uint32_t q = 0) {
    std::vector<std::vector<uint8_t>> out;
    PacketBuf* burst[32];
    while (const size_t got = link.queue(1, q).rx_burst(burst)) {
      for (size_t i = 0; i < got; ++i) {
        out.emplace_back(burst[i]->data, burst[i]->data + burst[i]->length);
      }
      memories[1][q]->release({burst, got});
    }
    return out;
  }
  std::vector<std::unique_ptr<Memory>> memories[2];
  Link link;
};

std::vector<uint8_t> flow_frame(uint32_t flow) {
  std::vector<uint8_t> frame = contract::frame(flow, 20);
  frame[34] = static_cast<uint8_t>(flow >> 8);
  frame[35] = static_cast<uint8_t>(flow);
  return frame;
}

std::vector<std::vector<uint8_t>> noisy_run(uint64_t seed) {
  Pair pair({.seed = seed,
             .delay = micros(10),
             .faults = {.loss_ppm = 50'000,
                        .duplicate_ppm = 50'000,
                        .corrupt_ppm = 50'000,
                        .reorder_ppm = 100'000}});
  std::vector<std::vector<uint8_t>> all;
  for (uint32_t id = 0; id < 1000; ++id) {
    EXPECT_TRUE(pair.send(contract::frame(id, 30)));
    pair.link.advance(pair.link.now() + micros(1));
    for (auto& frame : pair.receive()) all.push_back(frame);
  }
  pair.link.advance(pair.link.now() + millis(1));
  for (auto& frame : pair.receive()) all.push_back(frame);
  const LinkCounters& counters = pair.link.counters(0);
  EXPECT_EQ(counters.carried, 1000u);
  EXPECT_EQ(all.size(), counters.carried - counters.lost + counters.duplicated);
  EXPECT_GT(counters.lost, 0u);
  EXPECT_GT(counters.duplicated, 0u);
  EXPECT_GT(counters.corrupted, 0u);
  EXPECT_GT(counters.reordered, 0u);
  return all;
}

TEST(SimLink, SameSeedSameRun) {
  EXPECT_EQ(noisy_run(8123), noisy_run(8123));
  EXPECT_NE(noisy_run(8123), noisy_run(8124));
}

TEST(SimLink, FramesArriveInOrderWhenTheirTimeHasCome) {
  Pair pair({.delay = micros(50), .rate_bytes_per_s = 1'000'000'000});
  ASSERT_TRUE(pair.send(contract::frame(1, 46)));  // 100 bytes: 100 ns on this wire
  ASSERT_TRUE(pair.send(contract::frame(2, 46)));
  EXPECT_EQ(pair.link.next_deadline(), nanos(50'100));
  pair.link.advance(nanos(50'099));
  EXPECT_TRUE(pair.receive().empty());
  pair.link.advance(nanos(50'100));
  EXPECT_EQ(pair.receive().size(), 1u);
  EXPECT_EQ(pair.link.next_deadline(), nanos(50'200));
  pair.link.advance(nanos(50'200));
  EXPECT_EQ(pair.receive().size(), 1u);
  EXPECT_EQ(pair.link.next_deadline(), kNever);
}

TEST(SimLink, FlowsSpreadOverQueuesAndStay) {
  constexpr uint32_t kQueues = 4;
  constexpr uint32_t kFlows = 64;
  Pair pair({.seed = 5}, kQueues);
  const auto queue_by_flow = [&] {
    std::vector<uint32_t> where(kFlows, kQueues);
    for (uint32_t flow = 0; flow < kFlows; ++flow) pair.send(flow_frame(flow));
    pair.link.advance(pair.link.now() + nanos(1));
    for (uint32_t q = 0; q < kQueues; ++q) {
      for (const auto& frame : pair.receive(q)) where[contract::id_of(frame)] = q;
    }
    return where;
  };
  const std::vector<uint32_t> first = queue_by_flow();
  EXPECT_EQ(queue_by_flow(), first);
  EXPECT_EQ(std::set<uint32_t>(first.begin(), first.end()), (std::set<uint32_t>{0, 1, 2, 3}));
  pair.link.redistribute(1, 99);
  const std::vector<uint32_t> second = queue_by_flow();
  EXPECT_NE(second, first);
  EXPECT_EQ(std::set<uint32_t>(second.begin(), second.end()), (std::set<uint32_t>{0, 1, 2, 3}));
}

TEST(SimLink, HardwareVerdictsAreTrue) {
  Pair pair({.checksums = Checksums::kHardware});
  ASSERT_TRUE(pair.send(contract::frame(1, 60), true));
  std::vector<uint8_t> bad = contract::frame(2, 60);
  ASSERT_TRUE(pair.send(bad, false));
  pair.link.advance(nanos(1));
  PacketBuf* burst[2];
  ASSERT_EQ(pair.link.queue(1, 0).rx_burst(burst), 2u);
  EXPECT_EQ(burst[0]->ip_checksum, ChecksumVerdict::kGood);
  EXPECT_EQ(burst[0]->l4_checksum, ChecksumVerdict::kGood);
  EXPECT_EQ(burst[1]->ip_checksum, ChecksumVerdict::kBad);
  EXPECT_EQ(burst[1]->l4_checksum, ChecksumVerdict::kBad);
  EXPECT_EQ(pair.link.queue(0, 0).counters().software_checksums, 0u);
  pair.memories[1][0]->release(burst);
}

TEST(SimLink, TsoPacketsAreCut) {
  Pair pair({.checksums = Checksums::kHardware, .tso_bytes_max = 65'000});
  Memory& memory = *pair.memories[0][0];
  const std::vector<uint8_t> client = contract::pattern(4, 5000);
  ASSERT_TRUE(memory.add_region(kRegion, {client.data(), client.size()}));
  PacketBuf* packet = nullptr;
  ASSERT_EQ(memory.alloc_tx({&packet, 1}), 1u);
  std::vector<uint8_t> head = contract::headers(1000, 5000);
  head[14 + 20 + 13] = 0x10 | 0x08 | 0x01;  // ACK, PSH, FIN
  std::memcpy(packet->push_front(contract::kHeaderBytes), head.data(), head.size());
  packet->pieces[0] = {kRegion, 2001, 0};
  packet->pieces[1] = {kRegion, 2999, 2001};
  packet->piece_count = 2;
  packet->wants_checksums = true;
  packet->l3_bytes = packet->l4_bytes = 20;
  packet->tso_bytes = 1460;
  ASSERT_EQ(pair.link.queue(0, 0).tx_burst({&packet, 1}), 1u);
  pair.link.advance(nanos(1));
  const auto frames = pair.receive();
  ASSERT_EQ(frames.size(), 4u);
  std::vector<uint8_t> stream;
  for (size_t i = 0; i < frames.size(); ++i) {
    const std::vector<uint8_t>& frame = frames[i];
    EXPECT_EQ(contract::id_of(frame), 1000 + i * 1460);
    EXPECT_TRUE(contract::has_good_ip_checksum(frame));
    EXPECT_TRUE(contract::has_good_tcp_checksum(frame));
    EXPECT_EQ(frame[14 + 20 + 13], i + 1 == frames.size() ? 0x19 : 0x10);
    stream.insert(stream.end(), frame.begin() + contract::kHeaderBytes, frame.end());
  }
  EXPECT_EQ(stream, client);
  const IoCounters sent = pair.link.queue(0, 0).counters();
  const IoCounters received = pair.link.queue(1, 0).counters();
  EXPECT_EQ(sent.tx_packets, frames.size());
  EXPECT_EQ(sent.tx_packets, received.rx_packets);
  EXPECT_EQ(sent.tx_bytes, received.rx_bytes);
}

TEST(SimLink, SuperPacketsArriveUncutInSeveralSlots) {
  Pair pair({.checksums = Checksums::kTrusted, .tso_bytes_max = 65'000, .has_super_packets = true});
  Memory& memory = *pair.memories[0][0];
  Memory& receiver = *pair.memories[1][0];
  const std::vector<uint8_t> client = contract::pattern(4, 5000);
  ASSERT_TRUE(memory.add_region(kRegion, {client.data(), client.size()}));
  const uint32_t free_before = receiver.rx_slots_free();
  PacketBuf* packet = nullptr;
  ASSERT_EQ(memory.alloc_tx({&packet, 1}), 1u);
  const std::vector<uint8_t> head = contract::headers(1000, 5000);
  std::memcpy(packet->push_front(contract::kHeaderBytes), head.data(), head.size());
  packet->pieces[0] = {kRegion, 5000, 0};
  packet->piece_count = 1;
  packet->wants_checksums = true;
  packet->l3_bytes = packet->l4_bytes = 20;
  packet->tso_bytes = 1460;
  ASSERT_EQ(pair.link.queue(0, 0).tx_burst({&packet, 1}), 1u);
  pair.link.advance(nanos(1));
  ASSERT_EQ(pair.link.queue(1, 0).rx_burst({&packet, 1}), 1u);
  EXPECT_EQ(packet->rest_slots + 1u, free_before - receiver.rx_slots_free());
  EXPECT_EQ(packet->length + packet->rest_bytes, contract::kHeaderBytes + 5000u);
  std::vector<uint8_t> bytes;
  for (uint32_t slot = packet->slot; slot != PacketBuf::kNoSlot;) {
    PacketBuf* part = receiver.rx_packet(slot);
    bytes.insert(bytes.end(), part->data, part->data + part->length);
    slot = part->next_slot;
    receiver.release({&part, 1});
  }
  EXPECT_EQ(std::vector<uint8_t>(bytes.begin() + contract::kHeaderBytes, bytes.end()), client);
  EXPECT_EQ(receiver.rx_slots_free(), free_before);
  EXPECT_EQ(pair.link.queue(0, 0).counters().tx_packets, 1u);
  EXPECT_EQ(pair.link.queue(0, 0).counters().tx_bytes, bytes.size());
}

// A transmit reclaims a full ring, as in real drivers: calling reclaim() is not required.
TEST(SimLink, WhatWasSentLongAgoTakesNoRoom) {
  Pair pair({.frames_max = 4, .tx_release = io::sim::TxRelease::kOnReclaim});
  Memory& memory = *pair.memories[0][0];
  const std::vector<uint8_t> client = contract::pattern(4, 64);
  ASSERT_TRUE(memory.add_region(kRegion, {client.data(), client.size()}));
  for (uint32_t i = 0; i < 8 * kTxPiecesMax; ++i) {
    PacketBuf* packet = nullptr;
    ASSERT_EQ(memory.alloc_tx({&packet, 1}), 1u);
    const std::vector<uint8_t> head = contract::headers(i, 64);
    std::memcpy(packet->push_front(contract::kHeaderBytes), head.data(), head.size());
    packet->pieces[0] = {kRegion, 64, 0};
    packet->piece_count = 1;
    ASSERT_EQ(pair.link.queue(0, 0).tx_burst({&packet, 1}), 1u) << i;
    pair.link.advance(pair.link.now() + nanos(1));
    EXPECT_EQ(pair.receive().size(), 1u);
  }
  EXPECT_GT(memory.region_holds(kRegion), 0u);
}

TEST(SimLink, ACableThatIsOutLosesFrames) {
  Pair pair({});
  pair.link.set_up(false);
  EXPECT_FALSE(pair.link.queue(0, 0).is_link_up());
  EXPECT_TRUE(pair.send(contract::frame(1, 40)));
  pair.link.set_up(true);
  pair.link.advance(nanos(1));
  EXPECT_TRUE(pair.receive().empty());
  EXPECT_EQ(pair.link.counters(0).lost, 1u);
}

/// A receiver that does not read. `sent` frames are offered to it.
uint64_t sent_to_slow_receiver(Pair& pair, uint32_t sent) {
  uint64_t taken = 0;
  for (uint32_t i = 0; i < sent; ++i) {
    taken += pair.send(contract::frame(i, 40)) ? 1 : 0;
    pair.link.advance(pair.link.now() + nanos(1));
  }
  return taken;
}

TEST(SimLink, AFullRingLosesFramesAndDoesNotHoldTheSenderBack) {
  Pair pair({.frames_max = 8, .rx_ring_frames = 3});
  EXPECT_EQ(sent_to_slow_receiver(pair, 20), 20u);
  EXPECT_EQ(pair.link.queue(1, 0).counters().rx_missed, 17u);
  const auto frames = pair.receive();
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(contract::id_of(frames.back()), contract::id_of(contract::frame(2, 40)));
  EXPECT_EQ(sent_to_slow_receiver(pair, 2), 2u);
  EXPECT_EQ(pair.receive().size(), 2u) << "what was read has made room";
}

TEST(SimLink, AnUnboundedRingLosesNothingAndHoldsTheSenderBack) {
  Pair pair({.frames_max = 8});
  EXPECT_EQ(sent_to_slow_receiver(pair, 20), 8u);
  EXPECT_EQ(pair.receive().size(), 8u);
  EXPECT_EQ(pair.link.queue(1, 0).counters().rx_missed, 0u);
}

TEST(SimLink, ACutLosesTheFramesOfOneDirection) {
  Pair pair({});
  pair.link.set_cut(1, true);
  EXPECT_TRUE(pair.send(contract::frame(1, 40)));
  pair.link.advance(nanos(1));
  EXPECT_EQ(pair.receive().size(), 1u);
  pair.link.set_cut(0, true);
  EXPECT_TRUE(pair.link.queue(0, 0).is_link_up());
  EXPECT_TRUE(pair.send(contract::frame(2, 40)));
  pair.link.set_cut(0, false);
  EXPECT_TRUE(pair.send(contract::frame(3, 40)));
  pair.link.advance(nanos(2));
  EXPECT_EQ(pair.receive().size(), 1u);
  EXPECT_EQ(pair.link.counters(0).lost, 1u);
}

TEST(SimMemory, ComesBackToAnEarlierState) {
  const MemoryOptions options{.rx_slots = 16, .tx_packets = 4};
  Memory memory(options);
  Memory saved(options);
  PacketBuf* packet = memory.alloc_rx();
  std::memcpy(packet->data, "before", 6);
  packet->length = 6;
  const uint32_t slot = packet->slot;
  saved.copy_from(memory);
  std::memcpy(packet->data, "after!", 6);
  memory.release({&packet, 1});
  EXPECT_EQ(memory.rx_slots_free(), 16u);
  memory.copy_from(saved);
  EXPECT_EQ(memory.rx_slots_free(), 15u);
  packet = memory.rx_packet(slot);
  EXPECT_EQ(packet->length, 6u);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(packet->data), 6), "before");
  EXPECT_GE(packet->data, memory.rx_memory().data());
  EXPECT_LT(packet->data, memory.rx_memory().data() + memory.rx_memory().size());
}

TEST(SimPcap, FileHoldsWhatPassed) {
  std::string path = std::filesystem::temp_directory_path() / "lyre-pcap-XXXXXX";
  const int fd = mkstemp(path.data());
  ASSERT_GE(fd, 0);
  Pair pair({});
  {
    PcapPort port(pair.link.queue(1, 0), path.c_str());
    ASSERT_TRUE(port.is_open());
    pair.send(contract::frame(1, 46));
    pair.send(contract::frame(2, 146));
    pair.link.advance(nanos(1));
    PacketBuf* burst[4];
    const size_t got = port.rx_burst(burst);
    ASSERT_EQ(got, 2u);
    pair.memories[1][0]->release({burst, got});
  }
  EXPECT_EQ(std::filesystem::file_size(path), 24u + 16 + 100 + 16 + 200);
  std::filesystem::remove(path);
}

/// A packet with one piece of the region.
bool send_piece(Pair& pair) {
  PacketBuf* packet = nullptr;
  if (pair.memories[0][0]->alloc_tx({&packet, 1}) == 0) return false;
  packet->data -= 64;
  const std::vector<uint8_t> bytes = contract::frame(1, 20);
  std::memcpy(packet->data, bytes.data(), bytes.size());
  packet->length = static_cast<uint32_t>(bytes.size());
  packet->piece_count = 1;
  packet->pieces[0] = {.region = kRegion, .length = 100};
  return pair.link.queue(0, 0).tx_burst({&packet, 1}) == 1;
}

TEST(SimLink, ADeviceThatIsTakenAwayKeepsWhatItHasUntilItsDriverIsClosed) {
  const std::vector<uint8_t> memory(4096);
  Pair pair({.tx_release = TxRelease::kOnReclaim});
  ASSERT_TRUE(pair.memories[0][0]->add_region(kRegion, {.base = memory.data(), .bytes = 4096}));
  PacketIo& queue = pair.link.queue(0, 0);
  pair.link.take_away(0, 2);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(send_piece(pair));
  EXPECT_FALSE(queue.is_link_up());
  EXPECT_TRUE(pair.link.queue(1, 0).is_link_up());
  pair.link.advance(micros(1));
  EXPECT_EQ(pair.receive().size(), 2u);
  queue.reclaim();
  EXPECT_EQ(queue.tx_held(), 5u);
  EXPECT_EQ(pair.memories[0][0]->region_holds(kRegion), 5u);
  pair.link.close_driver(0);
  EXPECT_EQ(queue.tx_held(), 0u);
  EXPECT_EQ(pair.memories[0][0]->region_holds(kRegion), 0u);
  ASSERT_TRUE(send_piece(pair));
  EXPECT_EQ(queue.counters().tx_dropped, 1u);
  pair.link.bring_back(0);
  ASSERT_TRUE(send_piece(pair));
  pair.link.advance(micros(2));
  EXPECT_EQ(pair.receive().size(), 1u);
}

}  // namespace
}  // namespace lyre::io::sim
