#include "stack/io/dpdk/memif_segments.h"

#include <gtest/gtest.h>
#include <rte_version.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "stack/io/dpdk/device_args.h"
#include "tests/io_contract/dpdk_wire.h"
#include "tests/io_contract/frames.h"

namespace lyre::io::contract {
namespace {

using dpdk::DpdkVersion;

constexpr DpdkVersion kLibrary{RTE_VER_YEAR, RTE_VER_MONTH, RTE_VER_MINOR};
constexpr uint32_t kRegion = 3;
constexpr uint32_t kPayloadBytes = 700;
constexpr uint32_t kRingSlots = 512;  // what the port asks for at MTU 1500
constexpr uint32_t kBurstPackets = 24;

/// What DPDK says of itself; the driver stays the library's.
DpdkVersion played_version = kLibrary;

std::string memif_end(int number, const char* role, const std::string& socket) {
  return "net_memif" + std::to_string(3000 + number) + ",role=" + role + ",socket=" + socket;
}

/// Two memif ports in one process, of a version of DPDK.
class MemifOfVersion : public ::testing::TestWithParam<DpdkVersion> {
 protected:
  void SetUp() override {
    played_version = GetParam();
    const std::string socket = scratch_folder() + "/segments" + std::to_string(++made_) + ".sock";
    auto wire =
        open_dpdk_wire({}, {.device = memif_end(2 * made_, "server", socket), .is_trusted = true},
                       {.device = memif_end(2 * made_ + 1, "client", socket), .is_trusted = true});
    ASSERT_TRUE(wire) << wire.error().text;
    wire_ = std::move(*wire);
    payload_ = pattern(9, kPayloadBytes);
    for (int end = 0; end < 2; ++end) {
      ASSERT_TRUE(wire_->memory(end).add_region(kRegion, {payload_.data(), payload_.size()}));
    }
    ASSERT_TRUE(is_linked());
  }
  void TearDown() override {
    wire_.reset();
    played_version = kLibrary;
  }

  bool is_linked() {
    PacketBuf* none[1];
    for (int i = 0; i < 50'000; ++i) {
      if (wire_->io(0).is_link_up() && wire_->io(1).is_link_up()) return true;
      for (int end = 0; end < 2; ++end) wire_->io(end).rx_burst({none, 0});
      wire_->pass_time();
    }
    return false;
  }
  static bool has_piece(uint32_t id) { return id % 2 == 1; }
  /// An acknowledgement without payload, or headers before a piece of client memory.
  std::vector<uint8_t> bytes_of(uint32_t id) const {
    std::vector<uint8_t> bytes = headers(id, has_piece(id) ? kPayloadBytes : 0);
    if (has_piece(id)) bytes.insert(bytes.end(), payload_.begin(), payload_.end());
    return bytes;
  }
  void describe(PacketBuf& packet, uint32_t id) {
    const std::vector<uint8_t> front = headers(id, has_piece(id) ? kPayloadBytes : 0);
    std::memcpy(packet.push_front(kHeaderBytes), front.data(), front.size());
    packet.wants_checksums = true;
    packet.l3_bytes = kL3Bytes;
    packet.l4_bytes = kL4Bytes;
    if (!has_piece(id)) return;
    packet.pieces[0] = {kRegion, kPayloadBytes, 0};
    packet.piece_count = 1;
  }
  void send_burst(int from, uint32_t first_id) {
    PacketBuf* packets[kBurstPackets];
    ASSERT_EQ(wire_->memory(from).alloc_tx(packets), kBurstPackets);
    for (uint32_t i = 0; i < kBurstPackets; ++i) describe(*packets[i], first_id + i);
    ASSERT_EQ(wire_->io(from).tx_burst(packets), kBurstPackets);
  }
  void expect_burst(int at, uint32_t first_id) {
    PacketBuf* packet = nullptr;
    for (uint32_t id = first_id; id < first_id + kBurstPackets; ++id) {
      size_t got = 0;
      for (int i = 0; got == 0 && i < 1000; ++i) {
        got = wire_->io(at).rx_burst({&packet, 1});
        if (got > 0) break;
        // The driver took nothing before the receiver's first call, which gives it slots.
        wire_->io(1 - at).tx_burst({});
        wire_->pass_time();
      }
      ASSERT_EQ(got, 1u) << "packet " << id;
      const std::vector<uint8_t> bytes(packet->data, packet->data + packet->length);
      wire_->memory(at).release({&packet, 1});
      ASSERT_EQ(bytes, bytes_of(id)) << "packet " << id;
    }
  }

