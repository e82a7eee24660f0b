#include "stack/wire/ndp.h"

#include <gtest/gtest.h>

#include "stack/base/ipv6_address.h"
#include "tests/unit/stack/wire/bytes_of.h"

namespace lyre::wire {
namespace {

constexpr MacAddress kMac{{2, 0, 0, 0, 0, 2}};
constexpr IpAddress kOwn{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
constexpr IpAddress kPeer{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};
constexpr IpAddress kRouter = link_local_address(kMac);

constexpr char kOwnDump[] = "fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01";
constexpr char kPeerDump[] = "fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 02";
constexpr char kRouterDump[] = "fe 80 00 00 00 00 00 00 00 00 00 ff fe 00 00 02";

std::vector<uint8_t> join(std::initializer_list<const char*> dumps) {
  std::vector<uint8_t> out;
  for (const char* dump : dumps) {
    const auto bytes = bytes_of(dump);
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  return out;
}

std::optional<NdpMessage> parse(const std::vector<uint8_t>& message,
                                const AddressPair& addresses = {kPeer, kOwn},
                                uint8_t hop_limit = kNdpHopLimit) {
  Drop drop = Drop::kCount;
  const auto out = parse_ndp(addresses, hop_limit, message, drop);
  if (!out) {
    EXPECT_EQ(drop, Drop::kNdpMalformed);
  }
  return out;
}

std::vector<uint8_t> solicitation(const char* options = "") {
  return join({"87 00 00 00 00 00 00 00", kOwnDump, options});
}

TEST(Ndp, ReadsASolicitation) {
  // RFC 4861 4.3.
  const auto message = parse(solicitation("0e 01 01 02 03 04 05 06 01 01 02 00 00 00 00 02"));
  ASSERT_TRUE(message);
  EXPECT_EQ(message->type, NdpType::kNeighbourSolicitation);
  EXPECT_EQ(message->target, kOwn);
  EXPECT_EQ(message->source_mac, kMac);
}

TEST(Ndp, MessagesFromAfarAreRefused) {
  // RFC 4861 3.1.
  // RFC 4861 7.1.1: a router would have lowered the hop limit.
  EXPECT_FALSE(parse(solicitation(), {kPeer, kOwn}, 254));
  auto coded = solicitation();
  coded[1] = 1;
  EXPECT_FALSE(parse(coded));
}

TEST(Ndp, EveryLengthButTheRightOnesIsRefused) {
  const auto whole = solicitation("01 01 02 00 00 00 00 02");
  for (size_t length = 0; length < whole.size(); ++length) {
    const std::vector<uint8_t> cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(length));
    EXPECT_EQ(parse(cut).has_value(), length == 24) << length;
  }
  EXPECT_FALSE(parse(solicitation("01 00 02 00 00 00 00 02"))) << "RFC 4861 4.6";
  EXPECT_FALSE(parse(solicitation("01 02 02 00 00 00 00 02")));
}

TEST(Ndp, AProbeForDuplicatesGoesToTheGroupAndNamesNoSender) {
  // RFC 4861 7.1.1.
  const IpAddress group = solicited_node_group(kOwn);
  EXPECT_TRUE(parse(solicitation(), {IpAddress{}, group}));
  EXPECT_FALSE(parse(solicitation(), {IpAddress{}, kOwn}));
  EXPECT_FALSE(parse(solicitation("01 01 02 00 00 00 00 02"), {IpAddress{}, group}));
}

TEST(Ndp, TargetsThatNobodyCanHaveAreRefused) {
  const char kHead[] = "87 00 00 00 00 00 00 00";
  EXPECT_FALSE(parse(join({kHead, "ff 02 00 00 00 00 00 00 00 00 00 00 00 00 00 01"})));
  EXPECT_FALSE(parse(join({kHead, "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"})));
  EXPECT_FALSE(parse(join({kHead, "00 00 00 00 00 00 00 00 00 00 ff ff 0a 00 00 01"})));
}

TEST(Ndp, AGroupIsNoSendersAddress) {
  const auto message = parse(solicitation("01 01 33 33 00 00 00 01"));
  ASSERT_TRUE(message);
  EXPECT_FALSE(message->source_mac);
}

TEST(Ndp, ReadsAnAdvertisement) {
  // RFC 4861 4.4.
  const auto bytes = join({"88 00 00 00 e0 00 00 00", kPeerDump, "02 01 02 00 00 00 00 02"});
  const auto message = parse(bytes);
  ASSERT_TRUE(message);
  EXPECT_TRUE(message->is_router && message->is_solicited && message->overrides);
  EXPECT_EQ(message->target, kPeer);
  EXPECT_EQ(message->target_mac, kMac);
  // RFC 4861 7.1.2: a multicast advertisement is never a reply to a solicitation.
  EXPECT_FALSE(parse(bytes, {kPeer, kAllNodes}));
}

TEST(Ndp, ReadsARoutersAdvertisement) {
  // RFC 4861 6.1, RFC 4191 2.2.
  // Preference high, lifetime 1800 s; times and an MTU option, which are skipped.
  const auto bytes = join({"86 00 00 00 40 08 07 08 00 00 75 30 00 00 03 e8",
                           "01 01 02 00 00 00 00 02", "05 01 00 00 00 00 05 78"});
  const auto message = parse(bytes, {kRouter, kAllNodes});
  ASSERT_TRUE(message);
  EXPECT_EQ(message->router_lifetime_s, 1800);
  EXPECT_EQ(message->preference, RouterPreference::kHigh);
  EXPECT_EQ(message->source_mac, kMac);
  EXPECT_FALSE(parse(bytes, {kPeer, kAllNodes})) << "RFC 4861 6.1.2: only from link-local";
}

TEST(Ndp, APreferenceThatIsReservedIsMedium) {
  // RFC 4191 2.1 and 2.2, the third and fourth bit from the right being 01, 00, 11 and 10.
  const std::pair<const char*, RouterPreference> kFlags[] = {
      {"86 00 00 00 40 08 07 08", RouterPreference::kHigh},
      {"86 00 00 00 40 00 07 08", RouterPreference::kMedium},
      {"86 00 00 00 40 18 07 08", RouterPreference::kLow},
      {"86 00 00 00 40 10 07 08", RouterPreference::kMedium}};
  for (const auto& [head, preference] : kFlags) {
    const auto message = parse(join({head, "00 00 00 00 00 00 00 00"}), {kRouter, kAllNodes});
    ASSERT_TRUE(message) << head;
    EXPECT_EQ(message->preference, preference) << head;
  }
}

TEST(Ndp, AQuestionForRoutersFromNobodyNamesNobody) {
  // RFC 4861 6.1.1.
  const char kHead[] = "85 00 00 00 00 00 00 00";
  const char kOption[] = "01 01 02 00 00 00 00 02";
  EXPECT_TRUE(parse(join({kHead}), {IpAddress{}, kAllRouters}));
  EXPECT_TRUE(parse(join({kHead, kOption}), {kPeer, kAllRouters}));
  EXPECT_FALSE(parse(join({kHead, kOption}), {IpAddress{}, kAllRouters}));
  EXPECT_FALSE(parse(join({kHead}), {kPeer, kAllRouters}, 254));
}

TEST(Ndp, ReadsARedirect) {
  // RFC 4861 4.5.
  const auto bytes = join({"89 00 00 00 00 00 00 00", kRouterDump, kPeerDump});
  const auto message = parse(bytes, {kRouter, kOwn});
  ASSERT_TRUE(message);
  EXPECT_EQ(message->target, kRouter);
  EXPECT_EQ(message->redirected, kPeer);
  EXPECT_FALSE(parse(bytes, {kPeer, kOwn})) << "RFC 4861 8.1: only from a router";
  EXPECT_FALSE(parse(join({"89 00 00 00 00 00 00 00", kOwnDump, kPeerDump}), {kRouter, kOwn}));
}

TEST(Ndp, WhatIsWrittenIsRead) {
  // RFC 4861 4.1, 4.3 and 4.4.
  std::vector<uint8_t> out(kNdpBytesMax);
  NdpMessage message;
  message.target = kOwn;
  message.target_mac = kMac;
  message.is_solicited = message.overrides = true;
  for (const NdpType type : {NdpType::kNeighbourSolicitation, NdpType::kNeighbourAdvertisement,
                             NdpType::kRouterSolicitation}) {
    message.type = type;
    message.source_mac = kMac;
    const uint16_t bytes = write_ndp(message, {kPeer, kOwn}, out);
    Drop drop{};
    EXPECT_TRUE(parse_icmpv6({kPeer, kOwn}, std::span(out).first(bytes), drop)) << "checksum";
    const auto back = parse_ndp({kPeer, kOwn}, kNdpHopLimit, std::span(out).first(bytes), drop);
    ASSERT_TRUE(back);
    EXPECT_EQ(back->type, type);
    const bool is_answer = type == NdpType::kNeighbourAdvertisement;
    EXPECT_EQ(is_answer ? back->target_mac : back->source_mac, kMac);
    EXPECT_EQ(back->is_solicited, is_answer);
    EXPECT_FALSE(back->is_router);
  }
  message = NdpMessage{.target = kOwn};
  EXPECT_EQ(write_ndp(message, {IpAddress{}, solicited_node_group(kOwn)}, out), 24);
}

}  // namespace
}  // namespace lyre::wire
