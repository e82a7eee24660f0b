#include <netinet/in.h>

#include <algorithm>
#include <vector>

#include "tests/conformance/scenario.h"

namespace lyre::conformance {
namespace {

constexpr uint16_t kFull = 2000;        ///< payload of a segment at the start
constexpr uint16_t kSmallMtu = 1300;    ///< what routers report
constexpr uint16_t kIpv6MtuMin = 1280;  ///< RFC 8200 5

/// A path whose link carries segments of kFull bytes.
class OverPath : public OverBoth {
 protected:
  bool is_v4() const { return GetParam() == Family::kIpv4; }
  /// Payload of a packet of kSmallMtu.
  uint32_t small() const { return kSmallMtu - (is_v4() ? 40u : 60u); }
  /// RFC 1122 3.3.3, RFC 8200 5: the payload that every path carries.
  uint32_t everywhere() const { return is_v4() ? 536 : kIpv6MtuMin - 60u; }
  /// The next larger size that the search tries (path_mtu.cc).
  uint32_t next_size() const { return is_v4() ? 1240 : 1340; }

  static StackOptions wide() {
    StackOptions options = Scenario::plain();
    options.mtu_bytes = kFull + 40;
    options.connection.slot_bytes = kFull;
    return options;
  }
  /// Without SACK no tail loss probe is sent between the retransmissions.
  static StackOptions without_sack() {
    StackOptions options = wide();
    options.connection.sack = false;
    return options;
  }
  /// Sends `bytes` that are never acknowledged.
  static void start(Scenario& s, size_t bytes) {
    s.establish_passive(Scenario::offered(kFull));
    s.write(bytes);
    s.all();
  }
  /// The path carries segments of up to `most` bytes; what arrives in order is acknowledged, until
  /// `bytes` are there. What was sent before is lost, but for the first `next` - 1 bytes.
  static void transfer(Scenario& s, uint32_t bytes, uint32_t most, uint32_t next = 1) {
    const auto arrive = [&](const Seg& segment) {
      if (segment.seq != next || segment.bytes > most) return;
      next += segment.bytes;
      s.send({.flags = kAck, .seq = 1, .ack = next});
    };
    while (next < 1 + bytes) {
      const std::vector<Seg> sent = s.all();
      if (sent.empty()) arrive(s.expect_later(kAck));
      for (const Seg& segment : sent) arrive(segment);
      ASSERT_LT(s.info().timeouts, 20u);
    }
  }
};

using PathMtu = OverPath;
INSTANTIATE_OVER_BOTH(PathMtu);

TEST_P(PathMtu, IcmpShrinksSegmentsAndResendsAtOnce) {  // RFC 1191 6.3, RFC 8201 5.4
  Scenario s(wide(), GetParam());
  start(s, kFull);
  s.send_icmp(IcmpSays::kTooBig, 1, kSmallMtu);
  const auto resent = s.all();
  ASSERT_EQ(resent.size(), 2u);
  EXPECT_EQ(resent[0].bytes, small());
  EXPECT_EQ(resent[1].bytes, kFull - small());
}

TEST_P(PathMtu, AbsurdOnesAreNotBelieved) {  // RFC 5927 7.2, RFC 791 3.2, RFC 8201 4
  std::vector<uint16_t> absurd = {1, 67, kFull + 60, 65535};
  if (!is_v4()) absurd.push_back(kIpv6MtuMin - 1);
  for (const uint16_t mtu : absurd) {
    Scenario s(wide(), GetParam());
    start(s, kFull);
    s.send_icmp(IcmpSays::kTooBig, 1, mtu);
    EXPECT_EQ(s.info().mss_bytes, kFull) << mtu;
    s.expect_silence();
  }
}

using BlackHole = OverPath;
INSTANTIATE_OVER_BOTH(BlackHole);

TEST_P(BlackHole, LostAgainAndAgainIsTriedSmaller) {  // RFC 4821 7.7, RFC 8899 4.3
  Scenario s(without_sack(), GetParam());
  start(s, 3 * kFull);
  EXPECT_EQ(s.expect_later(kAck).bytes, kFull);
  EXPECT_EQ(s.expect_later(kAck).bytes, kFull);
  EXPECT_EQ(s.expect_later(kAck).bytes, everywhere());
}

TEST_P(BlackHole, SmallSegmentsAreKeptWhereLargeOnesAreLostTwiceMore) {
  Scenario s(without_sack(), GetParam());
  start(s, 3 * kFull);
  transfer(s, 3 * kFull, everywhere());
  EXPECT_EQ(s.info().timeouts, 5u);
  EXPECT_EQ(s.info().mss_bytes, everywhere());
}

/// The peer, or the path, was away for a moment: the small segment arrives because it came last.
TEST_P(BlackHole, PauseDoesNotShrinkSegments) {
  Scenario s(without_sack(), GetParam());
  start(s, 6 * kFull);
  for (int i = 0; i < 2; ++i) s.expect_later(kAck);
  transfer(s, 6 * kFull, kFull);
  EXPECT_EQ(s.info().timeouts, 3u);
  EXPECT_EQ(s.info().mss_bytes, kFull);
  // It was no black hole, so the next one is suspected as late as the first.
  s.write(kFull);
  s.all();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(s.expect_later(kAck).bytes, kFull);
}

// A single loss after it was taken for the proof of a black hole.
TEST_P(BlackHole, OneLossAfterAPauseDoesNotShrinkSegments) {
  Scenario s(without_sack(), GetParam());
  start(s, 6 * kFull);
  for (int i = 0; i < 3; ++i) s.expect_later(kAck);
  s.send({.flags = kAck, .seq = 1, .ack = 1 + everywhere()});
  s.all();  // lost
  s.expect_later(kAck);
  EXPECT_EQ(s.info().timeouts, 4u);
  EXPECT_EQ(s.info().mss_bytes, kFull);
  s.send({.flags = kAck, .seq = 1, .ack = 1 + 6 * kFull});
  EXPECT_EQ(s.info().mss_bytes, kFull);
}

/// The peer was away, and had received everything before.
TEST_P(BlackHole, AcksOfMoreThanTheSmallSegmentAreOfLargeOnes) {
  Scenario s(without_sack(), GetParam());
  start(s, 3 * kFull);
  for (int i = 0; i < 3; ++i) s.expect_later(kAck);
  EXPECT_EQ(s.info().mss_bytes, everywhere());
  s.send({.flags = kAck, .seq = 1, .ack = 1 + 3 * kFull});
  EXPECT_EQ(s.info().mss_bytes, kFull);
  s.write(kFull);
  s.all();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(s.expect_later(kAck).bytes, kFull);
}

/// Messages between the two sizes are no test of the full one, and stay suspected.
TEST_P(BlackHole, OnlyFullSegmentsProveThePath) {
  Scenario s(without_sack(), GetParam());
  start(s, everywhere() + 100);
  for (int i = 0; i < 3; ++i) s.expect_later(kAck);
  s.send({.flags = kAck, .seq = 1, .ack = 1 + everywhere()});
  EXPECT_EQ(s.all().front().bytes, 100u);
  s.send({.flags = kAck, .seq = 1, .ack = 1 + everywhere() + 100});
  s.write(everywhere() + 100);
  EXPECT_EQ(s.all().front().bytes, everywhere() + 100);
  EXPECT_EQ(s.expect_later(kAck).bytes, everywhere() + 100);
  EXPECT_EQ(s.expect_later(kAck).bytes, everywhere());
}

// A test that no full segment concluded never ended.
TEST_P(BlackHole, SuspicionEndsAfterTenMinutes) {
  Scenario s(without_sack(), GetParam());
  start(s, everywhere() + 100);
  for (int i = 0; i < 3; ++i) s.expect_later(kAck);
  s.send({.flags = kAck, .seq = 1, .ack = 1 + everywhere()});
  s.all();
  s.send({.flags = kAck, .seq = 1, .ack = 1 + everywhere() + 100});
  s.wait(seconds(601));
  s.write(everywhere() + 100);
  s.all();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(s.expect_later(kAck).bytes, everywhere() + 100);
  EXPECT_EQ(s.expect_later(kAck).bytes, everywhere());
}

/// A path that was found to drop large segments, ten minutes later.
class OldBlackHole : public OverPath {
 protected:
  static constexpr uint32_t kBefore = 20 * kFull;  ///< sent until it was found, and then
  static constexpr uint32_t kAfter = 10 * kFull;