  std::vector<uint8_t> payload_;
  std::unique_ptr<Wire> wire_;
  static inline int made_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Versions, MemifOfVersion,
                         ::testing::Values(kLibrary, DpdkVersion{23, 11, 0}, DpdkVersion{24, 11, 4},
                                           DpdkVersion{24, 11, 8}),
                         [](const auto& instance) {
                           const DpdkVersion& version = instance.param;
                           return std::to_string(instance.index) + "_" +
                                  std::to_string(version.year) + "_" +
                                  std::to_string(version.month) + "_" +
                                  std::to_string(version.patch);
                         });

// From DPDK 23.03 on, after a turn of the ring, packets ended in slots whose flag NEXT was set: the
// receiver merged them with the next ones.
TEST_P(MemifOfVersion, PacketsWithAndWithoutAPieceArriveWholeAndInOrder) {
  for (const int from : {0, 1}) {
    for (uint32_t id = 0; id < 3 * kRingSlots; id += kBurstPackets) {
      ASSERT_NO_FATAL_FAILURE(send_burst(from, id));
      ASSERT_NO_FATAL_FAILURE(expect_burst(1 - from, id));
    }
    const bool gathers = dpdk::gathers_on_memif(GetParam(), false);
    EXPECT_EQ(wire_->io(from).counters().tx_linearised_bytes > 0, !gathers);
    EXPECT_EQ(wire_->io(1 - from).counters().rx_linearised_bytes, 0u);
    EXPECT_EQ(wire_->io(from).counters().tx_dropped, 0u);
  }
}

TEST_P(MemifOfVersion, SuperPacketsAreRefusedWhereTheyWouldBeMerged) {
  const bool is_refused = dpdk::memif_segments(GetParam()) == dpdk::MemifSegments::kMerged;
  const std::string device = memif_end(999, "server", scratch_folder() + "/super.sock");
  EXPECT_NE(dpdk::check_virtual_device(device, {.has_super_packets = true}).ok(), is_refused);
  EXPECT_TRUE(dpdk::check_virtual_device(device, {}));
  auto dpdk = environment();
  ASSERT_TRUE(dpdk);
  auto memory = (*dpdk)->make_memory(0, {.rx_slots = 256, .tx_packets = 256});
  ASSERT_TRUE(memory);
  PacketMemory* const memories[] = {memory->get()};
  const auto port = (*dpdk)->open_port(
      {.device = device, .is_trusted = true, .has_super_packets = true}, memories);
  EXPECT_NE(port.ok(), is_refused);
}

TEST_P(MemifOfVersion, APortThatCopiesSaysSo) {
  auto dpdk = environment();
  ASSERT_TRUE(dpdk);
  auto memory = (*dpdk)->make_memory(0, {.rx_slots = 256, .tx_packets = 256});
  ASSERT_TRUE(memory);
  PacketMemory* const memories[] = {memory->get()};
  auto port = (*dpdk)->open_port(
      {.device = memif_end(998, "server", scratch_folder() + "/remark.sock")}, memories);
  ASSERT_TRUE(port) << port.error().text;
  EXPECT_EQ((*port)->info().remark, dpdk::memif_remark(GetParam(), false));
}

}  // namespace
}  // namespace lyre::io::contract

// DPDK's functions, in front of which this program has some of the same name.
using lyre::io::contract::played_version;
extern "C" {
unsigned int rte_version_year(void) { return played_version.year; }
unsigned int rte_version_month(void) { return played_version.month; }
unsigned int rte_version_minor(void) { return played_version.patch; }
}
