#include <gtest/gtest.h>

#include "stack/io/sim/queue.h"
#include "tests/support/two_workers.h"

// Segments that arrive together reach the engine together, sends larger than a segment are cut on
// the way out, and neither shows in what the application sees.
namespace lyre::test {
namespace {

constexpr uint32_t kBytes = 600'000;

/// Of b; the first SYN reaches a listener.
uint64_t segments_that_reached_connections(TwoWorkers& hosts) {
  return hosts.b.stats().tcp_segments_in.get() + 1;
}

struct Case {
  const char* name;
  io::sim::LinkOptions link;
  uint32_t block_bytes;
  uint32_t segment_bytes = UINT32_MAX;
};

/// A port that cuts, with a driver's limits on the segments of a packet and of each cut.
io::sim::LinkOptions cutting(uint32_t tso_segments_max, uint32_t cut_segments_max,
                             uint32_t mtu_bytes = 1500) {
  return {.mtu_bytes = mtu_bytes,
          .checksums = io::sim::Checksums::kHardware,
          .tso_bytes_max = 65'000,
          .tso_segments_max = tso_segments_max,
          .cut_segments_max = cut_segments_max};
}

/// A port that neither cuts nor needs cuts.
io::sim::LinkOptions super_wire(const io::sim::Faults& faults = {}) {
  return {.seed = 6,
          .delay = micros(50),
          .faults = faults,
          .checksums = io::sim::Checksums::kTrusted,
          .tso_bytes_max = 65'000,
          .has_super_packets = true};
}

class Cuts : public testing::TestWithParam<Case> {};

TEST_P(Cuts, BytesArriveAndEverySlotComesBack) {
  const HostOptions host{.segment_bytes = GetParam().segment_bytes};
  TwoWorkers hosts(GetParam().link, host, host);
  const uint32_t free_before = hosts.b.memory().rx_slots_free();
  hosts.app_b->receive_seed = 5;
  ASSERT_TRUE(hosts.connect());
  hosts.app_a->send_pattern(hosts.app_a->only().name, 5, kBytes, GetParam().block_bytes);
  const uint64_t sends = (kBytes + GetParam().block_bytes - 1) / GetParam().block_bytes;
  EXPECT_TRUE(hosts.run_until([&] { return hosts.app_a->only().sends_done == sends; }));
  EXPECT_EQ(hosts.app_b->only().received, kBytes);
  EXPECT_TRUE(hosts.app_b->only().is_equal);
  EXPECT_TRUE(
      hosts.run_until([&] { return hosts.b.memory().rx_slots_free() == free_before; }, seconds(1)));
}

INSTANTIATE_TEST_SUITE_P(
    Wires, Cuts,
    testing::Values(
        Case{"plain", {}, 60'000}, Case{"odd_blocks", {}, 9'973},
        Case{"trusted", {.checksums = io::sim::Checksums::kTrusted}, 60'000},
        Case{"cutting_port",
             {.checksums = io::sim::Checksums::kHardware, .tso_bytes_max = 60'000},
             60'000},
        Case{"cutting_port_and_too_many_pieces",
             {.checksums = io::sim::Checksums::kHardware, .tso_bytes_max = 60'000},
             4'000},
        // Pages without an IOMMU are segments of 4 KiB. ENA 24.11 refuses nb_segs >= 17, vmxnet3
        // more than 24 for TSO, i40e and gve take 8 and 9 for each packet that they cut.
        Case{"ena", cutting(16, 16), 60'000, 4096}, Case{"vmxnet3", cutting(24, 16), 9'999, 4096},
        Case{"i40e", cutting(255, 8, 9000), 2'400, 4096},
        Case{"gve", cutting(255, 9, 8896), 60'000, 1024},
        Case{"memory_that_the_port_cannot_read", cutting(255, 255), 60'000, 0},
        Case{"one_piece_a_packet", {.tx_pieces_max = 1}, 7'001},
        Case{"large_packets", {.mtu_bytes = 9000}, 60'000},
        Case{"super_packets", super_wire(), 60'000},
        Case{"super_packets_and_too_many_pieces", super_wire(), 4'000},
        Case{"super_packets_lossy", super_wire({.loss_ppm = 50'000}), 60'000},
        Case{"super_packets_reordering", super_wire({.reorder_ppm = 100'000}), 60'000},
        Case{"super_packets_doubling", super_wire({.duplicate_ppm = 100'000}), 60'000},
        Case{"lossy", {.seed = 3, .delay = micros(50), .faults = {.loss_ppm = 20'000}}, 20'000},
        Case{"reordering",
             {.seed = 4, .delay = micros(50), .faults = {.reorder_ppm = 100'000}},
             20'000},
        Case{"doubling",
             {.seed = 5, .delay = micros(50), .faults = {.duplicate_ppm = 100'000}},
             20'000}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST(Merge, OneAckAnswersABurstAndEverySegmentIsCounted) {
  TwoWorkers hosts;
  ASSERT_TRUE(hosts.connect());
  const uint64_t acks_before = hosts.b.stats().tcp_segments_out.get();
  hosts.app_a->send_pattern(hosts.app_a->only().name, 0, kBytes, 60'000);
  ASSERT_TRUE(hosts.run_until([&] { return hosts.app_b->only().received == kBytes; }));
  hosts.run_for(millis(100));
  EXPECT_EQ(segments_that_reached_connections(hosts), hosts.a.stats().tcp_segments_out.get());
  const uint64_t acks = hosts.b.stats().tcp_segments_out.get() - acks_before;
  EXPECT_GE(hosts.a.stats().tcp_segments_out.get(), kBytes / 1460);
  EXPECT_LT(acks, kBytes / 1460 / 4) << "every second segment would be twice that";
}

TEST(Merge, APortThatCutsIsGivenLargePackets) {
  TwoWorkers hosts({.checksums = io::sim::Checksums::kHardware, .tso_bytes_max = 60'000});
  hosts.app_b->receive_seed = 5;
  ASSERT_TRUE(hosts.connect());
  hosts.app_a->send_pattern(hosts.app_a->only().name, 5, kBytes, 60'000);
  ASSERT_TRUE(hosts.run_until([&] { return hosts.app_b->only().received == kBytes; }));
  hosts.run_for(millis(100));
  EXPECT_TRUE(hosts.app_b->only().is_equal);
  EXPECT_EQ(hosts.a.stats().copied_tx_bytes.get(), 0u);
  const uint64_t segments = hosts.a.stats().tcp_segments_out.get();
  EXPECT_EQ(segments_that_reached_connections(hosts), segments);
  const auto& port = static_cast<const io::sim::Queue&>(hosts.link.queue(0, 0));
  EXPECT_LT(port.taken(), segments / 4) << "the port, not the worker, cuts";
  EXPECT_EQ(hosts.a.stats().tx_packets.get(), hosts.b.stats().rx_packets.get());
  EXPECT_EQ(hosts.a.stats().tx_bytes.get(), hosts.b.stats().rx_bytes.get());
}

TEST(Merge, ASuperPacketIsOneSegmentForTheEngine) {
  TwoWorkers hosts(super_wire());
  hosts.app_b->receive_seed = 5;
  ASSERT_TRUE(hosts.connect());
  const uint64_t acks_before = hosts.b.stats().tcp_segments_out.get();
  hosts.app_a->send_pattern(hosts.app_a->only().name, 5, kBytes, 60'000);
  ASSERT_TRUE(hosts.run_until([&] { return hosts.app_b->only().received == kBytes; }));
  hosts.run_for(millis(100));
  EXPECT_TRUE(hosts.app_b->only().is_equal);
  EXPECT_EQ(hosts.b.stats().copied_rx_bytes.get(), 0u);
  EXPECT_LT(hosts.b.stats().rx_packets.get(), kBytes / 1460 / 4) << "the wire carries them uncut";
  EXPECT_LT(hosts.b.stats().tcp_segments_out.get() - acks_before, kBytes / 1460 / 4);
}

TEST(Merge, NothingOnTheWayIsCopied) {
  TwoWorkers hosts({.checksums = io::sim::Checksums::kHardware});
  ASSERT_TRUE(hosts.connect());
  hosts.app_a->send_pattern(hosts.app_a->only().name, 0, kBytes, 60'000);
  ASSERT_TRUE(hosts.run_until([&] { return hosts.app_b->only().received == kBytes; }));
  hosts.run_for(millis(200));
  for (WorkerHost* host : {&hosts.a, &hosts.b}) {
    EXPECT_EQ(host->stats().copied_tx_bytes.get(), 0u);
    EXPECT_EQ(host->stats().copied_rx_bytes.get(), 0u);
    EXPECT_EQ(host->stats().tx_linearised_bytes.get(), 0u);
    EXPECT_EQ(host->stats().software_checksums.get(), 0u);
  }
}

}  // namespace
}  // namespace lyre::test
