#include <gtest/gtest.h>

#include <optional>
#include <span>
#include <vector>

#include "stack/base/ipv6_address.h"
#include "stack/link/neighbours.h"
#include "tests/unit/stack/link/addresses.h"

namespace lyre::link {
namespace {

using wire::NdpMessage;
using wire::NdpType;

constexpr IpAddress kOwnGlobal{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
constexpr IpAddress kOther{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7}};
constexpr IpAddress kOwnLocal = link_local_address(kOwnMac);
constexpr InterfaceAddress kOwnAddresses[] = {{kOwnGlobal, 64}, {kOther, 64}, {kOwnLocal, 64}};

/// A port of a daemon in the place of another one, which has used some of the addresses.
class VerifiedAddresses : public testing::Test {
 protected:
  void take_over(std::span<const IpAddress> used) {
    table_.set_port(0, {.mac = kOwnMac, .addresses = kOwnAddresses, .verified = used}, now_);
  }
  /// The NDP messages that are sent while `span` passes.
  std::vector<NdpPacket> pass(Nanos span) {
    std::vector<NdpPacket> all;
    const Nanos end = now_ + span;
    for (;;) {
      NeighbourOutList out;
      table_.on_timer(now_, out);
      for (const NeighbourOut& sent : out) {
        if (sent.kind == NeighbourOut::Kind::kNdp) all.push_back(sent.ndp);
      }
      if (table_.next_deadline() > end) break;
      now_ = later(now_, table_.next_deadline());
    }
    now_ = end;
    return all;
  }
  void receive(NdpType type, const IpAddress& source, const IpAddress& target) {
    NdpMessage message;
    message.type = type;
    message.target = target;
    message.source_mac = message.target_mac = kPeerMac;
    table_.handle_ndp(0, {kPeerMac, {{source, solicited_node_group(target)}, message}}, now_);
  }
  std::optional<AddressState> state_of(const IpAddress& address) const {
    for (const Ndp::Own& own : table_.ndp().addresses()) {
      if (own.address.address == address) return own.state;
    }
    return std::nullopt;
  }
  Answer answer_from(const IpAddress& source) {
    return table_.resolve(0, kPeer, now_, source).answer;
  }

  Nanos now_ = seconds(100);
  Neighbours table_{7};
};

TEST_F(VerifiedAddresses, AreUsedWithoutAProbe) {
  take_over(std::vector{kOwnGlobal, kOther, kOwnLocal});
  EXPECT_EQ(table_.ndp().readiness(0, {}), Answer::kKnown);
  const std::vector<NdpPacket> sent = pass(seconds(3));
  EXPECT_EQ(sent.size(), 3u * kNdpAnnounceCount);
  for (const NdpPacket& each : sent) {
    EXPECT_EQ(each.message.type, NdpType::kNeighbourAdvertisement);
  }
}

TEST_F(VerifiedAddresses, AllOthersAreProbedFor) {
  // RFC 4862 5.4: each address by itself.
  take_over(std::vector{kOwnGlobal, kOwnLocal});
  EXPECT_EQ(state_of(kOwnGlobal), AddressState::kUsable);
  EXPECT_EQ(state_of(kOther), AddressState::kTentative);
  std::vector<IpAddress> probed;
  for (const NdpPacket& sent : pass(kFirstSolicitDelayMax + kRetransmitTime)) {
    if (sent.addresses.source.is_unspecified()) probed.push_back(sent.message.target);
  }
  EXPECT_EQ(probed, std::vector<IpAddress>{kOther});
  EXPECT_EQ(state_of(kOther), AddressState::kUsable);
}

TEST_F(VerifiedAddresses, PacketsFromThemDoNotWaitForTheOthers) {
  take_over(std::vector{kOwnGlobal, kOwnLocal});
  receive(NdpType::kNeighbourSolicitation, kPeer, kOwnGlobal);
  EXPECT_EQ(answer_from(kOwnGlobal), Answer::kKnown);
  EXPECT_EQ(answer_from(kOther), Answer::kPending);
  EXPECT_EQ(answer_from({}), Answer::kPending) << "it may be from either";
  pass(kFirstSolicitDelayMax + kRetransmitTime);
  EXPECT_EQ(answer_from(kOther), Answer::kKnown);
}

// The daemon that comes announced such an address as its own, and the owner lost its traffic.
TEST_F(VerifiedAddresses, OneThatAnotherHostHasStaysWithItsOwner) {
  take_over(std::vector{kOwnGlobal, kOwnLocal});
  std::vector<NdpPacket> sent = pass(nanos(0));
  receive(NdpType::kNeighbourAdvertisement, kOther, kOther);
  EXPECT_EQ(state_of(kOther), AddressState::kDuplicate);
  EXPECT_EQ(state_of(kOwnGlobal), AddressState::kUsable);
  for (const NdpPacket& each : pass(seconds(30))) sent.push_back(each);
  for (const NdpPacket& each : sent) EXPECT_NE(each.message.target, kOther);
}

}  // namespace
}  // namespace lyre::link