  /// What is sent then at first.
  std::vector<Seg> first_flight(Scenario& s) const {
    start(s, kBefore);
    transfer(s, kBefore, everywhere());
    EXPECT_EQ(s.info().mss_bytes, everywhere());
    s.wait(seconds(601));
    s.write(kAfter);
    return s.all();
  }
};
INSTANTIATE_OVER_BOTH(OldBlackHole);

// All segments were large, and it took three timeouts more to find the black hole again.
TEST_P(OldBlackHole, IsTestedWithOneSegment) {  // RFC 4821 7.5, RFC 8899 5.3
  Scenario s(without_sack(), GetParam());
  const std::vector<Seg> flight = first_flight(s);
  const uint32_t timeouts = s.info().timeouts;
  ASSERT_GT(flight.size(), 1u);
  EXPECT_EQ(flight[0].bytes, next_size());
  for (size_t i = 1; i < flight.size(); ++i) EXPECT_LE(flight[i].bytes, everywhere());
  EXPECT_EQ(s.expect_later(kAck).bytes, everywhere());
  EXPECT_EQ(s.info().timeouts, timeouts + 1);
  transfer(s, kBefore + kAfter, everywhere(), 1 + kBefore);
  EXPECT_EQ(s.info().mss_bytes, everywhere());
}

TEST_P(OldBlackHole, TheTestCostsNoTimeoutWithSack) {
  Scenario s(wide(), GetParam());
  const std::vector<Seg> flight = first_flight(s);
  const uint32_t timeouts = s.info().timeouts;
  ASSERT_GT(flight.size(), 4u);
  EXPECT_EQ(flight[0].bytes, next_size());
  const uint32_t lost = flight[0].seq;
  s.send({.flags = kAck, .seq = 1, .ack = lost, .options = sack({{flight[1].seq, flight[4].seq}})});
  std::vector<Seg> sent = s.all();
  while (std::none_of(sent.begin(), sent.end(), [&](const Seg& one) { return one.seq == lost; })) {
    sent.push_back(s.expect_later(kAck));
    ASSERT_EQ(s.info().timeouts, timeouts);
  }
  for (const Seg& one : sent) EXPECT_LE(one.bytes, everywhere());
  EXPECT_EQ(s.info().mss_bytes, everywhere());
}

TEST_P(OldBlackHole, LargerSegmentsAreSentWhenTheTestArrives) {  // RFC 4821 7.3
  Scenario s(without_sack(), GetParam());
  const std::vector<Seg> flight = first_flight(s);
  EXPECT_EQ(flight[0].bytes, next_size());
  s.send({.flags = kAck, .seq = 1, .ack = 1 + kBefore + next_size()});
  EXPECT_EQ(s.info().mss_bytes, next_size());
}

TEST_P(BlackHole, OutageDoesNotShrinkSegmentsForGood) {  // the small one was lost as well
  Scenario s(without_sack(), GetParam());
  start(s, 3 * kFull);
  for (int i = 0; i < 3; ++i) s.expect_later(kAck);
  EXPECT_EQ(s.info().mss_bytes, everywhere());
  s.expect_later(kAck);
  EXPECT_EQ(s.info().mss_bytes, kFull);
}

TEST_P(BlackHole, SmallSegmentsAreNotSuspected) {
  Scenario s(without_sack(), GetParam());
  start(s, 500);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(s.expect_later(kAck).bytes, 500u);
  EXPECT_EQ(s.info().mss_bytes, kFull);
}

TEST_P(BlackHole, OptionsMakeASegmentTooBig) {  // RFC 9293 3.7.1
  StackOptions options = without_sack();
  options.connection.timestamps = true;
  Scenario s(options, GetParam());
  s.establish_passive(stamp(1, 0, Scenario::offered(kFull)));
  s.write(everywhere() - 5);
  s.all();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(s.expect_later(kAck).bytes, everywhere() - 5);
  EXPECT_EQ(s.expect_later(kAck).bytes, everywhere() - 12);
}

TEST_P(PathMtu, LargerOnesAreTriedAgainAfterTenMinutes) {  // RFC 1191 6.3, RFC 8201 4
  Scenario s(wide(), GetParam());
  start(s, kFull);
  s.send_icmp(IcmpSays::kTooBig, 1, kSmallMtu);
  s.all();
  s.send({.flags = kAck, .seq = 1, .ack = 1 + kFull});
  EXPECT_EQ(s.info().mss_bytes, small());
  s.wait(seconds(601));
  s.write(100 * kFull);
  transfer(s, 101 * kFull, kFull, 1 + kFull);
  EXPECT_EQ(s.info().mss_bytes, kFull);
  EXPECT_EQ(s.info().timeouts, 0u);
}

}  // namespace
}  // namespace lyre::conformance
