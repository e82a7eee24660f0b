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
        {"OptionOfLength0", kBoth, [](Peer& p) { return p.text_with_option_bytes(2, 0); },
         Drop::kTcpBadOptions, kNothing},
        {"OptionOfLength1", kBoth, [](Peer& p) { return p.text_with_option_bytes(2, 1); },
         Drop::kTcpBadOptions, kNothing},
        {"OptionOfLength255", kBoth, [](Peer& p) { return p.text_with_option_bytes(77, 255); },
         Drop::kTcpBadOptions, kNothing},
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

}  // namespace
}  // namespace lyre::test
