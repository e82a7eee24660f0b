#include "stack/ip/icmp_error.h"

#include <gtest/gtest.h>

#include "tests/unit/stack/ip/frame_builder.h"

namespace lyre::ip {
namespace {

using wire::IcmpVerdict;

const FourTuple kTuple{{kOwnIp, 4000}, {kPeerIp, 80}};

std::optional<IcmpError> error_of(uint8_t type, uint8_t code, uint32_t rest, Drop& drop) {
  const std::vector<uint8_t> quote = quoted_segment(kTuple, SeqNum(77));
  const std::vector<uint8_t> message = icmp_message(type, code, rest, quote);
  const auto icmp = wire::parse_icmp(message, drop);
  EXPECT_TRUE(icmp);
  return parse_icmp_error(*icmp, drop);
}

TEST(IcmpError, NamesTheConnectionAndTheSegment) {
  Drop drop{};
  const auto error = error_of(wire::kIcmpUnreachable, wire::kUnreachablePort, 0, drop);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->tuple, kTuple);
  EXPECT_EQ(error->seq, SeqNum(77));
  EXPECT_EQ(error->verdict, IcmpVerdict::kRefused);
  EXPECT_EQ(error->mtu_bytes, 0u);
}

TEST(IcmpError, HardAndSoftAreAsRfc1122Says) {
  // RFC 1122 4.2.3.9: 0, 1 and 5 are soft, time exceeded and parameter problem as well.
  // RFC 1122 3.2.2.1 and RFC 1812 5.2.7.1 have the codes.
  const auto verdict_of = [](uint8_t type, uint8_t code) {
    Drop drop{};
    return error_of(type, code, 0, drop)->verdict;
  };
  for (const uint8_t code : std::initializer_list<uint8_t>{0, 1, 5, 11, 12}) {
    EXPECT_EQ(verdict_of(wire::kIcmpUnreachable, code), IcmpVerdict::kSoft) << int{code};
  }
  for (const uint8_t code : std::initializer_list<uint8_t>{2, 3}) {
    EXPECT_EQ(verdict_of(wire::kIcmpUnreachable, code), IcmpVerdict::kRefused) << int{code};
  }
  for (const uint8_t code : std::initializer_list<uint8_t>{9, 10, 13}) {
    EXPECT_EQ(verdict_of(wire::kIcmpUnreachable, code), IcmpVerdict::kUnreachable) << int{code};
  }
  EXPECT_EQ(verdict_of(wire::kIcmpTimeExceeded, 0), IcmpVerdict::kSoft);
  EXPECT_EQ(verdict_of(wire::kIcmpParameterProblem, 0), IcmpVerdict::kSoft);
}

TEST(IcmpError, TooBigTellsTheMtu) {
  // RFC 1191 4.
  Drop drop{};
  const auto error = error_of(wire::kIcmpUnreachable, wire::kUnreachableTooBig, 1400, drop);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->mtu_bytes, 1400u);
  EXPECT_EQ(error->verdict, IcmpVerdict::kSoft);
}

TEST(IcmpError, AnOldRouterMeansTheNextPlateau) {
  // RFC 1191 5: below the quoted packet's 1500 bytes.
  Drop drop{};
  EXPECT_EQ(error_of(wire::kIcmpUnreachable, wire::kUnreachableTooBig, 0, drop)->mtu_bytes, 1492u);
  // RFC 1191 7: the same for packets of other lengths.
  for (const auto& [sent, plateau] : std::initializer_list<std::pair<uint16_t, uint32_t>>{
           {9000, 8166}, {1493, 1492}, {1492, 1006}, {576, 508}, {69, 68}, {40, 68}}) {
    std::vector<uint8_t> quote = quoted_segment(kTuple, SeqNum(77));
    wire::write_be16(quote.data() + 2, sent);
    const auto message = icmp_message(wire::kIcmpUnreachable, wire::kUnreachableTooBig, 0, quote);
    EXPECT_EQ(parse_icmp_error(*wire::parse_icmp(message, drop), drop)->mtu_bytes, plateau) << sent;
  }
}

TEST(IcmpError, RefusesAnMtuThatIpv4DoesNotAllow) {
  Drop drop{};
  EXPECT_FALSE(error_of(wire::kIcmpUnreachable, wire::kUnreachableTooBig, 67, drop));
  EXPECT_EQ(drop, Drop::kIcmpMalformed);
}

TEST(IcmpError, IgnoresWhatIsNoError) {
  Drop drop{};
  EXPECT_FALSE(error_of(wire::kIcmpEchoReply, 0, 0, drop));
  EXPECT_EQ(drop, Drop::kIcmpIgnored);
  EXPECT_FALSE(error_of(5, 0, 0, drop)) << "redirect";
  EXPECT_EQ(drop, Drop::kIcmpIgnored);
}

}  // namespace
}  // namespace lyre::ip
