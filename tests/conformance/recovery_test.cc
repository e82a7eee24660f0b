#include <netinet/in.h>

#include "tests/conformance/scenario.h"

/// Transmissions when ACKs are missing, late, or report gaps. Segments have 1000 bytes, the initial
/// window has ten of them, and the round-trip time is 10 ms.
namespace lyre::conformance {
namespace {

constexpr Nanos kRtt = millis(10);

/// NewReno halves its window on a loss, which keeps the numbers round.
StackOptions newreno(StackOptions options = Scenario::plain()) {
  options.connection.congestion = tcp::CongestionAlgorithm::kNewReno;
  return options;
}

/// Without SACK no tail loss probe is sent before the timeout.
StackOptions without_sack(StackOptions options = Scenario::plain()) {
  options.connection.sack = false;
  return options;
}

/// Queues more data than the window allows: ten segments are sent.
std::vector<Seg> fill_window(Scenario& s) {
  s.write(50000);
  auto flight = s.all();
  EXPECT_EQ(flight.size(), 10u);
  return flight;
}

void ack(Scenario& s, uint32_t number, const Blocks& blocks = {}) {
  s.send({.flags = kAck, .seq = 1, .ack = number, .options = sack(blocks)});
}

TEST(TailProbe, LeavesTwoRoundTripsAfterTheLastSegment) {  // RFC 8985 7.2
  Scenario s;
  s.establish_passive();
  s.write(1000);
  s.write(1000);
  const Nanos sent = s.all().back().at;
  const Seg probe = s.expect_later(kAck);
  EXPECT_EQ(probe.seq, 1001u);
  EXPECT_GE(probe.at - sent, kRtt * 2);
  EXPECT_LE(probe.at - sent, kRtt * 2 + millis(2));
}

TEST(TailProbe, LoneSegmentIsGivenTheTimeOfADelayedAck) {  // RFC 8985 7.2
  Scenario s;
  s.establish_passive();
  s.write(1000);
  const Nanos sent = s.expect(kAck).at;
  EXPECT_GE(s.expect_later(kAck).at - sent,
            kRtt * 2 + millis(s.host.options().connection.ack_delay_ms));
}

TEST(TailProbe, IsOneAndThenTheTimerOfRetransmissionRuns) {  // RFC 8985 7.3, RFC 6298 5.4
  Scenario s;
  s.establish_passive();
  s.write(3000);
  s.all();
  const Seg probe = s.expect_later(kAck);
  EXPECT_EQ(probe.seq, 2001u);
  const Nanos rto = s.info().rto;
  const Seg front = s.expect_later(kAck);
  EXPECT_EQ(front.seq, 1u);
  EXPECT_EQ(front.at - probe.at, rto);
}

/// Sends two segments from `start` on, of which the peer SACKs the second. Returns the time until
/// the first is marked lost. Then it is acknowledged, with a DSACK if `is_repeat`.
Nanos patience(Scenario& s, uint32_t start, bool is_repeat) {
  s.write(2000);
  EXPECT_EQ(s.all().size(), 2u);
  s.wait(kRtt);
  const Nanos reported = s.host.now();
  ack(s, start, {{start + 1000, start + 2000}});
  const Seg again = s.expect_later(kAck);
  EXPECT_EQ(again.seq, start);
  s.wait(kRtt);
  ack(s, start + 2000, is_repeat ? Blocks{{start, start + 1000}} : Blocks{});
  return again.at - reported;
}

TEST(Rack, WaitsAQuarterOfARoundTripForReordering) {  // RFC 8985 6.2 step 4, step 5
  Scenario s;
  s.establish_passive();
  EXPECT_EQ(patience(s, 1, false), kRtt / 4);
}

TEST(Rack, RepeatsTeachItToWaitLongerForSixteenRecoveries) {  // RFC 8985 6.2 step 4
  Scenario s;
  s.establish_passive();
  uint32_t start = 1;
  const auto next_patience = [&](bool is_repeat) {
    const Nanos waited = patience(s, start, is_repeat);
    start += 2000;
    return waited;
  };
  EXPECT_EQ(next_patience(true), kRtt / 4);
  EXPECT_EQ(next_patience(true), kRtt / 4 * 2);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(next_patience(false), kRtt / 4 * 3) << i;
  EXPECT_EQ(next_patience(false), kRtt / 4);
}

TEST(Rack, OnceThePathReordersThreeReportsAreNoProof) {  // RFC 8985 6.2 step 4
  for (const bool reorders : {false, true}) {
    Scenario s;
    s.establish_passive();
    s.write(2000);
    s.all();
    s.wait(kRtt);
    if (reorders) ack(s, 1, {{1001, 2001}});
    ack(s, 2001);  // the first, later than the second and never sent again
    s.write(5000);
    s.all();
    s.wait(kRtt);
    ack(s, 2001, {{3001, 7001}});
    const Nanos reported = s.host.now();
    const Seg again = s.expect_later(kAck);
    EXPECT_EQ(again.seq, 2001u);
    EXPECT_EQ(again.at - reported, reorders ? kRtt / 4 : nanos(0));
  }
}

TEST(Prr, HeavyLossSendsNoMoreThanArrived) {  // RFC 6937 3.1
  Scenario s(newreno());
  s.establish_passive();
  fill_window(s);
  s.wait(kRtt);
  ack(s, 1, {{7001, 10001}});  // seven of ten are lost: nothing is left in flight
  const auto first = s.all();
  ASSERT_EQ(first.size(), 3u);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(first[i].seq, 1 + 1000 * i);
  s.wait(kRtt);
  ack(s, 1001, {{7001, 10001}});  // one more than arrives, as in slow start
  EXPECT_EQ(s.all().size(), 2u);
}

TEST(Prr, OneAckThatEmptiesTheNetworkReleasesHalfAWindow) {  // RFC 6937 3.1
  Scenario s(newreno());
  s.establish_passive();
  fill_window(s);
  s.wait(kRtt);
  ack(s, 1, {{1001, 10001}});
  const auto released = s.all();
  EXPECT_EQ(released.size(), 5u);
  EXPECT_EQ(released[0].seq, 1u);
  EXPECT_EQ(released[1].seq, 10001u);
}

TEST(LimitedTransmit, EachOfTheFirstTwoReportsLetsANewSegmentOut) {  // RFC 3042 2
  Scenario s;
  s.establish_passive();
  fill_window(s);
  s.wait(kRtt);
  ack(s, 1, {{1001, 2001}});
  EXPECT_EQ(s.expect(kAck).seq, 10001u);
  s.expect_silence();
  ack(s, 1, {{1001, 3001}});
  EXPECT_EQ(s.expect(kAck).seq, 11001u);
  s.expect_silence();
  ack(s, 1, {{1001, 4001}});
  EXPECT_EQ(s.expect(kAck).seq, 1u) << "the third says that it is lost";
}

TEST(Rto, StaysDoubledUntilSomethingIsMeasuredAgain) {  // RFC 6298 3, 5.7
  Scenario s(without_sack());
  s.establish_passive();
  const auto timeout_of_next = [&](uint32_t start) {
    s.write(1000);
    const Nanos sent = s.expect(kAck).at;
    const Seg again = s.expect_later(kAck);
    EXPECT_EQ(again.seq, start);
    return again.at - sent;
  };
  const Nanos single = timeout_of_next(1);
  ack(s, 1001);  // the ACK may be for either transmission
  EXPECT_EQ(timeout_of_next(1001), single * 2);
  ack(s, 2001);
  s.write(1000);
  s.all();
  s.wait(kRtt);
  ack(s, 3001);
  EXPECT_LE(timeout_of_next(3001), single);
}

/// A window whose ACKs are late: after the timeout its first segment was sent again.
struct LateWindow {
  std::vector<Seg> flight;
  Seg again;
  uint32_t end() const { return flight.back().seq + flight.back().bytes; }
};

LateWindow time_out(Scenario& s) {
  s.establish_passive(stamp(100, 0, Scenario::offered()));
  LateWindow late{.flight = fill_window(s), .again = s.expect_later(kAck)};
  if (s.host.options().connection.sack) {  // the tail loss probe, which carried new text
    late.flight.push_back(late.again);
    late.again = s.expect_later(kAck);
  }
  EXPECT_EQ(late.again.seq, 1u);
  EXPECT_EQ(s.info().timeouts, 1u);
  return late;
}

/// The peer acknowledges two segments, and echoes the timestamp of `which` transmission. (A probe
/// was sent beyond the window: one ACK would not release a new segment.)
void ack_two(Scenario& s, const LateWindow& late, const Seg& which) {
  s.send({.flags = kAck,
          .seq = 1,
          .ack = late.flight[2].seq,
          .options = stamp(500, which.options.ts_value)});
}

const StackOptions kWithAndWithoutSack[] = {Scenario::with_timestamps(),
                                            without_sack(Scenario::with_timestamps())};

TEST(SpuriousTimeout, EchoOfTheOriginalSendsNothingElseAgain) {  // RFC 3522 3.2, RFC 4015 3
  for (const StackOptions& options : kWithAndWithoutSack) {
    Scenario s(options);
    const LateWindow late = time_out(s);
    ack_two(s, late, late.flight[0]);
    const auto released = s.all();
    ASSERT_FALSE(released.empty());
    for (const Seg& segment : released) EXPECT_GE(segment.seq, late.end());
    EXPECT_EQ(s.info().undone_reductions, 1u);
  }
}

TEST(SpuriousTimeout, EchoOfTheRetransmissionGoesOnRepairing) {  // RFC 3522 3.2
  for (const StackOptions& options : kWithAndWithoutSack) {
    Scenario s(options);
    const LateWindow late = time_out(s);
    ack_two(s, late, late.again);
    EXPECT_EQ(s.expect(kAck).seq, late.flight[2].seq);
  }
}

/// Two rounds of slow start: the window has forty segments, and all have been acknowledged.
void grow(Scenario& s) {
  s.establish_passive();
  s.write(30000);
  EXPECT_EQ(s.all().size(), 10u);
  s.wait(kRtt);
  ack(s, 10001);
  EXPECT_EQ(s.all().size(), 20u);
  s.wait(kRtt);
  ack(s, 30001);
  s.expect_silence();
}

TEST(StretchAck, GrowsTheWindowByAllThatItAcknowledges) {  // RFC 3465 2.2, RFC 5681 3.1
  Scenario s;
  grow(s);
  s.write(50000);
  EXPECT_EQ(s.all().size(), 40u);
}

TEST(StretchAck, ManyAcksOfOneSegmentAreWorthOne) {  // RFC 3465 2.2: bytes count
  Scenario s;
  s.establish_passive();
  fill_window(s);
  s.wait(kRtt);
  for (uint32_t i = 1; i <= 10; ++i) ack(s, 1 + 100 * i);
  EXPECT_EQ(s.all().size(), 2u);
}

TEST(IdleRestart, BeginsWithTheInitialWindow) {  // RFC 5681 4.1
  Scenario s;
  grow(s);
  s.wait(s.info().rto * 10);
  fill_window(s);
}

TEST(IdleRestart, PauseShorterThanTheTimeoutKeepsTheWindow) {  // RFC 5681 4.1
  Scenario s;
  grow(s);
  s.wait(s.info().rto / 2);
  s.write(50000);
  EXPECT_EQ(s.all().size(), 40u);
}

TEST(StretchAck, OursCoverTwoFullSegmentsOfThePeerAtMost) {  // RFC 9293 3.8.6.3
  for (const uint32_t full : {1000u, 600u}) {                // the peer's may be smaller than ours
    StackOptions options = Scenario::plain();
    options.connection.quick_acks_at_start = 0;
    Scenario s(options);
    s.establish_passive();
    uint32_t acknowledged = 1;
    for (uint32_t i = 0; i < 20; ++i) {
      const uint32_t end = 1 + full * (i + 1);
      s.send({.flags = kAck, .seq = end - full, .ack = 1, .bytes = full});
      for (const Seg& segment : s.all()) acknowledged = segment.ack;
      EXPECT_LT(end - acknowledged, 2 * full) << full;
    }
  }
}

}  // namespace
}  // namespace lyre::conformance
