#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "stack/io/dpdk/memif_segments.h"
#include "tests/io_contract/dpdk_wire.h"
#include "tests/io_contract/frames.h"

namespace lyre::io::contract {
namespace {

constexpr uint32_t kRegion = 3;
constexpr uint32_t kPayloadBytes = 60'000;
constexpr uint32_t kFrameBytes = kHeaderBytes + kPayloadBytes;

std::string memif(int number, const char* role, const std::string& socket) {
  return "net_memif" + std::to_string(2000 + number) + ",role=" + role + ",socket=" + socket;
}

/// Two memif ports in one process.
class SuperPackets : public ::testing::Test {
 protected:
  void SetUp() override {
    const Status able = dpdk::check_memif_super_packets("memif", dpdk::dpdk_version());
    if (!able) GTEST_SKIP() << able.error().text;
  }
  void open(bool left_has, bool right_has, uint32_t rx_slots = 1024) {
    const std::string socket = scratch_folder() + "/super" + std::to_string(++made_) + ".sock";
    auto wire = open_dpdk_wire({.rx_slots = rx_slots},
                               {.device = memif(2 * made_, "server", socket),
                                .is_trusted = true,
                                .has_super_packets = left_has},
                               {.device = memif(2 * made_ + 1, "client", socket),
                                .is_trusted = true,
                                .has_super_packets = right_has});
    ASSERT_TRUE(wire) << wire.error().text;
    wire_ = std::move(*wire);
    client_ = pattern(9, kPayloadBytes);
    for (int end = 0; end < 2; ++end) {
      ASSERT_TRUE(wire_->memory(end).add_region(kRegion, {client_.data(), client_.size()}));
    }
  }
  bool is_linked_after(int moments) {
    PacketBuf* none[1];
    for (int i = 0; i < moments; ++i) {
      if (wire_->io(0).is_link_up() && wire_->io(1).is_link_up()) return true;
      for (int end = 0; end < 2; ++end) wire_->io(end).rx_burst({none, 0});
      wire_->pass_time();
    }
    return false;
  }
  void open_linked(uint32_t rx_slots = 1024) {
    open(true, true, rx_slots);
    if (HasFatalFailure()) return;
    ASSERT_TRUE(is_linked_after(50'000));
  }

  /// One TSO packet from client memory in three pieces. False: the wire has no room.
  bool try_send(int from, uint32_t id) {
    PacketMemory& memory = wire_->memory(from);
    PacketBuf* packet = nullptr;
    if (memory.alloc_tx({&packet, 1}) != 1) return false;
    const std::vector<uint8_t> front = headers(id, kPayloadBytes);
    std::memcpy(packet->push_front(kHeaderBytes), front.data(), front.size());
    packet->pieces[0] = {kRegion, 1, 0};
    packet->pieces[1] = {kRegion, 30'000, 1};
    packet->pieces[2] = {kRegion, kPayloadBytes - 30'001, 30'001};
    packet->piece_count = 3;
    packet->wants_checksums = true;
    packet->l3_bytes = kL3Bytes;
    packet->l4_bytes = kL4Bytes;
    packet->tso_bytes = 1460;
    if (wire_->io(from).tx_burst({&packet, 1}) == 1) return true;
    memory.release({&packet, 1});
    return false;
  }
  PacketBuf* receive(int at) {
    PacketBuf* packet = nullptr;
    for (int i = 0; i < 50'000; ++i) {
      if (wire_->io(at).rx_burst({&packet, 1}) == 1) return packet;
      wire_->io(1 - at).reclaim();  // what found no room in the ring at first
      wire_->pass_time();
    }
    return nullptr;
  }
  /// The bytes of a packet, which is released with those that follow it.
  std::vector<uint8_t> take_bytes(int at, PacketBuf* packet) {
    std::vector<uint8_t> bytes;
    for (uint32_t slot = packet->slot; slot != PacketBuf::kNoSlot;) {
      PacketBuf* part = wire_->memory(at).rx_packet(slot);
      bytes.insert(bytes.end(), part->data, part->data + part->length);
      slot = part->next_slot;
      wire_->memory(at).release({&part, 1});
    }
    return bytes;
  }
  std::vector<uint8_t> frame_of(uint32_t id) const {
    std::vector<uint8_t> bytes = headers(id, kPayloadBytes);
    bytes.insert(bytes.end(), client_.begin(), client_.end());
    return bytes;
  }

  std::vector<uint8_t> client_;
  std::unique_ptr<Wire> wire_;
  static inline int made_ = 0;
};

TEST_F(SuperPackets, CrossTheWireUncutInBothDirections) {
  open_linked();
  for (const int from : {0, 1}) {
    const int to = 1 - from;
    EXPECT_GE(wire_->io(from).capabilities().tso_bytes_max, kPayloadBytes);
    const uint32_t free_before = wire_->memory(to).rx_slots_free();
    ASSERT_TRUE(try_send(from, 40));
    PacketBuf* packet = receive(to);
    ASSERT_NE(packet, nullptr);
    EXPECT_TRUE(packet->is_super_packet());
    EXPECT_EQ(packet->length + packet->rest_bytes, kFrameBytes);
    EXPECT_EQ(packet->rest_slots + 1u, free_before - wire_->memory(to).rx_slots_free());
    EXPECT_EQ(packet->l4_checksum, ChecksumVerdict::kGood);
    EXPECT_EQ(take_bytes(to, packet), frame_of(40));
    EXPECT_EQ(wire_->memory(to).rx_slots_free(), free_before);
    EXPECT_EQ(wire_->io(to).counters().rx_packets, 1u);
    EXPECT_EQ(wire_->io(to).counters().rx_bytes, kFrameBytes);
  }
}

TEST_F(SuperPackets, APacketOfTheMtuIsNone) {
  open_linked();
  PacketBuf* packet = nullptr;
  ASSERT_EQ(wire_->memory(0).alloc_tx({&packet, 1}), 1u);
  const std::vector<uint8_t> sent = frame(7, 200);
  std::memcpy(packet->data, sent.data(), sent.size());
  packet->length = static_cast<uint32_t>(sent.size());
  ASSERT_EQ(wire_->io(0).tx_burst({&packet, 1}), 1u);
  packet = receive(1);
  ASSERT_NE(packet, nullptr);
  EXPECT_FALSE(packet->is_super_packet());
  EXPECT_EQ(packet->next_slot, PacketBuf::kNoSlot);
  EXPECT_EQ(take_bytes(1, packet), sent);
}

// The driver forgets the buffers of a packet for whose rest it finds none.
TEST_F(SuperPackets, AnExhaustedPoolLosesNeitherPacketsNorBuffers) {
  open_linked(/*rx_slots=*/62);
  const uint32_t free_before = wire_->memory(1).rx_slots_free();
  std::vector<PacketBuf*> hoard;
  uint32_t sent = 0;
  for (int idle = 0; idle < 50; ++idle) {
    if (try_send(0, sent)) ++sent;
    PacketBuf* burst[32];
    const size_t got = wire_->io(1).rx_burst(burst);
    hoard.insert(hoard.end(), burst, burst + got);
    if (got > 0) idle = 0;
    wire_->pass_time();
  }
  EXPECT_LT(hoard.size(), sent) << "some must wait";
  for (uint32_t id = 0; id < sent; ++id) {
    PacketBuf* packet = id < hoard.size() ? hoard[id] : receive(1);
    ASSERT_NE(packet, nullptr);
    EXPECT_EQ(take_bytes(1, packet), frame_of(id));
  }
  EXPECT_EQ(wire_->memory(1).rx_slots_free(), free_before);
}

TEST_F(SuperPackets, EndsThatDifferHaveNoLink) {
  open(true, false);
  EXPECT_FALSE(is_linked_after(200));
  open(false, true);
  EXPECT_FALSE(is_linked_after(200));
}

TEST_F(SuperPackets, WhatCannotCarryThemSaysSo) {
  auto dpdk = environment();
  ASSERT_TRUE(dpdk);
  auto memory = (*dpdk)->make_memory(0, {.rx_slots = 256, .tx_packets = 256});
  ASSERT_TRUE(memory);
  PacketMemory* const memories[] = {memory->get()};
  const std::string socket = scratch_folder() + "/none.sock";
  for (const std::string& device :
       {std::string("net_tap901"), memif(999, "server", socket) + ",bsize=2048"}) {
    const auto port = (*dpdk)->open_port(
        {.device = device, .is_trusted = true, .has_super_packets = true}, memories);
    ASSERT_FALSE(port) << device;
    EXPECT_EQ(port.error().text.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace lyre::io::contract
