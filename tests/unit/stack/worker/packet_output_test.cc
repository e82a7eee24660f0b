#include "stack/worker/packet_output.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/stack/worker/worker_parts.h"

namespace lyre::worker {
namespace {

class PacketOutputTest : public WorkerParts {
 protected:
  FourTuple to(const IpAddress& address) const { return {{kOwn, 1000}, {address, 80}}; }
  const tcp::SegmentOut reset_{.flags = {wire::TcpFlags::kRst}};
};

TEST_F(PacketOutputTest, WhatIsPutBackIsGivenAgain) {
  io::PacketBuf* packet = output.alloc();
  ASSERT_NE(packet, nullptr);
  const size_t ready = output.ready();
  output.put_back(packet);
  EXPECT_EQ(output.ready(), ready + 1);
}

TEST_F(PacketOutputTest, GivesEveryBufferOfTheMemoryAndThenNone) {
  std::vector<io::PacketBuf*> all;
  while (io::PacketBuf* packet = output.alloc()) all.push_back(packet);
  EXPECT_EQ(memory.tx_slots_free(), 0u);
  EXPECT_EQ(output.ready(), 0u);
  memory.release(all);
  EXPECT_GT(output.ready(), 0u);
}

TEST_F(PacketOutputTest, ASegmentToNowhereIsCounted) {
  output.send_alone(to(IpAddress::v4(0xc0000201)), reset_);
  EXPECT_EQ(drops(Drop::kTxNoRoute), 1u);
  EXPECT_TRUE(take_frames().empty());
}

TEST_F(PacketOutputTest, ASegmentAloneDoesNotWaitForItsNeighbour) {
  output.send_alone(to(kPeer.address), reset_);
  EXPECT_EQ(drops(Drop::kTxUnresolved), 1u);
  learn_peer();
  output.send_alone(to(kPeer.address), reset_);
  const auto frames = take_frames();
  ASSERT_FALSE(frames.empty());
  EXPECT_TRUE(std::equal(kPeerMac.bytes.begin(), kPeerMac.bytes.end(), frames.back().begin()));
  EXPECT_EQ(stats.tcp_resets_out.get(), 1u);
}

TEST_F(PacketOutputTest, AMacThatIsKnownNeedsNoNeighbour) {
  output.send_alone(to(kPeer.address), reset_, kPeerMac);
  EXPECT_EQ(take_frames().size(), 1u);
  EXPECT_EQ(drops(Drop::kTxUnresolved), 0u);
}

TEST_F(PacketOutputTest, ASegmentToThisHostComesBackWithoutThePort) {
  output.send_alone(to(kOwn), reset_);
  EXPECT_TRUE(output.has_local());
  EXPECT_TRUE(take_frames().empty());
  const auto local = output.take_local();
  ASSERT_EQ(local.size(), 1u);
  EXPECT_FALSE(output.has_local());
  EXPECT_EQ(stats.loopback_packets.get(), 1u);
  EXPECT_FALSE(local[0]->wants_checksums);
  memory.release(local);
}

TEST_F(PacketOutputTest, CountsTheSegmentsThatAPortWillCut) {
  output.count({.payload_bytes = 2'500, .mss_bytes = 1'000});
  output.count({.payload_bytes = 10, .mss_bytes = 1'000, .is_retransmission = true});
  EXPECT_EQ(stats.tcp_segments_out.get(), 4u);
  EXPECT_EQ(stats.tcp_payload_out.get(), 2'500u);
  EXPECT_EQ(stats.tcp_payload_retransmitted.get(), 10u);
}

class FullWire : public WorkerParts {
 protected:
  FullWire() : WorkerParts({.frames_max = 1}) {}
};

TEST_F(FullWire, WhatThePortHasNoRoomForIsDroppedAndItsBufferIsFree) {
  const tcp::SegmentOut reset{.flags = {wire::TcpFlags::kRst}};
  for (int i = 0; i < 1000; ++i) output.send_alone({{kOwn, 1000}, kPeer}, reset, kPeerMac);
  EXPECT_GT(drops(Drop::kTxNoBuffer), 0u);
  const size_t in_stock = output.ready();
  EXPECT_EQ(memory.tx_slots_free() + in_stock + state.ports[0].waiting().size(), 256u);
}

}  // namespace
}  // namespace lyre::worker
