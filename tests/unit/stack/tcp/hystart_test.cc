#include <gtest/gtest.h>

#include "stack/tcp/congestion.h"

namespace lyre::tcp {
namespace {

constexpr uint32_t kSegmentBytes = 1000;

/// The initial slow start of one connection, one round of ACKs at a time.
class Hystart : public testing::Test {
 protected:
  Hystart() {
    congestion_start(cc, CongestionAlgorithm::kCubic, kSegmentBytes);
    congestion_start_data(cc, una);
    nxt = una + cc.cwnd_bytes;
  }
  /// A window of ACKs, each with an RTT of `rtt`.
  void round(Nanos rtt) {
    const SeqNum end = nxt;
    while (una.before(end)) ack(kSegmentBytes, rtt, true);
    now += rtt;
  }
  void ack(uint32_t bytes, Nanos rtt, bool is_cwnd_limited) {
    una += bytes;
    congestion_on_ack(cc,
                      {.delivered_bytes = bytes,
                       .is_cwnd_limited = is_cwnd_limited,
                       .srtt = rtt,
                       .rtt = rtt,
                       .una = una,
                       .nxt = nxt},
                      now);
    nxt = una + cc.cwnd_bytes;
  }
  bool is_over() const { return cc.ssthresh_bytes != kSsthreshUnset; }

  Congestion cc;
  SeqNum una{1000};
  SeqNum nxt;
  Nanos now = seconds(1);
};

TEST_F(Hystart, SteadyRoundTripsDoubleTheWindow) {
  for (int i = 0; i < 5; ++i) round(millis(20));
  EXPECT_EQ(cc.cwnd_bytes, 320 * kSegmentBytes);
  EXPECT_FALSE(is_over());
}

TEST_F(Hystart, LongerRoundTripsSlowItDownAndThenEndIt) {  // RFC 9406 4.2
  for (int i = 0; i < 3; ++i) round(millis(20));
  const uint32_t before = cc.cwnd_bytes;
  round(millis(30));
  EXPECT_LT(cc.cwnd_bytes, 2 * before);
  EXPECT_FALSE(is_over());
  int rounds = 0;
  while (!is_over() && rounds < 20) round(millis(30)), ++rounds;
  EXPECT_LE(rounds, 5);
  EXPECT_LT(cc.cwnd_bytes, 5 * before);  // five rounds by a quarter, not by doubling
}

// The end of the round was ahead again, so no round ended until 2 GiB more were acknowledged.
TEST_F(Hystart, WorksAfterTwoGibibytesThatDidNotFillTheWindow) {
  for (int i = 0; i < 3; ++i) round(millis(20));
  for (const uint32_t bytes : {1u << 30, 1u << 30, 1u << 20}) ack(bytes, millis(20), false);
  round(millis(20));
  int rounds = 0;
  while (!is_over() && rounds < 7) round(millis(30)), ++rounds;
  EXPECT_LE(rounds, 6);
}

TEST_F(Hystart, JitterIsForgiven) {  // RFC 9406 4.2: back to slow start
  for (int i = 0; i < 3; ++i) round(millis(20));
  round(millis(30));
  round(millis(20));
  const uint32_t before = cc.cwnd_bytes;
  round(millis(20));
  EXPECT_EQ(cc.cwnd_bytes, 2 * before);
  for (int i = 0; i < 5; ++i) round(millis(20));
  EXPECT_FALSE(is_over());
}

TEST_F(Hystart, LessThanFourMillisecondsMoreIsNoSign) {  // RFC 9406 4.3
  for (int i = 0; i < 3; ++i) round(micros(100));
  const uint32_t before = cc.cwnd_bytes;
  round(micros(3500));
  EXPECT_EQ(cc.cwnd_bytes, 2 * before);
}

TEST_F(Hystart, LaterSlowStartsAreOrdinary) {  // RFC 9406 4.2
  round(millis(20));
  congestion_on_timeout(cc, cc.cwnd_bytes, true);
  cc.ssthresh_bytes = 1000 * kSegmentBytes;
  nxt = una + cc.cwnd_bytes;
  const uint32_t before = cc.cwnd_bytes;
  for (int i = 0; i < 4; ++i) round(millis(20 + 20 * i));
  EXPECT_EQ(cc.cwnd_bytes, 16 * before);
}

}  // namespace
}  // namespace lyre::tcp
