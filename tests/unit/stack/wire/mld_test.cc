#include "stack/wire/mld.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "stack/base/ipv6_address.h"
#include "tests/unit/stack/wire/bytes_of.h"

namespace lyre::wire {
namespace {

const AddressPair kFromRouter{link_local_address({{2, 0, 0, 0, 0, 9}}), kAllNodes};
constexpr IpAddress kGroup = solicited_node_group(kAllNodes);

std::optional<MldQuery> parse_query(const std::vector<uint8_t>& message,
                                    const AddressPair& addresses = kFromRouter,
                                    uint8_t hop_limit = kMldHopLimit) {
  Drop drop = Drop::kCount;
  const auto out = parse_mld_query(addresses, hop_limit, message, drop);
  if (!out) {
    EXPECT_EQ(drop, Drop::kIcmpMalformed);
  }
  return out;
}

/// A general query: maximum response code 0x2710, which is 10 s.
std::vector<uint8_t> query_of(size_t bytes) {
  std::vector<uint8_t> out = bytes_of("82 00 00 00 27 10 00 00");
  out.resize(bytes);
  return out;
}

TEST(Mld, TheLengthTellsTheVersion) {
  // RFC 3810 8.1.
  EXPECT_TRUE(parse_query(query_of(24))->is_version1);
  EXPECT_FALSE(parse_query(query_of(28))->is_version1);
  EXPECT_FALSE(parse_query(query_of(44))->is_version1);
  for (const size_t bytes : {size_t{8}, size_t{23}, size_t{25}, size_t{27}}) {
    EXPECT_FALSE(parse_query(query_of(bytes))) << bytes;
  }
}

TEST(Mld, ReadsGroupAndPatience) {
  auto message = query_of(28);
  EXPECT_TRUE(parse_query(message)->group.is_unspecified());
  EXPECT_EQ(parse_query(message)->response_ms_max, 10'000u);
  std::copy(kGroup.bytes.begin(), kGroup.bytes.end(), message.begin() + 8);
  EXPECT_EQ(parse_query(message)->group, kGroup);
  message[8] = 0xfd;
  EXPECT_FALSE(parse_query(message)) << "no group";
  // RFC 3810 5.1.3: (mantissa 0x234 | 0x1000) << (exponent 1 + 3).
  message = query_of(28);
  message[4] = 0x92;
  message[5] = 0x34;
  EXPECT_EQ(parse_query(message)->response_ms_max, 0x1234u << 4);
}

TEST(Mld, QueriesFromAfarAreRefused) {
  // RFC 3810 5 and 6.2.
  EXPECT_FALSE(parse_query(query_of(28), kFromRouter, 2));
  EXPECT_FALSE(parse_query(query_of(28), {kAllNodes, kAllNodes}));
}

TEST(Mld, WritesBothReports) {
  // RFC 3810 5.2.12, RFC 2710 3, and the router alert of RFC 2711 2.1.
  std::vector<uint8_t> out(kMldBytesMax);
  const AddressPair addresses{kFromRouter.source, kMldRouters};
  Drop drop{};
  ASSERT_EQ(write_mld_report({kGroup, false, true}, addresses, out), 36);
  EXPECT_EQ(std::vector<uint8_t>(out.begin(), out.begin() + 8),
            bytes_of("3a 00 05 02 00 00 01 00"));
  auto report = parse_icmpv6(addresses, std::span(out).subspan(8), drop);
  ASSERT_TRUE(report) << "checksum";
  EXPECT_EQ(report->type, kMldReportV2);
  EXPECT_EQ(out[15], 1) << "one record";
  EXPECT_EQ(out[16], 4) << "change to exclude";
  EXPECT_TRUE(std::equal(kGroup.bytes.begin(), kGroup.bytes.end(), out.begin() + 20));
  write_mld_report({kGroup, false, false}, addresses, out);
  EXPECT_EQ(out[16], 2) << "mode is exclude";

  ASSERT_EQ(write_mld_report({kGroup, true, false}, addresses, out), 32);
  report = parse_icmpv6(addresses, std::span(out).subspan(8, 24), drop);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->type, kMldReportV1);
  EXPECT_TRUE(std::equal(kGroup.bytes.begin(), kGroup.bytes.end(), out.begin() + 16));
}

}  // namespace
}  // namespace lyre::wire
