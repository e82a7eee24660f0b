#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/stack/tcp/peer.h"

namespace lyre::tcp {
namespace {

/// So many bytes bring SND.UNA back to ISS, the number of our SYN.
constexpr uint32_t kOnceAround = UINT32_MAX;
constexpr uint32_t kPiece = 1u << 20;

/// Peer::dial(), and once around the sequence space.
class AfterFourGiB : public ::testing::Test {
 protected:
  AfterFourGiB() : peer_(scaled()) {
    peer_.dial();
    while (acked_ < kOnceAround) {
      const uint32_t bytes = std::min(kPiece, kOnceAround - acked_);
      peer_.app_send(bytes);
      for (uint32_t left = bytes; left > 0;) {
        uint32_t sent = 0;
        for (const SegmentOut& segment : peer_.all(1u << 16)) sent += segment.payload_bytes;
        EXPECT_GT(sent, 0u);
        left -= sent;
        acked_ += sent;
        peer_.ack(acked_);
      }
    }
  }
  static ConnectionConfig scaled() {
    ConnectionConfig config = Peer::plain_config();
    config.window_scaling = true;
    return config;
  }

  Peer peer_;
  uint32_t acked_ = 0;
};

TEST_F(AfterFourGiB, DataGoOnWhereTheyWere) {
  peer_.app_send(2);
  const auto segment = peer_.next();
  ASSERT_TRUE(segment.has_value());
  EXPECT_EQ(segment->seq, peer_.our_iss);
  EXPECT_EQ(segment->queue_offset, 0u);
  EXPECT_EQ(segment->payload_bytes, 2u);
  EXPECT_FALSE(segment->flags.has(wire::TcpFlags::kSyn));
  EXPECT_EQ(peer_.ack(acked_ + 2).acked_bytes, 2u);
}

TEST_F(AfterFourGiB, AnAckOfTheSynsNumberCountsAllBytes) {
  peer_.app_send(3000);
  for (uint32_t at = 0; at < 3; ++at) {
    const auto segment = peer_.next();
    ASSERT_TRUE(segment.has_value());
    EXPECT_EQ(segment->queue_offset, at * 1000);
  }
  EXPECT_EQ(peer_.ack(acked_ + 1000).acked_bytes, 1000u);
  EXPECT_EQ(peer_.ack(acked_ + 3000).acked_bytes, 2000u);
}

TEST_F(AfterFourGiB, LostDataAreSentAgainAndNoSyn) {
  peer_.app_send(5000);
  EXPECT_EQ(peer_.all().size(), 5u);
  peer_.wait(millis(1));
  peer_.ack_with_sack(acked_, {{acked_ + 1000, acked_ + 5000}});
  peer_.run_deadline();
  const auto again = peer_.next();
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->seq, peer_.our_iss);
  EXPECT_EQ(again->payload_bytes, 1000u);
  EXPECT_FALSE(again->flags.has(wire::TcpFlags::kSyn));
}

TEST_F(AfterFourGiB, TheFinFollowsTheLastByte) {
  peer_.app_send(1);
  peer_.close();
  const auto last = peer_.next();
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(last->payload_bytes, 1u);
  EXPECT_TRUE(last->flags.has(wire::TcpFlags::kFin));
  EXPECT_EQ(peer_.ack(acked_ + 2).acked_bytes, 1u);
  EXPECT_EQ(peer_.state(), State::kFinWait2);
}

}  // namespace
}  // namespace lyre::tcp
