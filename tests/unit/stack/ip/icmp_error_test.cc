#include "stack/ip/icmp_error.h"

#include <gtest/gtest.h>

#include "tests/unit/stack/ip/frame_builder.h"

namespace lyre::ip {
namespace {

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
  EXPECT_TRUE(error->is_hard);
  EXPECT_EQ(error->mtu_bytes, 0u);
}

TEST(IcmpError, HardAndSoftAreAsRfc1122Says) {
  // RFC 1122 4.2.3.9: 0, 1 and 5 are soft, time exceeded and parameter problem as well.
  Drop drop{};
  for (const uint8_t code : std::initializer_list<uint8_t>{0, 1, 5, 11, 12}) {
    EXPECT_FALSE(error_of(wire::kIcmpUnreachable, code, 0, drop)->is_hard) << int{code};
  }
  for (const uint8_t code : std::initializer_list<uint8_t>{2, 3, 9, 10, 13}) {
    EXPECT_TRUE(error_of(wire::kIcmpUnreachable, code, 0, drop)->is_hard) << int{code};
  }
  EXPECT_FALSE(error_of(wire::kIcmpTimeExceeded, 0, 0, drop)->is_hard);
  EXPECT_FALSE(error_of(wire::kIcmpParameterProblem, 0, 0, drop)->is_hard);
}

TEST(IcmpError, TooBigTellsTheMtu) {
  Drop drop{};
  const auto error = error_of(wire::kIcmpUnreachable, wire::kUnreachableTooBig, 1400, drop);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->mtu_bytes, 1400u);
  EXPECT_FALSE(error->is_hard);
}

TEST(IcmpError, AnOldRouterMeansTheNextPlateau) {
  // RFC 1191 5: below the quoted packet's 1500 bytes.
  Drop drop{};
  EXPECT_EQ(error_of(wire::kIcmpUnreachable, wire::kUnreachableTooBig, 0, drop)->mtu_bytes, 1492u);
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
