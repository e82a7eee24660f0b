#include <gtest/gtest.h>

#include <optional>

#include "stack/wire/arp.h"
#include "tests/unit/stack/worker/hand_made_peer.h"

// What is wrong with a frame is counted once, under its own name, and answered as the RFC says or
// not at all: through the real worker, beside an open connection.
namespace lyre::test {
namespace {

using Frame = HandMadePeer::Frame;
using wire::TcpFlags;

constexpr uint32_t kFarBytes = 1u << 30;  ///< behind any window
constexpr uint16_t kClosedPort = 81;
constexpr uint8_t kUdp = 17;
constexpr const char* kNothing = "";

enum class Family : uint8_t { kBoth, kIpv4, kIpv6 };

struct Row {
  const char* name;
  Family family;
  Frame (*make)(HandMadePeer&);  ///< what went before may be given to the peer in there
  std::optional<Drop> drop;      ///< none: it is used, or nothing of it is wrong
  const char* answer;
};

void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

Frame cut(Frame frame, size_t bytes) {
  frame.resize(bytes);
  return frame;
}

Frame with_byte(Frame frame, size_t at, uint8_t value) {
  frame[at] = value;
  return frame;
}

Frame arp_with(HandMadePeer& peer, size_t at, uint8_t value) {
  Frame frame(wire::kEthernetHeaderBytes + wire::kArpBytes);
  wire::write_ethernet({peer.text.frame.destination, peer.text.frame.source, wire::kEtherTypeArp},
                       std::span(frame).first<wire::kEthernetHeaderBytes>());
  wire::write_arp({.sender_mac = peer.text.frame.source,
                   .sender_ip = peer.text.tuple.local.address,
                   .target_ip = peer.text.tuple.remote.address},
                  std::span(frame).subspan<wire::kEthernetHeaderBytes, wire::kArpBytes>());
  return with_byte(std::move(frame), wire::kEthernetHeaderBytes + at, value);
}

/// The text with one thing about it changed.
template <typename Change>
Frame text_but(const HandMadePeer& peer, Change change) {
  ip::TcpOutput out = peer.text;
  change(out);
  return ip::tcp_frame(out);
}

/// The text behind extension headers, of which the first is `first`.
Frame extended(const HandMadePeer& peer, uint8_t first, Frame headers) {
  const Frame segment = peer.tcp_bytes(peer.text);
  headers.insert(headers.end(), segment.begin(), segment.end());
  return peer.ip_frame(first, headers);
}

class BadInput : public testing::TestWithParam<std::tuple<Row, bool>> {};

TEST_P(BadInput, IsCountedOnceAndAnsweredAsTheRfcSays) {
  const auto& [row, is_ipv6] = GetParam();
  HandMadePeer peer(is_ipv6);
  const Frame frame = row.make(peer);
  peer.forget_drops();
  EXPECT_EQ(peer.give(frame), row.answer);
  const std::string expected =
      row.drop ? std::string(kDropTexts[static_cast<size_t>(*row.drop)].key) + " 1 " : "";
  EXPECT_EQ(peer.drops(), expected);
}

std::vector<std::tuple<Row, bool>> by_family(const std::vector<Row>& rows) {
  std::vector<std::tuple<Row, bool>> out;
  for (const Row& row : rows) {
    if (row.family != Family::kIpv6) out.push_back({row, false});
    if (row.family != Family::kIpv4) out.push_back({row, true});
  }
  return out;
}

std::string name_of(const testing::TestParamInfo<BadInput::ParamType>& tested) {
  return std::string(std::get<0>(tested.param).name) + (std::get<1>(tested.param) ? "6" : "4");
}

using Peer = HandMadePeer;
constexpr Family kBoth = Family::kBoth;
constexpr Family kIpv4 = Family::kIpv4;
constexpr Family kIpv6 = Family::kIpv6;

INSTANTIATE_TEST_SUITE_P(
    Ethernet, BadInput,
    testing::ValuesIn(by_family({
        {"Valid", kBoth, [](Peer& p) { return ip::tcp_frame(p.text); }, std::nullopt, "ACK "},
        {"ShortEthernet", kBoth, [](Peer& p) { return cut(ip::tcp_frame(p.text), 13); },
         Drop::kEthTooShort, kNothing},
        {"OtherMac", kBoth, [](Peer& p) { return with_byte(ip::tcp_frame(p.text), 5, 0x77); },
         Drop::kEthNotForUs, kNothing},
        {"UnknownType", kBoth, [](Peer& p) { return with_byte(ip::tcp_frame(p.text), 12, 0x99); },
         Drop::kEthUnknownType, kNothing},
        {"ShortArp", kIpv4, [](Peer& p) { return cut(arp_with(p, 0, 0), 40); }, Drop::kArpMalformed,
         kNothing},
        {"ArpOfOtherHardware", kIpv4, [](Peer& p) { return arp_with(p, 1, 6); },
         Drop::kArpMalformed, kNothing},
        {"ArpOfOtherAddressLength", kIpv4, [](Peer& p) { return arp_with(p, 5, 16); },
         Drop::kArpMalformed, kNothing},
        {"ArpNeitherRequestNorReply", kIpv4, [](Peer& p) { return arp_with(p, 7, 9); },
         Drop::kArpMalformed, kNothing},
    })),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Ip, BadInput,
    testing::ValuesIn(by_family({
        {"ShortIp", kBoth, [](Peer& p) { return cut(ip::tcp_frame(p.text), 14 + 19); },
         Drop::kIpTooShort, kNothing},
        {"OtherVersion", kBoth, [](Peer& p) { return p.text_with_ip_byte(0, 0x55); },
         Drop::kIpBadVersion, kNothing},
        {"HeaderTooSmall", kIpv4, [](Peer& p) { return p.text_with_ip_byte(0, 0x44); },
         Drop::kIpBadHeaderLength, kNothing},
        {"HeaderPastTheTotal", kIpv4,
         [](Peer& p) { return with_byte(p.text_with_ip_byte(0, 0x4f), 14 + 3, 59); },
         Drop::kIpBadHeaderLength, kNothing},
        {"HeaderPastTheEnd", kIpv4,
         [](Peer& p) { return cut(p.text_with_ip_byte(0, 0x4f), 14 + 59); }, Drop::kIpTooShort,
         kNothing},
        {"TotalPastTheEnd4", kIpv4, [](Peer& p) { return p.text_with_ip_byte(2, 0xff); },
         Drop::kIpTooShort, kNothing},
        {"TotalPastTheEnd6", kIpv6, [](Peer& p) { return p.text_with_ip_byte(4, 0xff); },
         Drop::kIpTooShort, kNothing},
        {"TotalWithoutATcpHeader4", kIpv4, [](Peer& p) { return p.text_with_ip_byte(3, 39); },
         Drop::kTcpTooShort, kNothing},
        {"TotalWithoutATcpHeader6", kIpv6, [](Peer& p) { return p.text_with_ip_byte(5, 19); },
         Drop::kTcpTooShort, kNothing},
        {"TotalThatLeavesTextOut4", kIpv4, [](Peer& p) { return p.text_with_ip_byte(3, 100); },
         Drop::kTcpBadChecksum, kNothing},
        {"TotalThatLeavesTextOut6", kIpv6, [](Peer& p) { return p.text_with_ip_byte(5, 100); },
         Drop::kTcpBadChecksum, kNothing},
        {"BadSum", kIpv4, [](Peer& p) { return with_byte(ip::tcp_frame(p.text), 14 + 8, 3); },
         Drop::kIpBadChecksum, kNothing},
        {"FirstFragment", kIpv4, [](Peer& p) { return p.text_with_ip_byte(6, 0x20); },
         Drop::kIpFragment, kNothing},
        {"LaterFragment", kIpv4, [](Peer& p) { return p.text_with_ip_byte(7, 1); },
         Drop::kIpFragment, kNothing},
        {"OtherDestination4", kIpv4, [](Peer& p) { return p.text_with_ip_byte(19, 77); },
         Drop::kIpNotForUs, kNothing},
        {"OtherDestination6", kIpv6, [](Peer& p) { return p.text_with_ip_byte(39, 77); },
         Drop::kIpNotForUs, kNothing},
        {"SourceIsAGroup4", kIpv4, [](Peer& p) { return p.text_with_ip_byte(12, 224); },
         Drop::kIpBadSource, kNothing},
        {"SourceIsAGroup6", kIpv6, [](Peer& p) { return p.text_with_ip_byte(8, 0xff); },
         Drop::kIpBadSource, kNothing},
        {"UnknownProtocol", kIpv4, [](Peer& p) { return p.ip_frame(kUdp, Frame(20)); },
         Drop::kIpUnknownProtocol, kNothing},
        // RFC 8200 4: the sender is told.
        {"UnknownProtocol", kIpv6, [](Peer& p) { return p.ip_frame(kUdp, Frame(20)); },
         Drop::kIpUnknownProtocol, "ICMP "},
    })),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Extensions, BadInput,
    testing::ValuesIn(by_family({
        {"WellFormed", kIpv6,
         [](Peer& p) {
           return extended(p, 0, {6, 0, 1, 4, 0, 0, 0, 0});
         },
         std::nullopt, "ACK "},
        {"PastTheEnd", kIpv6,
         [](Peer& p) {
           return extended(p, 0, {6, 250, 1, 4, 0, 0, 0, 0});
         },
         Drop::kIpBadExtension, kNothing},
        {"CutOff", kIpv6,
         [](Peer& p) {
           return p.ip_frame(60, Frame{6, 0, 1});
         },
         Drop::kIpBadExtension, kNothing},
        {"OptionPastItsHeader", kIpv6,
         [](Peer& p) {
           return extended(p, 60, {6, 0, 1, 5, 0, 0, 0, 0});
         },
         Drop::kIpBadExtension, kNothing},
        {"UnknownOptionThatSaysDiscard", kIpv6,
         [](Peer& p) {
           return extended(p, 60, {6, 0, 0x45, 4, 0, 0, 0, 0});
         },
         Drop::kIpBadExtension, kNothing},
        // RFC 8200 4.2.
        {"UnknownOptionThatSaysTell", kIpv6,
         [](Peer& p) {
           return extended(p, 60, {6, 0, 0x85, 4, 0, 0, 0, 0});
         },
         Drop::kIpBadExtension, "ICMP "},
        // RFC 8200 4.1.
        {"HopByHopThatIsNotFirst", kIpv6,
         [](Peer& p) {
           return extended(p, 60, {0, 0, 1, 4, 0, 0, 0, 0, 6, 0, 1, 4, 0, 0, 0, 0});
         },
         Drop::kIpBadExtension, "ICMP "},
        // RFC 8200 4.4.
        {"RoutingWithAWayToGo", kIpv6,
         [](Peer& p) {
           return extended(p, 43, {6, 0, 0, 1, 0, 0, 0, 0});
         },
         Drop::kIpBadExtension, "ICMP "},
        {"Fragment", kIpv6,
         [](Peer& p) {
           return extended(p, 44, {6, 0, 0, 1, 0, 0, 0, 0});
         },
         Drop::kIpFragment, kNothing},
        {"NoNextHeader", kIpv6, [](Peer& p) { return p.ip_frame(59, Frame(8)); },
         Drop::kIpUnknownProtocol, kNothing},
    })),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    TcpHeader, BadInput,
    testing::ValuesIn(by_family({
        {"OffsetTooSmall", kBoth, [](Peer& p) { return p.text_with_tcp_byte(12, 0x40); },
         Drop::kTcpBadDataOffset, kNothing},
        {"OffsetPastTheEnd", kBoth,
         [](Peer& p) {
           p.text.payload_bytes = 10;
           return p.text_with_tcp_byte(12, 0xf0);
         },
         Drop::kTcpBadDataOffset, kNothing},
        {"BadSum", kBoth,
         [](Peer& p) {
           Frame frame = ip::tcp_frame(p.text);
           frame.back() ^= 1;
           return frame;
         },
         Drop::kTcpBadChecksum, kNothing},
        // RFC 9293 3.2 (MUST-7): the segment counts without the option and those behind it.
        {"OptionOfLength0", kBoth, [](Peer& p) { return p.text_with_option_bytes(2, 0); },
         std::nullopt, "ACK "},
        {"OptionOfLength1", kBoth, [](Peer& p) { return p.text_with_option_bytes(2, 1); },
         std::nullopt, "ACK "},
        {"OptionOfLength255", kBoth, [](Peer& p) { return p.text_with_option_bytes(77, 255); },
         std::nullopt, "ACK "},
        // RFC 9293 3.7.1 sets no least value: what is absurd counts as the least that we send.
        {"MssOf0", kBoth,
         [](Peer& p) { return p.foreign(TcpFlags::kSyn, Peer::kListeningPort, {.mss = 0}); },
         std::nullopt, "SYN ACK "},
    })),
    name_of);

/// RFC 9293 3.10.7.1 and 3.10.7.2.
INSTANTIATE_TEST_SUITE_P(
    NoConnection, BadInput,
    testing::ValuesIn(by_family({
        {"NoFlagsToAListener", kBoth, [](Peer& p) { return p.foreign(0); }, Drop::kTcpBadFlags,
         kNothing},
        {"FinToAListener", kBoth, [](Peer& p) { return p.foreign(TcpFlags::kFin); },
         Drop::kTcpBadFlags, kNothing},
        {"PshToAListener", kBoth, [](Peer& p) { return p.foreign(TcpFlags::kPsh); },
         Drop::kTcpBadFlags, kNothing},
        {"UrgToAListener", kBoth, [](Peer& p) { return p.foreign(TcpFlags::kUrg); },
         Drop::kTcpBadFlags, kNothing},
        {"RstToAListener", kBoth, [](Peer& p) { return p.foreign(TcpFlags::kRst); },
         Drop::kTcpNoConnection, kNothing},
        {"AckToAListener", kBoth, [](Peer& p) { return p.foreign(TcpFlags::kAck); },
         Drop::kTcpNoConnection, "RST "},
        {"SynAckToAListener", kBoth,
         [](Peer& p) { return p.foreign(TcpFlags::kSyn | TcpFlags::kAck); }, Drop::kTcpNoConnection,
         "RST "},
        {"NoFlagsToNobody", kBoth, [](Peer& p) { return p.foreign(0, kClosedPort); },
         Drop::kTcpNoConnection, "RST ACK "},
        {"SynToNobody", kBoth, [](Peer& p) { return p.foreign(TcpFlags::kSyn, kClosedPort); },
         Drop::kTcpNoConnection, "RST ACK "},
        {"AckToNobody", kBoth, [](Peer& p) { return p.foreign(TcpFlags::kAck, kClosedPort); },
         Drop::kTcpNoConnection, "RST "},
        {"RstToNobody", kBoth, [](Peer& p) { return p.foreign(TcpFlags::kRst, kClosedPort); },
         Drop::kTcpNoConnection, kNothing},
    })),
    name_of);

/// RFC 9293 3.10.7.4, RFC 5961 3.2, 4.2 and 5.2, RFC 7323 5.3.
INSTANTIATE_TEST_SUITE_P(
    Connection, BadInput,
    testing::ValuesIn(by_family({
        {"RstThatMatches", kBoth, [](Peer& p) { return p.bare(TcpFlags::kRst); }, std::nullopt,
         kNothing},
        {"RstInTheWindow", kBoth, [](Peer& p) { return p.bare(TcpFlags::kRst, 5); },
         Drop::kTcpBadReset, "ACK "},
        {"RstOutsideTheWindow", kBoth, [](Peer& p) { return p.bare(TcpFlags::kRst, kFarBytes); },
         Drop::kTcpOutOfWindow, kNothing},
        {"RstAtTheEdge", kBoth,
         [](Peer& p) { return p.bare(TcpFlags::kRst, p.flown.header.window); },
         Drop::kTcpOutOfWindow, kNothing},
        {"SynInTheWindow", kBoth, [](Peer& p) { return p.bare(TcpFlags::kSyn, 5); },
         Drop::kTcpBadSyn, "ACK "},
        {"SynOutsideTheWindow", kBoth, [](Peer& p) { return p.bare(TcpFlags::kSyn, kFarBytes); },
         Drop::kTcpOutOfWindow, "ACK "},
        {"NoFlags", kBoth, [](Peer& p) { return p.bare(0); }, Drop::kTcpBadAck, kNothing},
        {"TextWithoutAck", kBoth,
         [](Peer& p) {
           return text_but(p, [](auto& out) { out.header.flags.bits = TcpFlags::kPsh; });
         },
         Drop::kTcpBadAck, kNothing},
        {"AckOfTheFuture", kBoth,
         [](Peer& p) {
           return text_but(p, [](auto& out) { out.header.ack += Peer::kTextBytes + 1; });
         },
         Drop::kTcpBadAck, "ACK "},
        {"AckOfThePast", kBoth,
         [](Peer& p) {
           return text_but(p, [](auto& out) { out.header.ack = out.header.ack - kFarBytes; });
         },
         Drop::kTcpBadAck, "ACK "},
        {"TextOutsideTheWindow", kBoth,
         [](Peer& p) { return text_but(p, [](auto& out) { out.header.seq += kFarBytes; }); },
         Drop::kTcpOutOfWindow, "ACK "},
        {"TextThatCameBefore", kBoth,
         [](Peer& p) {
           p.give(ip::tcp_frame(p.text));
           return ip::tcp_frame(p.text);
         },
         Drop::kTcpDuplicate, "ACK "},
        {"TextThatWaitsAlready", kBoth,
         [](Peer& p) {
           p.text.header.seq += 1000;
           p.give(ip::tcp_frame(p.text));
           return ip::tcp_frame(p.text);
         },
         Drop::kTcpDuplicate, "ACK "},
        {"OldTimestamp", kBoth,
         [](Peer& p) {
           return text_but(p, [](auto& out) { out.header.options.ts_value -= 1000; });
         },
         Drop::kTcpPaws, "ACK "},
        // Only the block is ignored (RFC 2018 8 has SACK as advice).
        {"SackOfTheFuture", kBoth,
         [](Peer& p) {
           p.text.header.options.sack_count = 1;
           p.text.header.options.sacks[0] = {p.flown.header.seq + kFarBytes,
                                             p.flown.header.seq + kFarBytes + 100};
           return p.bare(TcpFlags::kAck);
         },
         std::nullopt, kNothing},
        {"TextBehindAFin", kBoth,
         [](Peer& p) {
           p.give(p.bare(TcpFlags::kFin | TcpFlags::kAck));
           return text_but(p, [](auto& out) { out.header.seq += 1; });
         },
         Drop::kTcpOutOfWindow, kNothing},
        {"TextBehindAFinThatWaits", kBoth,
         [](Peer& p) {
           p.give(p.bare(TcpFlags::kFin | TcpFlags::kAck, 200));
           return text_but(p, [](auto& out) { out.header.seq += 200; });
         },
         Drop::kTcpOutOfWindow, "ACK "},
        {"FinThatCameBefore", kBoth,
         [](Peer& p) {
           p.give(p.bare(TcpFlags::kFin | TcpFlags::kAck));
           return p.bare(TcpFlags::kFin | TcpFlags::kAck);
         },
         Drop::kTcpOutOfWindow, "ACK "},
        {"FinBehindTheWindow", kBoth,
         [](Peer& p) { return p.bare(TcpFlags::kFin | TcpFlags::kAck, p.flown.header.window); },
         Drop::kTcpOutOfWindow, "ACK "},
    })),
    name_of);

/// What `change` makes of the quote of a segment that is under way, as told by a port unreachable.
template <typename Change>
Frame quoting(const Peer& peer, Change change) {
  Frame quote = peer.quote_of_flown();
  change(quote);
  return peer.is_ipv6 ? peer.icmp(wire::kIcmpv6Unreachable, wire::kUnreachable6Port, 0, quote)
                      : peer.icmp(wire::kIcmpUnreachable, wire::kUnreachablePort, 0, quote);
}

Frame too_big(const Peer& peer, uint32_t mtu_bytes) {
  return peer.is_ipv6 ? peer.icmp(wire::kIcmpv6TooBig, 0, mtu_bytes, peer.quote_of_flown())
                      : peer.icmp(wire::kIcmpUnreachable, wire::kUnreachableTooBig, mtu_bytes,
                                  peer.quote_of_flown());
}

/// Where the quoted TCP header begins.
size_t quoted_tcp_at(const Peer& peer) {
  return peer.is_ipv6 ? wire::kIpv6HeaderBytes : wire::kIpv4HeaderBytesMin;
}

/// RFC 5927 4.1 on what a quote must be of.
INSTANTIATE_TEST_SUITE_P(
    Icmp, BadInput,
    testing::ValuesIn(by_family({
        {"Short", kIpv4, [](Peer& p) { return p.ip_frame(wire::kIpProtocolIcmp, Frame(7)); },
         Drop::kIcmpMalformed, kNothing},
        {"Short", kIpv6, [](Peer& p) { return p.ip_frame(wire::kIpProtocolIcmpv6, Frame(7)); },
         Drop::kIcmpMalformed, kNothing},
        {"BadSum", kBoth,
         [](Peer& p) {
           Frame frame = quoting(p, [](Frame&) {});
           frame.back() ^= 1;
           return frame;
         },
         Drop::kIcmpMalformed, kNothing},
        {"UnknownType", kBoth, [](Peer& p) { return p.icmp(99, 0, 0, p.quote_of_flown()); },
         Drop::kIcmpIgnored, kNothing},
        {"EchoReplyToNobody", kIpv4,
         [](Peer& p) { return p.icmp(wire::kIcmpEchoReply, 0, 1, Frame(8)); }, Drop::kIcmpIgnored,
         kNothing},
        {"EchoReplyToNobody", kIpv6,
         [](Peer& p) { return p.icmp(wire::kIcmpv6EchoReply, 0, 1, Frame(8)); }, Drop::kIcmpIgnored,
         kNothing},
        {"ShortQuote", kBoth,
         [](Peer& p) { return quoting(p, [](Frame& quote) { quote.resize(quote.size() - 1); }); },
         Drop::kIcmpBadQuote, kNothing},
        {"NoQuote", kBoth, [](Peer& p) { return quoting(p, [](Frame& quote) { quote.clear(); }); },
         Drop::kIcmpBadQuote, kNothing},
        {"QuoteOfOtherVersion", kBoth,
         [](Peer& p) { return quoting(p, [](Frame& quote) { quote[0] ^= 0x20; }); },
         Drop::kIcmpBadQuote, kNothing},
        {"QuoteOfUdp", kBoth,
         [](Peer& p) {
           return quoting(p, [&p](Frame& quote) { quote[p.is_ipv6 ? 6 : 9] = kUdp; });
         },
         Drop::kIcmpBadQuote, kNothing},
        {"QuoteOfAnotherHost", kBoth,
         [](Peer& p) {
           return quoting(p, [&p](Frame& quote) { quote[p.is_ipv6 ? 23 : 15] ^= 0x40; });
         },
         Drop::kIcmpBadQuote, kNothing},
        {"QuoteOfNoConnection", kBoth,
         [](Peer& p) { return quoting(p, [&p](Frame& quote) { quote[quoted_tcp_at(p)] ^= 1; }); },
         Drop::kIcmpBadQuote, kNothing},
        {"QuoteOfWhatIsNotUnderWay", kBoth,
         [](Peer& p) {
           return quoting(p, [&p](Frame& quote) { quote[quoted_tcp_at(p) + 4] ^= 0x40; });
         },
         Drop::kIcmpBadQuote, kNothing},
        {"TooBigForNoLink", kIpv4, [](Peer& p) { return too_big(p, 67); }, Drop::kIcmpMalformed,
         kNothing},
        {"TooBigForNoLink", kIpv6, [](Peer& p) { return too_big(p, 1279); }, Drop::kIcmpMalformed,
         kNothing},
        {"TooBigThatIsNotSmaller", kBoth, [](Peer& p) { return too_big(p, 1500); },
         Drop::kIcmpIgnored, kNothing},
        {"PortUnreachableWhileOpen", kBoth, [](Peer& p) { return quoting(p, [](Frame&) {}); },
         Drop::kIcmpIgnored, kNothing},
        {"SolicitationFromAfar", kIpv6, [](Peer& p) { return p.icmp(135, 0, 0, Frame(16)); },
         Drop::kNdpMalformed, kNothing},
    })),
    name_of);

TEST(PathMtu, IsKnownToTheNextConnection) {  // RFC 1191 6.3, RFC 8201 5.2
  for (const bool is_ipv6 : {false, true}) {
    HandMadePeer peer(is_ipv6);
    const uint32_t headers = wire::ip_and_tcp_header_bytes(peer.text.tuple.local.address);
    peer.give(too_big(peer, 1400));
    EXPECT_EQ(peer.mss_of_another_connection(), 1400 - headers);
  }
}

}  // namespace
}  // namespace lyre::test
