#include <netinet/in.h>

#include <tuple>

#include "tests/conformance/scenario.h"

namespace lyre::conformance {
namespace {

enum class At : uint8_t {
  kEstablished,
  kCloseWait,
  kFinWait1,
  kFinWait2,
  kClosing,
  kLastAck,
  kTimeWait
};

/// Brings `s` to a state. The two numbers are the sequence and ACK numbers of the peer's next
/// segment.
struct Place {
  uint32_t seq = 1;
  uint32_t ack = 1;
};

Place reach(Scenario& s, At at) {
  s.establish_passive();
  Place place;
  if (at == At::kCloseWait || at == At::kLastAck) {
    s.send({.flags = kFin | kAck, .seq = 1, .ack = 1});
    s.expect(kAck);
    place.seq = 2;
  }
  if (at != At::kEstablished && at != At::kCloseWait) {
    s.sockets.shutdown(s.socket, SHUT_WR);
    s.expect(kFin | kAck);
  }
  if (at == At::kFinWait2 || at == At::kTimeWait) {
    s.send({.flags = kAck, .seq = 1, .ack = 2});
    place.ack = 2;
  }
  if (at == At::kClosing || at == At::kTimeWait) {
    s.send({.flags = kFin | kAck, .seq = 1, .ack = place.ack});
    s.expect(kAck);
    place.seq = 2;
  }
  return place;
}

class Validation : public testing::TestWithParam<std::tuple<At, Family>> {
 protected:
  At at() const { return std::get<At>(GetParam()); }
  Family family() const { return std::get<Family>(GetParam()); }
};

using SynValidation = Validation;

/// Checks that since `before` one segment was dropped, for exactly `reason`.
void expect_one_drop(const Scenario& s, uint64_t before, Drop reason) {
  EXPECT_EQ(s.drops(reason), 1u) << kDropTexts[static_cast<size_t>(reason)].key;
  EXPECT_EQ(s.drops(), before + 1);
}

TEST_P(Validation, ResetAtTheExactNumberEndsIt) {  // RFC 5961 3.2, case 2
  Scenario s(family());
  const Place place = reach(s, at());
  s.send({.flags = kRst, .seq = place.seq});
  EXPECT_EQ(s.state(), tcp::State::kClosed);
  s.expect_silence();
}

TEST_P(Validation, ResetInTheWindowIsChallenged) {  // RFC 5961 3.2, case 3
  Scenario s(family());
  const Place place = reach(s, at());
  const uint64_t before = s.drops();
  s.send({.flags = kRst, .seq = place.seq + 10});
  EXPECT_EQ(s.expect(kAck).ack, place.seq);
  EXPECT_NE(s.state(), tcp::State::kClosed);
  expect_one_drop(s, before, Drop::kTcpBadReset);
}

TEST_P(Validation, ResetOutsideTheWindowIsIgnored) {  // RFC 5961 3.2, case 1
  for (const uint32_t offset : {0xffffffffu, 100000u}) {
    Scenario s(family());
    const Place place = reach(s, at());
    const uint64_t before = s.drops();
    s.send({.flags = kRst, .seq = place.seq + offset});
    s.expect_silence();
    EXPECT_NE(s.state(), tcp::State::kClosed);
    expect_one_drop(s, before, Drop::kTcpOutOfWindow);
  }
}

TEST_P(SynValidation, IsChallengedWhereverItLies) {  // RFC 5961 4.2
  for (const uint32_t offset : {0u, 10u, 100000u, 0xffffff00u}) {
    Scenario s(family());
    const Place place = reach(s, at());
    const uint64_t before = s.drops();
    s.send({.flags = kSyn, .seq = place.seq + offset});
    EXPECT_EQ(s.expect(kAck).ack, place.seq);
    EXPECT_NE(s.state(), tcp::State::kClosed);
    expect_one_drop(s, before, offset <= 10 ? Drop::kTcpBadSyn : Drop::kTcpOutOfWindow);
  }
}

TEST_P(Validation, AckOfTheFutureIsChallenged) {  // RFC 9293 3.10.7.4, fifth
  Scenario s(family());
  const Place place = reach(s, at());
  const uint64_t before = s.drops();
  s.send({.flags = kAck, .seq = place.seq, .ack = place.ack + 5000});
  EXPECT_EQ(s.expect(kAck).ack, place.seq);
  expect_one_drop(s, before, Drop::kTcpBadAck);
}

TEST_P(Validation, SegmentOutsideTheWindowIsAnswered) {  // RFC 9293 3.10.7.4, first
  Scenario s(family());
  const Place place = reach(s, at());
  const uint64_t before = s.drops();
  s.send({.flags = kAck, .seq = place.seq + 100000, .ack = place.ack, .bytes = 10});
  EXPECT_EQ(s.expect(kAck).ack, place.seq);
  expect_one_drop(s, before, Drop::kTcpOutOfWindow);
}

TEST_P(Validation, NothingWithoutAckIsBelieved) {  // RFC 9293 3.10.7.4, fifth
  Scenario s(family());
  const Place place = reach(s, at());
  const uint64_t before = s.drops();
  s.send({.flags = kPsh, .seq = place.seq, .bytes = 10});
  s.expect_silence();
  expect_one_drop(s, before, Drop::kTcpBadAck);
}

constexpr At kStates[] = {At::kEstablished, At::kCloseWait, At::kFinWait1, At::kFinWait2,
                          At::kClosing,     At::kLastAck,   At::kTimeWait};
INSTANTIATE_TEST_SUITE_P(States, Validation,
                         testing::Combine(testing::ValuesIn(kStates),
                                          testing::ValuesIn(kFamilies)));
// In TIME-WAIT, the last state, a SYN may open the connection anew: closing_test.cc.
INSTANTIATE_TEST_SUITE_P(States, SynValidation,
                         testing::Combine(testing::ValuesIn(kStates, std::end(kStates) - 1),
                                          testing::ValuesIn(kFamilies)));

using Challenge = OverBoth;
INSTANTIATE_OVER_BOTH(Challenge);

TEST_P(Challenge, IsLimited) {  // RFC 5961 7
  Scenario s(GetParam());
  s.establish_passive();
  for (int i = 0; i < 100; ++i) s.send({.flags = kSyn, .seq = 5});
  const size_t count = s.all().size();
  EXPECT_GE(count, 5u);
  EXPECT_LE(count, 20u);
  s.wait(seconds(2));
  s.send({.flags = kSyn, .seq = 5});
  s.expect(kAck);
}

TEST_P(Challenge, SynReceivedAnswersAReset) {  // RFC 5961 3.2
  Scenario s(GetParam());
  s.listen();
  s.send({.flags = kSyn, .options = Scenario::offered()});
  s.expect(kSyn | kAck);
  s.send({.flags = kRst, .seq = 2});
  EXPECT_EQ(s.expect(kAck).ack, 1u);
}

TEST_P(Challenge, SynReceivedIgnoresAResetOutsideTheWindow) {  // RFC 5961 3.2, case 1
  for (const uint32_t seq : {0u, 100000u}) {
    Scenario s(GetParam());
    s.listen();
    s.send({.flags = kSyn, .options = Scenario::offered()});
    s.expect(kSyn | kAck);
    s.send({.flags = kRst, .seq = seq});
    s.expect_silence();
    EXPECT_EQ(s.drops(Drop::kTcpOutOfWindow), 1u);
    s.send({.flags = kAck, .seq = 1, .ack = 1});
    EXPECT_GE(s.accept(), 0);
  }
}

using Ack = OverBoth;
INSTANTIATE_OVER_BOTH(Ack);

TEST_P(Ack, VeryOldOneIsChallenged) {  // RFC 5961 5.2
  Scenario s(GetParam());
  s.establish_passive(Scenario::offered(), 1000);
  for (int i = 0; i < 3; ++i) {
    s.write(1000);
    s.expect(kAck);
    s.send(
        {.flags = kAck, .seq = 1, .ack = 1001 + 1000u * static_cast<uint32_t>(i), .window = 1000});
  }
  s.send({.flags = kAck, .seq = 1, .ack = 1000, .window = 1000});
  s.expect(kAck);
  EXPECT_EQ(s.drops(Drop::kTcpBadAck), 1u);
}

using Paws = OverBoth;
INSTANTIATE_OVER_BOTH(Paws);

TEST_P(Paws, OldTextIsDroppedAndAnswered) {  // RFC 7323 5.3 R1
  Scenario s(Scenario::with_timestamps(), GetParam());
  s.establish_passive(stamp(1000, 0, Scenario::offered()));
  s.send({.flags = kAck | kPsh, .seq = 1, .ack = 1, .bytes = 10, .options = stamp(1020)});
  s.all();
  s.send({.flags = kAck | kPsh, .seq = 11, .ack = 1, .bytes = 10, .options = stamp(1015)});
  EXPECT_EQ(s.expect(kAck).ack, 11u);
  EXPECT_EQ(s.drops(Drop::kTcpPaws), 1u);
  EXPECT_EQ(s.read(), 10);
}

TEST_P(Paws, ResetIsNotJudgedByItsTimestamp) {  // RFC 7323 5.2
  Scenario s(Scenario::with_timestamps(), GetParam());
  s.establish_passive(stamp(1000, 0, Scenario::offered()));
  s.send({.flags = kRst, .seq = 1, .options = stamp(1)});
  EXPECT_EQ(s.state(), tcp::State::kClosed);
}

TEST_P(Paws, WrongAckDoesNotMoveTheClock) {  // RFC 7323 4.3, RFC 5961 5.2
  Scenario s(Scenario::with_timestamps(), GetParam());
  s.establish_passive(stamp(1000, 0, Scenario::offered()));
  s.send({.flags = kFin | kAck, .seq = 1, .ack = 9999, .options = stamp(900000)});
  s.all();
  s.send({.flags = kAck | kPsh, .seq = 1, .ack = 1, .bytes = 10, .options = stamp(1020)});
  EXPECT_EQ(s.expect(kAck).ack, 11u);
}

TEST_P(Paws, OldClockProvesNothingAfterADay) {  // RFC 7323 5.5
  Scenario s(Scenario::with_timestamps(), GetParam());
  s.establish_passive(stamp(1000, 0, Scenario::offered()));
  s.wait(seconds(25LL * 24 * 3600));
  s.send({.flags = kAck | kPsh, .seq = 1, .ack = 1, .bytes = 10, .options = stamp(5)});
  EXPECT_EQ(s.expect_later(kAck).ack, 11u);
}

TEST_P(Paws, AClockOfMicrosecondsProvesNothingAfterHalfOfItsRange) {  // RFC 7323 5.5
  Scenario s(Scenario::with_timestamps(), GetParam());
  s.establish_passive(stamp(1000, 0, Scenario::offered()));
  constexpr uint32_t kIdleS = 40 * 60;
  s.wait(seconds(kIdleS));
  s.send({.flags = kAck | kPsh,
          .seq = 1,
          .ack = 1,
          .bytes = 10,
          .options = stamp(1000 + kIdleS * 1'000'000)});
  EXPECT_EQ(s.expect_later(kAck).ack, 11u);
}

TEST_P(Paws, AHandshakeWithoutAClockProvesNothing) {  // RFC 7323 5.3
  Scenario s(Scenario::with_timestamps(), GetParam());
  s.establish_active(stamp(0, 0, Scenario::offered()));
  s.send({.flags = kAck | kPsh, .seq = 1, .ack = 1, .bytes = 10, .options = stamp(0x90000000)});
  EXPECT_EQ(s.expect(kAck).ack, 11u);
  s.send({.flags = kAck | kPsh, .seq = 11, .ack = 1, .bytes = 10, .options = stamp(0x8fffffff)});
  s.expect(kAck);
  EXPECT_EQ(s.drops(Drop::kTcpPaws), 1u);
}

using Timestamps = OverBoth;
INSTANTIATE_OVER_BOTH(Timestamps);

TEST_P(Timestamps, ResetCarriesOne) {  // RFC 7323 3.2
  Scenario s(Scenario::with_timestamps(), GetParam());
  s.establish_passive(stamp(1000, 0, Scenario::offered()));
  s.send({.flags = kAck | kPsh, .seq = 1, .ack = 1, .bytes = 10, .options = stamp(1020)});
  s.all();
  s.close();
  const Seg reset = s.expect(kRst | kAck);
  EXPECT_TRUE(reset.options.has_timestamps);
  EXPECT_EQ(reset.options.ts_echo, 1020u);
}

}  // namespace
}  // namespace lyre::conformance
