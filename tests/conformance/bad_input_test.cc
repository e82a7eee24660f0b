#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <numeric>

#include "stack/base/checksum.h"
#include "stack/wire/bytes.h"
#include "tests/conformance/scenario.h"

/// Malformed input: each packet here is counted under exactly one drop reason, and answered as the
/// RFC says or not at all.
namespace lyre::conformance {
namespace {

/// Offset of a packet's TCP header.
size_t tcp_at(const std::vector<uint8_t>& packet) {
  return packet[0] >> 4 == 4 ? wire::kIpv4HeaderBytesMin : wire::kIpv6HeaderBytes;
}

/// Sets the length in the IP header to the packet's real length.
void measure(std::vector<uint8_t>& packet) {
  const bool is_v4 = packet[0] >> 4 == 4;
  const size_t bytes = is_v4 ? packet.size() : packet.size() - wire::kIpv6HeaderBytes;
  wire::write_be16(packet.data() + (is_v4 ? 2 : 4), static_cast<uint16_t>(bytes));
}

void seal_ipv4(std::vector<uint8_t>& packet) {
  wire::write_raw16(packet.data() + 10, 0);
  ChecksumSum ip;
  ip.add(std::span(packet).first(wire::kIpv4HeaderBytesMin));
  wire::write_raw16(packet.data() + 10, ip.finish());
}

/// Corrects all checksums of `packet`.
void seal(std::vector<uint8_t>& packet) {
  const bool is_v4 = tcp_at(packet) == wire::kIpv4HeaderBytesMin;
  if (is_v4) seal_ipv4(packet);
  const std::span<uint8_t> tcp = std::span(packet).subspan(tcp_at(packet));
  if (tcp.size() < wire::kTcpHeaderBytesMin) return;
  // The pseudo-header only contributes the sum of the addresses, so it does not matter where they
  // are.
  ChecksumSum sum;
  sum.add(is_v4 ? std::span(packet).subspan(12, 8) : std::span(packet).subspan(8, 32));
  sum.add_u16(static_cast<uint16_t>(tcp.size()));
  sum.add_u16(wire::kIpProtocolTcp);
  wire::write_raw16(tcp.data() + 16, 0);
  sum.add(tcp);
  wire::write_raw16(tcp.data() + 16, sum.finish());
}

/// Applies `damage` to a good segment: it must be dropped for exactly `reason`, without an answer.
template <typename Damage>
void expect_drop(Family family, Drop reason, Damage damage) {
  Scenario s(family);
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
  expect_drop(Family::kIpv4, Drop::kIpTooShort, [](auto& p) { p.resize(15); });
  expect_drop(Family::kIpv4, Drop::kIpBadVersion, [](auto& p) { p[0] = 0x55; });
  expect_drop(Family::kIpv4, Drop::kIpBadHeaderLength, [](auto& p) { p[0] = 0x44; });
  expect_drop(Family::kIpv4, Drop::kIpBadChecksum, [](auto& p) { p[10] ^= 1; });
  expect_drop(Family::kIpv4, Drop::kIpFragment,
              [](auto& p) { p[6] = 0x20, seal(p); });  // more fragments
  expect_drop(Family::kIpv4, Drop::kIpFragment,
              [](auto& p) { p[6] = 0, p[7] = 9, seal(p); });  // a later one
  expect_drop(Family::kIpv4, Drop::kIpNotForUs, [](auto& p) { p[19] = 77, seal(p); });
  expect_drop(Family::kIpv4, Drop::kIpUnknownProtocol, [](auto& p) { p[9] = 99, seal(p); });
}

TEST(BadIp, TotalLengthThatLies) {  // RFC 791 3.1
  expect_drop(Family::kIpv4, Drop::kIpTooShort, [](auto& p) { p[2] = 0xff, seal(p); });
  expect_drop(Family::kIpv4, Drop::kIpBadHeaderLength,
              [](auto& p) { p[2] = 0, p[3] = 10, seal(p); });
}

using BadTcp = OverBoth;
INSTANTIATE_OVER_BOTH(BadTcp);

TEST_P(BadTcp, IsDroppedForOneReason) {  // RFC 9293 3.1
  expect_drop(GetParam(), Drop::kTcpBadChecksum, [](auto& p) { p.back() ^= 1; });
  expect_drop(GetParam(), Drop::kTcpBadDataOffset,
              [](auto& p) { p[tcp_at(p) + 12] = 0x40, seal(p); });
  expect_drop(GetParam(), Drop::kTcpBadDataOffset,
              [](auto& p) { p[tcp_at(p) + 12] = 0xf0, seal(p); });
  expect_drop(GetParam(), Drop::kTcpTooShort, [](auto& p) {
    p.resize(tcp_at(p) + 10);
    measure(p), seal(p);
  });
}

/// A segment whose header declares 12 bytes of options, which are these and NOPs.
auto with_options(std::vector<uint8_t> options) {
  return [options](std::vector<uint8_t>& packet) {
    std::vector<uint8_t> padded(12, 1);
    std::copy(options.begin(), options.end(), padded.begin());
    const auto header = packet.begin() + static_cast<ptrdiff_t>(tcp_at(packet));
    header[12] = 0x80;
    packet.insert(header + wire::kTcpHeaderBytesMin, padded.begin(), padded.end());
    measure(packet), seal(packet);
  };
}

using BadOptions = OverBoth;
INSTANTIATE_OVER_BOTH(BadOptions);

TEST_P(BadOptions, SegmentIsTakenWithoutAMalformedOne) {  // RFC 9293 3.2, MUST-7
  for (const std::vector<uint8_t>& options : std::vector<std::vector<uint8_t>>{
           {8, 0}, {8, 1}, {8, 255}, {254, 13}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 5}}) {
    Scenario s(GetParam());
    s.establish_passive();
    const uint64_t before = s.drops();
    auto packet = s.build({.flags = kAck | kPsh, .seq = 1, .ack = 1, .bytes = 20});
    with_options(options)(packet);
    s.send_raw(packet);
    EXPECT_EQ(s.expect(kAck).ack, 21u);
    EXPECT_EQ(s.drops(), before);
  }
}

TEST_P(BadOptions, UnknownOnesAndWrongLengthsOfKnownOnesAreSkipped) {  // RFC 9293 3.2, MUST-6
  for (const std::vector<uint8_t>& options :
       std::vector<std::vector<uint8_t>>{{254, 12}, {2, 3, 0}, {3, 2}, {5, 9}, {0, 8, 0}}) {
    Scenario s(GetParam());
    s.establish_passive();
    auto packet = s.build({.flags = kAck | kPsh, .seq = 1, .ack = 1, .bytes = 20});
    with_options(options)(packet);
    s.send_raw(packet);
    EXPECT_EQ(s.expect(kAck).ack, 21u);
  }
}

TEST_P(BadOptions, SynKeepsWhatStandsBeforeAMalformedOne) {  // RFC 9293 3.2, MUST-7
  Scenario s(GetParam());
  s.listen();
  auto packet = s.build({.flags = kSyn});
  with_options({2, 4, 1, 244, 254, 1, 4, 2, 1, 1, 1, 1})(packet);  // MSS 500, and SACK behind
  s.send_raw(packet);
  EXPECT_FALSE(s.expect(kSyn | kAck).options.sack_permitted);
  s.send({.flags = kAck, .seq = 1, .ack = 1});
  ASSERT_GE(s.accept(), 0);
  s.write(2000);
  EXPECT_EQ(s.expect(kAck).bytes, 500u);
}

using Urgent = OverBoth;
INSTANTIATE_OVER_BOTH(Urgent);

TEST_P(Urgent, PointerIsIgnored) {  // RFC 6093 6: applications should not; text stays in line
  Scenario s(GetParam());
  s.establish_passive();
  auto packet = s.build({.flags = kAck | kPsh | kUrg, .seq = 1, .ack = 1, .bytes = 20});
  packet[tcp_at(packet) + 18] = 0xff;  // far beyond the text
  seal(packet);
  s.send_raw(packet);
  EXPECT_EQ(s.expect(kAck).ack, 21u);
  EXPECT_EQ(s.read(), 20);
}

using Overlap = OverBoth;
INSTANTIATE_OVER_BOTH(Overlap);

TEST_P(Overlap, EveryByteOfTheStreamIsItself) {  // RFC 9293 3.10.7.4, seventh
  Scenario s(GetParam());
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

TEST_P(Overlap, WhatWasKeptFirstIsNotChangedByOtherBytes) {  // RFC 9293 3.10.7.4, seventh
  Scenario s(GetParam());
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

using LyingSack = OverBoth;
INSTANTIATE_OVER_BOTH(LyingSack);

TEST_P(LyingSack, IsNotBelieved) {  // RFC 2018 5: only what was sent can have arrived
  const Blocks lies[] = {
      {{90000, 91000}},  // never sent
      {{3001, 2001}},    // ends before it begins
      {{1, 90000}},      // both
      {{2001, 2001}},    // nothing
      {{0x80000000u, 0x80000100u}},
  };
  for (const auto& blocks : lies) {
    Scenario s(GetParam());
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

using Reneging = OverBoth;
INSTANTIATE_OVER_BOTH(Reneging);

TEST_P(Reneging, ReceiverMayTakeASackBack) {  // RFC 2018 8
  Scenario s(GetParam());
  s.establish_passive();
  s.write(3000);
  s.all();
  s.send({.flags = kAck, .seq = 1, .ack = 1, .options = sack({{1001, 3001}})});
  s.send({.flags = kAck, .seq = 1, .ack = 1001});  // and the SACKed text is gone
  for (uint32_t next = 1001; next < 3001;) {
    const auto resent = s.all();
    ASSERT_FALSE(resent.empty()) << "no timer is needed";
    for (const Seg& segment : resent) {
      EXPECT_EQ(segment.seq, next);
      next += segment.bytes;
    }
    s.send({.flags = kAck, .seq = 1, .ack = next});
  }
  EXPECT_EQ(s.info().timeouts, 0u);
}

using Icmp = OverBoth;
INSTANTIATE_OVER_BOTH(Icmp);

TEST_P(Icmp, WrongQuoteIsNotBelieved) {  // RFC 5927 4.1
  StackOptions options = Scenario::plain();
  options.mtu_bytes = 2040;  // above IPv6's minimum of 1280
  Scenario s(options, GetParam());
  s.establish_passive(Scenario::offered(2000));
  s.write(1000);
  s.all();
  s.send_icmp(IcmpSays::kTooBig, 50000, 1280);
  s.send_icmp(IcmpSays::kTooBig, 0xffff0000u, 1280);
  EXPECT_EQ(s.drops(Drop::kIcmpBadQuote), 2u);
  EXPECT_EQ(s.info().mss_bytes, 2000u);
  s.peer_port = 9;  // of no connection
  s.send_icmp(IcmpSays::kNoPort, 1);
  EXPECT_EQ(s.drops(Drop::kIcmpBadQuote), 3u);
  s.expect_silence();
}

TEST_P(Icmp, HardErrorDoesNotEndAnOpenConnection) {  // RFC 5927 5.2
  Scenario s(GetParam());
  s.establish_passive();
  s.write(1000);
  s.all();
  s.send_icmp(IcmpSays::kNoPort, 1);
  EXPECT_EQ(s.state(), tcp::State::kEstablished);
}

TEST_P(Icmp, HardErrorEndsAnOpeningOne) {  // RFC 1122 4.2.3.9
  Scenario s(GetParam());
  s.connect();
  s.expect(kSyn);
  s.send_icmp(IcmpSays::kProhibited, 0);
  EXPECT_EQ(s.error(), EHOSTUNREACH);
}

TEST_P(Icmp, AHostWithoutAListenerRefuses) {  // RFC 1122 4.2.3.9, as RST would
  for (const IcmpSays what : {IcmpSays::kNoPort, IcmpSays::kNoProtocol}) {
    Scenario s(GetParam());
    s.connect();
    s.expect(kSyn);
    s.send_icmp(what, 0);
    EXPECT_EQ(s.error(), ECONNREFUSED) << static_cast<int>(what);
  }
}

TEST_P(Icmp, TimeoutOfAnOpenConnectionEndsWithWhatWasHeard) {  // RFC 9293 3.9.2.2, SHLD-25
  Scenario s(GetParam());
  s.establish_passive();
  s.set(IPPROTO_TCP, TCP_USER_TIMEOUT, 3000);
  s.write(1000);
  s.all();
  s.send_icmp(IcmpSays::kTimeExceeded, 1);
  EXPECT_EQ(s.error(), 0);
  s.wait(millis(3100));
  EXPECT_EQ(s.error(), EHOSTUNREACH);
}

TEST_P(Icmp, SoftErrorDoesNot) {  // RFC 1122 4.2.3.9
  Scenario s(GetParam());
  s.connect();
  s.expect(kSyn);
  s.send_icmp(IcmpSays::kTimeExceeded, 0);
  EXPECT_EQ(s.error(), 0);
  s.expect_later(kSyn);
}

}  // namespace
}  // namespace lyre::conformance
