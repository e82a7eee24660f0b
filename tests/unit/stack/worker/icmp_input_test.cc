#include "stack/worker/icmp_input.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/stack/worker/connected_parts.h"

namespace lyre::worker {
namespace {

class IcmpInputTest : public ConnectedParts {
 protected:
  ~IcmpInputTest() override { memory.release(taken_); }

  static ip::EchoInput echo() {
    static constexpr uint8_t kData[4] = {1, 2, 3, 4};
    ip::EchoInput request{.sender_mac = kPeerMac, .source = kPeer.address, .destination = kOwn};
    request.icmp.type = 8;
    request.icmp.body = kData;
    return request;
  }
  void exhaust_pool() {
    while (io::PacketBuf* packet = memory.alloc_rx()) taken_.push_back(packet);
  }
  /// The session has sent so many bytes, and the next error quotes the first of them.
  ip::IcmpError error_about_sent(uint32_t bytes) {
    EXPECT_TRUE(state.sends.try_append(state.session(conn).sends,
                                       {.region = kContext, .length = bytes, .offset = 0}));
    ++state.contexts[kContext].sends_under_way;
    lifecycle.apply(conn, state.engine.on_app_send(conn, bytes, state.now));
    transmission.transmit();
    const SeqNum first = segment(conn, 0, 0).header.ack;
    return {.tuple = state.engine.tuple(conn), .seq = first};
  }

 private:
  std::vector<io::PacketBuf*> taken_;
};

TEST_F(IcmpInputTest, AnEchoRequestIsAnsweredToWhomItCameFrom) {
  const uint32_t slots_free = memory.rx_slots_free();
  icmp_input.on_echo(0, echo());
  const auto frames = take_frames();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_TRUE(std::equal(kPeerMac.bytes.begin(), kPeerMac.bytes.end(), frames[0].begin()));
  EXPECT_EQ(frames[0][14 + 20], 0u) << "echo reply";
  EXPECT_EQ(frames[0][14 + 20 + 8], 1u);
  EXPECT_EQ(memory.rx_slots_free(), slots_free);
}

TEST_F(IcmpInputTest, WithoutABufferTheEchoIsDroppedAndCounted) {
  exhaust_pool();
  icmp_input.on_echo(0, echo());
  EXPECT_TRUE(take_frames().empty());
  EXPECT_EQ(drops(Drop::kTxNoBuffer), 1u);
}

TEST_F(IcmpInputTest, AnErrorAboutNoConnectionIsCounted) {
  const ip::IcmpError error{.tuple = {{kOwn, 1}, kPeer}};
  EXPECT_EQ(icmp_input.on_error(nullptr, error, Redirect::kNo), PacketFate::kUnused);
  EXPECT_EQ(drops(Drop::kIcmpBadQuote), 1u);
}

TEST_F(IcmpInputTest, AnMtuIsRememberedForThePeerWhenTheQuotedSegmentIsInFlight) {
  peer_mss = 1000;
  conn = connect();
  ip::IcmpError error = error_about_sent(1000);
  error.mtu_bytes = 600;
  EXPECT_EQ(icmp_input.on_error(nullptr, error, Redirect::kNo), PacketFate::kUnused);
  const auto path = state.path_mtus.find(kPeer.address, state.now);
  ASSERT_TRUE(path.has_value());
  EXPECT_EQ(path->mtu_bytes, 600u);
}

TEST_F(IcmpInputTest, AnMtuIsNotBelievedWhenTheQuotedSegmentIsNotInFlight) {
  ip::IcmpError error = error_about_sent(1000);
  error.mtu_bytes = 600;
  error.seq += 1'000'000;
  EXPECT_EQ(icmp_input.on_error(nullptr, error, Redirect::kNo), PacketFate::kUnused);
  EXPECT_FALSE(state.path_mtus.find(kPeer.address, state.now).has_value());
  EXPECT_EQ(drops(Drop::kIcmpBadQuote), 1u);
}

}  // namespace
}  // namespace lyre::worker
