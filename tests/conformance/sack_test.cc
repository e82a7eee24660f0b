#include <algorithm>
#include <array>

#include "tests/conformance/scenario.h"

/// The SACK blocks that the stack sends for text out of order, and its reaction to those of the
/// peer.
namespace lyre::conformance {
namespace {

/// The answer to text from the peer that starts at `seq`.
Seg answer_to(Scenario& s, uint32_t seq, uint32_t bytes, const wire::TcpOptions& options = {}) {
  s.send({.flags = kAck | kPsh, .seq = seq, .ack = 1, .bytes = bytes, .options = options});
  return s.expect(kAck);
}

TEST(SackBlocks, LatestIsFirstAndTheOldestGivesWay) {  // RFC 2018 4
  Scenario s;
  s.establish_passive();
  Blocks expected;
  for (uint32_t at = 201; at <= 1001; at += 200) {
    expected.insert(expected.begin(), {at, at + 100});
    if (expected.size() > 4) expected.pop_back();  // 40 bytes of options
    EXPECT_EQ(blocks_of(answer_to(s, at, 100)), expected);
  }
  EXPECT_EQ(blocks_of(answer_to(s, 701, 50)),
            (Blocks{{601, 751}, {1001, 1101}, {801, 901}, {401, 501}}))
      << "what grew is the latest";
}

TEST(SackBlocks, ThreeFitBesideATimestamp) {  // RFC 2018 3
  Scenario s(Scenario::with_timestamps());
  s.establish_passive(stamp(100, 0, Scenario::offered()));
  for (uint32_t at = 201; at <= 801; at += 200) answer_to(s, at, 100, stamp(120));
  EXPECT_EQ(blocks_of(answer_to(s, 1001, 100, stamp(120))),
            (Blocks{{1001, 1101}, {801, 901}, {601, 701}}));
  EXPECT_EQ(blocks_of(answer_to(s, 201, 100, stamp(120))),
            (Blocks{{201, 301}, {201, 301}, {1001, 1101}}))
      << "a repeat takes one of the three (RFC 2883 4)";
}

TEST(SackBlocks, WhatIsAcknowledgedIsNotReported) {  // RFC 2018 4
  Scenario s;
  s.establish_passive();
  answer_to(s, 201, 100);
  answer_to(s, 401, 100);
  const Seg first = answer_to(s, 1, 200);
  EXPECT_EQ(first.ack, 301u);
  EXPECT_EQ(blocks_of(first), (Blocks{{401, 501}}));
  const Seg last = answer_to(s, 301, 100);
  EXPECT_EQ(last.ack, 501u);
  EXPECT_TRUE(blocks_of(last).empty());
}

TEST(SackBlocks, AreOnlyForPeersThatAsked) {  // RFC 2018 2
  Scenario s;
  wire::TcpOptions offer = Scenario::offered();
  offer.sack_permitted = false;
  s.establish_passive(offer);
  EXPECT_TRUE(blocks_of(answer_to(s, 201, 100)).empty());
}

TEST(Dsack, IsReportedOnce) {  // RFC 2883 4: only in the first ACK after the repeat
  Scenario s;
  s.establish_passive();
  answer_to(s, 1, 100);
  const Seg repeat = answer_to(s, 1, 100);
  EXPECT_EQ(repeat.ack, 101u);
  EXPECT_EQ(blocks_of(repeat), (Blocks{{1, 101}}));
  EXPECT_TRUE(blocks_of(answer_to(s, 101, 100)).empty());
}

TEST(Dsack, PartOfAHeldBlockIsFollowedByTheWholeBlock) {  // RFC 2883 4.2
  Scenario s;
  s.establish_passive();
  answer_to(s, 201, 100);
  EXPECT_EQ(blocks_of(answer_to(s, 251, 100)), (Blocks{{251, 301}, {201, 351}}));
}

/// The bytes of the stream that an ACK reports as received.
using Held = std::array<bool, 700>;

void mark(Held& held, uint32_t start, uint32_t end) {
  std::fill(held.begin() + start, held.begin() + end, true);
}

TEST(Reassembly, AcksTellExactlyWhatArrivedInWhateverOrder) {  // RFC 2018 4, RFC 9293 3.10.7.4
  std::array<std::pair<uint32_t, uint32_t>, 5> pieces{
      {{1, 151}, {101, 301}, {251, 401}, {401, 501}, {451, 651}}};
  do {
    Scenario s;
    s.establish_passive();
    Held sent{};
    for (const auto& [start, end] : pieces) {
      mark(sent, start, end);
      const Seg answer = answer_to(s, start, end - start);
      Held told{};
      mark(told, 1, answer.ack);
      for (const auto& block : blocks_of(answer)) mark(told, block.first, block.second);
      EXPECT_EQ(told, sent);
    }
    std::vector<uint8_t> text(1000);
    ASSERT_EQ(s.sockets.receive(s.socket, text, 0), 650);
    for (size_t i = 0; i < 650; ++i) ASSERT_EQ(text[i], static_cast<uint8_t>(1 + i)) << i;
  } while (std::next_permutation(pieces.begin(), pieces.end()));
}

}  // namespace
}  // namespace lyre::conformance
