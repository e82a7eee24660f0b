#include <netinet/in.h>

#include <numeric>

#include "stack/base/checksum.h"
#include "stack/wire/bytes.h"
#include "stack/wire/icmp.h"
#include "tests/conformance/scenario.h"

/// Issue list "bad input": each packet here is counted under exactly one drop reason, and answered
/// as the RFC says or not at all.
namespace lyre::conformance {
namespace {

constexpr size_t kTcpAt = 20;

/// Both checksums of `packet` are made right again.
void seal(std::vector<uint8_t>& packet) {
  wire::write_raw16(packet.data() + 10, 0);
  ChecksumSum ip;
  ip.add(std::span(packet).first(kTcpAt));
  wire::write_raw16(packet.data() + 10, ip.finish());
  if (packet.size() < kTcpAt + 20) return;
  const auto address = [&](size_t at) {
    return IpAddress::v4(wire::read_be32(packet.data() + at));
  };
  const std::span<uint8_t> tcp = std::span(packet).subspan(kTcpAt);
  wire::write_raw16(tcp.data() + 16, 0);
  ChecksumSum sum;
  const uint16_t pseudo =
      wire::tcp_pseudo_sum(address(12), address(16), static_cast<uint32_t>(tcp.size()));
  wire::write_raw16(tcp.data() + 16, pseudo);
  sum.add(tcp);
  wire::write_raw16(tcp.data() + 16, sum.finish());
}

/// `damage` a good segment: it must be dropped for `reason` and nothing else, unanswered.
template <typename Damage>
void expect_drop(Drop reason, Damage damage) {
  Scenario s;
  s.establish_passive();
  std::vector<uint8_t> packet = s.build({.flags = kAck | kPsh, .seq = 1, .ack = 1, .bytes = 20});
  damage(packet);
  const uint64_t before = s.drops();
  s.send_raw(packet);
  EXPECT_EQ(s.drops(reason), 1u) << kDropTexts[static_cast<size_t>(reason)].key;
  EXPECT_EQ(s.drops(), before + 1);
  s.expect_silence();
  EXPECT_EQ(s.state(), tcp::State::kEstablished);
}

TEST(BadIp, IsDroppedForOneReason) {  // RFC 1122 3.2.1
  expect_drop(Drop::kIpTooShort, [](auto& p) { p.resize(15); });
  expect_drop(Drop::kIpBadVersion, [](auto& p) { p[0] = 0x55; });
  expect_drop(Drop::kIpBadHeaderLength, [](auto& p) { p[0] = 0x44; });
  expect_drop(Drop::kIpBadChecksum, [](auto& p) { p[10] ^= 1; });
  expect_drop(Drop::kIpFragment, [](auto& p) { p[6] = 0x20, seal(p); });         // more fragments
  expect_drop(Drop::kIpFragment, [](auto& p) { p[6] = 0, p[7] = 9, seal(p); });  // a later one
  expect_drop(Drop::kIpNotForUs, [](auto& p) { p[19] = 77, seal(p); });
  expect_drop(Drop::kIpUnknownProtocol, [](auto& p) { p[9] = 99, seal(p); });
}

TEST(BadIp, TotalLengthThatLies) {  // RFC 791 3.1
  expect_drop(Drop::kIpTooShort, [](auto& p) { p[2] = 0xff, seal(p); });
  expect_drop(Drop::kIpBadHeaderLength, [](auto& p) { p[2] = 0, p[3] = 10, seal(p); });
}

TEST(BadTcp, IsDroppedForOneReason) {  // RFC 9293 3.1
  expect_drop(Drop::kTcpBadChecksum, [](auto& p) { p.back() ^= 1; });
  expect_drop(Drop::kTcpBadDataOffset, [](auto& p) { p[kTcpAt + 12] = 0x40, seal(p); });
  expect_drop(Drop::kTcpBadDataOffset, [](auto& p) { p[kTcpAt + 12] = 0xf0, seal(p); });
  expect_drop(Drop::kTcpTooShort, [](auto& p) {
    p.resize(kTcpAt + 10);
    p[2] = 0, p[3] = static_cast<uint8_t>(p.size());
    seal(p);
  });
}

/// A segment whose header says it has 12 bytes of options, which are these and NOPs.
auto with_options(std::vector<uint8_t> options) {
  return [options](std::vector<uint8_t>& packet) {
    std::vector<uint8_t> padded(12, 1);
    std::copy(options.begin(), options.end(), padded.begin());
    packet.insert(packet.begin() + kTcpAt + 20, padded.begin(), padded.end());
    packet[kTcpAt + 12] = 0x80;
    packet[3] = static_cast<uint8_t>(packet.size());
    seal(packet);
  };
}

TEST(BadOptions, LengthsThatCannotBe) {  // RFC 9293 3.2: every length is two at least
  expect_drop(Drop::kTcpBadOptions, with_options({8, 0}));
  expect_drop(Drop::kTcpBadOptions, with_options({8, 1}));
  expect_drop(Drop::kTcpBadOptions, with_options({8, 255}));
  expect_drop(Drop::kTcpBadOptions, with_options({254, 13}));
  expect_drop(Drop::kTcpBadOptions, with_options({1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 5}));
}

TEST(BadOptions, UnknownOnesAndWrongLengthsOfKnownOnesAreSkipped) {  // RFC 9293 3.2, MUST-6
  for (const std::vector<uint8_t>& options :
       std::vector<std::vector<uint8_t>>{{254, 12}, {2, 3, 0}, {3, 2}, {5, 9}, {0, 8, 0}}) {
    Scenario s;
    s.establish_passive();
    auto packet = s.build({.flags = kAck | kPsh, .seq = 1, .ack = 1, .bytes = 20});
    with_options(options)(packet);
    s.send_raw(packet);
    EXPECT_EQ(s.expect(kAck).ack, 21u);
  }
}

TEST(BadOptions, SynWithGarbageOpensNothing) {  // RFC 9293 3.2
  Scenario s;
  s.listen();
  auto packet = s.build({.flags = kSyn});
  with_options({2, 0})(packet);
  s.send_raw(packet);
  s.expect_silence();
  EXPECT_EQ(s.host.engine().connection_count(), 0u);
}

TEST(Urgent, PointerIsIgnored) {  // RFC 6093 6: applications should not; text stays in line
  Scenario s;
  s.establish_passive();
  auto packet = s.build({.flags = kAck | kPsh | kUrg, .seq = 1, .ack = 1, .bytes = 20});
  packet[kTcpAt + 18] = 0xff;  // far behind the text
  seal(packet);
  s.send_raw(packet);
  EXPECT_EQ(s.expect(kAck).ack, 21u);
  EXPECT_EQ(s.read(), 20);
}

TEST(Overlap, EveryByteOfTheStreamIsItself) {  // RFC 9293 3.10.7.4, seventh
  Scenario s;
  s.establish_passive();
  const std::pair<uint32_t, uint32_t> pieces[] = {{200, 100}, {150, 100}, {400, 200}, {250, 400},
                                                  {1, 50},    {30, 300},  {1, 700},   {600, 200}};
  for (const auto& [seq, bytes] : pieces) {
    s.send({.flags = kAck | kPsh, .seq = seq, .ack = 1, .bytes = bytes});
  }
  std::vector<uint8_t> text(1000);
  ASSERT_EQ(s.sockets.receive(s.socket, text, 0), 799);
  for (size_t i = 0; i < 799; ++i) ASSERT_EQ(text[i], static_cast<uint8_t>(1 + i)) << i;
}

TEST(Overlap, WhatWasKeptFirstIsNotChangedByOtherBytes) {  // RFC 9293 3.10.7.4, seventh
  Scenario s;
  s.establish_passive();
  const auto send_all = [&](uint32_t seq, uint8_t value) {
    auto packet = s.build({.flags = kAck | kPsh, .seq = seq, .ack = 1, .bytes = 100});
    std::fill(packet.end() - 100, packet.end(), value);
    seal(packet);
    s.send_raw(packet);
  };
  send_all(101, 'b');  // waits for what comes before it
  send_all(151, 'c');  // says otherwise for half of it, and goes on
  send_all(51, 'x');   // the same from the other side, still not from the beginning
  send_all(1, 'a');
  send_all(1, 'z');  // all of it was read or is about to be
  std::vector<uint8_t> text(1000);
  ASSERT_EQ(s.sockets.receive(s.socket, text, 0), 250);
  EXPECT_EQ(text[0], 'a');
  EXPECT_EQ(std::count(text.begin() + 100, text.begin() + 200, 'b'), 100);
  EXPECT_EQ(std::count(text.begin() + 200, text.begin() + 250, 'c'), 50);
  EXPECT_EQ(std::count(text.begin(), text.end(), 'z'), 0);
}

wire::TcpOptions sack(std::vector<std::pair<uint32_t, uint32_t>> blocks) {
  wire::TcpOptions options;
  for (const auto& [start, end] : blocks) {
    options.sacks[options.sack_count++] = {.start = SeqNum(start), .end = SeqNum(end)};
  }
  return options;
}

TEST(LyingSack, IsNotBelieved) {  // RFC 2018 5: only what was sent can have arrived
  const std::vector<std::pair<uint32_t, uint32_t>> lies[] = {
      {{90000, 91000}},  // never sent
      {{3001, 2001}},    // ends before it begins
      {{1, 90000}},      // both
      {{2001, 2001}},    // nothing
      {{0x80000000u, 0x80000100u}},
  };
  for (const auto& blocks : lies) {
    Scenario s;
    s.establish_passive();
    s.write(5000);
    s.all();
    for (int i = 0; i < 5; ++i) {
      s.send({.flags = kAck, .seq = 1, .ack = 1, .options = sack(blocks)});
    }
    EXPECT_EQ(s.info().in_flight_bytes, 5000u);
    EXPECT_EQ(s.state(), tcp::State::kEstablished);
  }
}

TEST(Reneging, ReceiverMayTakeASackBack) {  // RFC 2018 8
  Scenario s;
  s.establish_passive();
  s.write(3000);
  s.all();
  s.send({.flags = kAck, .seq = 1, .ack = 1, .options = sack({{1001, 3001}})});
  s.send({.flags = kAck, .seq = 1, .ack = 1001});  // and the SACKed text is gone
  uint32_t resent = 0;
  for (int i = 0; i < 10 && resent < 2000; ++i) {
    s.host.advance_to(s.host.next_deadline());
    for (const Seg& segment : s.all()) resent += segment.bytes;
    if (resent > 0) s.send({.flags = kAck, .seq = 1, .ack = 1001 + resent});
  }
  EXPECT_GE(resent, 2000u);
}

TEST(Icmp, WrongQuoteIsNotBelieved) {  // RFC 5927 4.1
  Scenario s;
  s.establish_passive();
  s.write(1000);
  s.all();
  s.send_icmp(wire::kIcmpUnreachable, wire::kUnreachableTooBig, 50000, 600);
  s.send_icmp(wire::kIcmpUnreachable, wire::kUnreachableTooBig, 0xffff0000u, 600);
  EXPECT_EQ(s.drops(Drop::kIcmpBadQuote), 2u);
  EXPECT_EQ(s.info().mss_bytes, 1000u);
  s.peer_port = 9;  // of no connection
  s.send_icmp(wire::kIcmpUnreachable, wire::kUnreachablePort, 1);
  EXPECT_EQ(s.drops(Drop::kIcmpBadQuote), 3u);
  s.expect_silence();
}

TEST(Icmp, HardErrorDoesNotEndAnOpenConnection) {  // RFC 5927 5.2
  Scenario s;
  s.establish_passive();
  s.write(1000);
  s.all();
  s.send_icmp(wire::kIcmpUnreachable, wire::kUnreachablePort, 1);
  EXPECT_EQ(s.state(), tcp::State::kEstablished);
}

TEST(Icmp, HardErrorEndsAnOpeningOne) {  // RFC 1122 4.2.3.9
  Scenario s;
  s.connect();
  s.expect(kSyn);
  s.send_icmp(wire::kIcmpUnreachable, wire::kUnreachableHostProhibited, 0);
  EXPECT_EQ(s.error(), EHOSTUNREACH);
}

TEST(Icmp, AHostWithoutAListenerRefuses) {  // RFC 1122 4.2.3.9, as RST would
  for (const uint8_t code : {wire::kUnreachablePort, wire::kUnreachableProtocol}) {
    Scenario s;
    s.connect();
    s.expect(kSyn);
    s.send_icmp(wire::kIcmpUnreachable, code, 0);
    EXPECT_EQ(s.error(), ECONNREFUSED) << int{code};
  }
}

TEST(Icmp, SoftErrorDoesNot) {  // RFC 1122 4.2.3.9
  Scenario s;
  s.connect();
  s.expect(kSyn);
  s.send_icmp(wire::kIcmpTimeExceeded, 0, 0);
  EXPECT_EQ(s.error(), 0);
  s.expect_later(kSyn);
}

}  // namespace
}  // namespace lyre::conformance
