#include <gtest/gtest.h>

#include <vector>

#include "stack/base/ipv6_address.h"
#include "stack/link/neighbours.h"
#include "tests/unit/stack/link/addresses.h"

namespace lyre::link {
namespace {

using wire::NdpMessage;
using wire::NdpType;

constexpr IpAddress kRouter = link_local_address(kPeerMac);
constexpr IpAddress kOtherRouter = link_local_address(kOtherMac);
constexpr InterfaceAddress kAddresses[] = {{kOwn, 64}, {kOwnLinkLocal, 64}};

NdpMessage message_of(NdpType type, const IpAddress& target,
                      std::optional<MacAddress> mac = std::nullopt) {
  NdpMessage out;
  out.type = type;
  out.target = target;
  out.source_mac = out.target_mac = mac;
  return out;
}

class NdpTest : public testing::Test {
 protected:
  NdpTest() { table_.set_port(0, {kOwnMac, kAddresses, true}, now_); }

  /// The NDP messages that are due now, but for router solicitations; those and listener reports
  /// are collected separately.
  std::vector<NeighbourOut> run() {
    NeighbourOutList out;
    table_.on_timer(now_, out);
    std::vector<NeighbourOut> ndp;
    for (const NeighbourOut& sent : out) {
      if (sent.kind == NeighbourOut::Kind::kMld) {
        reports_.push_back(sent);
      } else if (sent.ndp.message.type == NdpType::kRouterSolicitation) {
        router_questions_.push_back({now_, sent.ndp});
      } else {
        ndp.push_back(sent);
      }
    }
    return ndp;
  }
  /// All messages that are sent while `span` passes.
  std::vector<NeighbourOut> pass(Nanos span) {
    std::vector<NeighbourOut> all = run();
    const Nanos end = now_ + span;
    while (table_.next_deadline() <= end) {
      now_ = later(now_, table_.next_deadline());
      for (const NeighbourOut& sent : run()) all.push_back(sent);
    }
    now_ = end;
    return all;
  }
  /// Passes time until duplicate address detection has ended and all advertisements were sent.
  void settle() { pass(seconds(30)); }

  NeighbourHandled receive(MacAddress mac, const IpAddress& source, const IpAddress& destination,
                           const NdpMessage& message) {
    return table_.handle_ndp(0, {mac, {{source, destination}, message}}, now_);
  }
  NeighbourHandled solicit(const IpAddress& source, const IpAddress& target) {
    const bool is_probe = source.is_unspecified();
    const auto mac = is_probe ? std::nullopt : std::optional(kPeerMac);
    return receive(kPeerMac, source, solicited_node_group(target),
                   message_of(NdpType::kNeighbourSolicitation, target, mac));
  }
  NeighbourHandled advertise_router(MacAddress mac, uint16_t lifetime_s,
                                    wire::RouterPreference preference = {}) {
    NdpMessage message = message_of(NdpType::kRouterAdvertisement, IpAddress{}, mac);
    message.router_lifetime_s = lifetime_s;
    message.preference = preference;
    return receive(mac, link_local_address(mac), kAllNodes, message);
  }
  /// Packets go to the default router, which answers nothing.
  void lose_router() {
    table_.resolve(0, *table_.ndp().default_router(0), now_);
    pass(kFirstProbeDelay + kRetransmitTime * (2 * kSolicitsMax));
  }
  AddressState state_of(const IpAddress& address) const {
    for (const Ndp::Own& own : table_.ndp().addresses()) {
      if (own.address.address == address) return own.state;
    }
    return AddressState::kDuplicate;
  }

  size_t router_questions_while(Nanos passes) {
    router_questions_.clear();
    pass(passes);
    return router_questions_.size();
  }

  struct RouterQuestion {
    Nanos sent_at;
    NdpPacket packet;
  };
  /// Three solicitations are sent in this time: at once, after about 4 s, and after about 8 s more.
  /// The next one follows after at least 14 s more.
  static constexpr Nanos kThreeQuestions = seconds(20);

  Nanos now_ = seconds(100);
  Neighbours table_{1};
  std::vector<NeighbourOut> reports_;
  std::vector<RouterQuestion> router_questions_;
};

// As beside the kernel, which has the link-local address and would get the answers.
TEST_F(NdpTest, APortWithoutALinkLocalAddressSolicitsItsRouterFromAnother) {
  constexpr InterfaceAddress kConfigured{{{0xfd, 1}}, 64};
  table_.set_port(1, {kOwnMac, {&kConfigured, 1}, true}, now_);
  settle();
  EXPECT_EQ(table_.resolve(1, kRouter, now_).answer, Answer::kPending);
  const std::vector<NeighbourOut> sent = run();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].port, 1);
  EXPECT_EQ(sent[0].ndp.message.target, kRouter);
  EXPECT_EQ(sent[0].ndp.addresses.source, kConfigured.address);
}

TEST_F(NdpTest, ProbesForEachAddressBeforeItIsUsed) {
  // RFC 4862 5.1, 5.4.2: once, from the unspecified address, to the solicited-node group, without a
  // MAC.
  EXPECT_EQ(table_.resolve(0, kPeer, now_).answer, Answer::kPending);
  std::vector<NeighbourOut> probes;
  for (const NeighbourOut& sent : pass(kFirstSolicitDelayMax + kRetransmitTime)) {
    if (sent.ndp.message.type == NdpType::kNeighbourSolicitation) probes.push_back(sent);
  }
  ASSERT_EQ(probes.size(), 2u);
  for (const NeighbourOut& probe : probes) {
    const IpAddress group = solicited_node_group(probe.ndp.message.target);
    EXPECT_TRUE(probe.ndp.addresses.source.is_unspecified());
    EXPECT_EQ(probe.ndp.addresses.destination, group);
    EXPECT_EQ(probe.destination, multicast_mac(group));
    EXPECT_FALSE(probe.ndp.message.source_mac);
  }
  EXPECT_EQ(state_of(kOwn), AddressState::kUsable);
  EXPECT_EQ(state_of(kOwnLinkLocal), AddressState::kUsable);
}

TEST_F(NdpTest, WaitersHearWhenTheAddressesAreOurs) {
  const uint32_t before = table_.generation();
  settle();
  EXPECT_NE(table_.generation(), before);
  EXPECT_EQ(table_.resolve(0, kPeer, now_).answer, Answer::kPending);
  const auto sent = run();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].ndp.message.target, kPeer);
}

TEST_F(NdpTest, TellsItsNeighboursWhenAnAddressIsOurs) {
  // RFC 4861 7.2.6.
  int advertisements = 0;
  for (const NeighbourOut& sent : pass(seconds(10))) {
    if (sent.ndp.message.type != NdpType::kNeighbourAdvertisement) continue;
    EXPECT_EQ(sent.ndp.addresses.destination, kAllNodes);
    EXPECT_TRUE(sent.ndp.message.overrides);
    EXPECT_FALSE(sent.ndp.message.is_solicited);
    EXPECT_EQ(sent.ndp.message.target_mac, kOwnMac);
    ++advertisements;
  }
  EXPECT_EQ(advertisements, 2 * kNdpAnnounceCount);
}

TEST_F(NdpTest, TellsItsNeighboursAgainWhenTheLinkComesUp) {
  settle();
  reports_.clear();
  table_.on_link_up(0, now_);
  router_questions_.clear();
  int advertisements = 0;
  for (const NeighbourOut& sent : pass(kThreeQuestions)) {
    advertisements += sent.ndp.message.type == NdpType::kNeighbourAdvertisement;
  }
  EXPECT_EQ(advertisements, 2 * kNdpAnnounceCount);
  EXPECT_EQ(router_questions_.size(), 3u);
  EXPECT_FALSE(reports_.empty()) << "and routers what it listens to";
  EXPECT_EQ(state_of(kOwn), AddressState::kUsable);
}

TEST_F(NdpTest, ProbesOverALinkThatWasDownDoNotCount) {
  run();                        // starts the random delay
  pass(kFirstSolicitDelayMax);  // both probes are sent while the link is down, and lost
  table_.on_link_up(0, now_);
  std::vector<NeighbourOut> probes = run();
  ASSERT_EQ(probes.size(), 2u);
  for (const NeighbourOut& probe : probes) {
    EXPECT_EQ(probe.ndp.message.type, NdpType::kNeighbourSolicitation);
  }
  EXPECT_EQ(state_of(kOwn), AddressState::kTentative);
  settle();
  EXPECT_EQ(state_of(kOwn), AddressState::kUsable);
}

// The probe went into a port without a link, and the address counted as checked.
TEST_F(NdpTest, NoAddressIsCheckedWithoutALink) {
  // RFC 4862 5.4.
  table_.set_link(0, false);
  EXPECT_TRUE(pass(seconds(10)).empty());
  EXPECT_EQ(state_of(kOwn), AddressState::kTentative);
  table_.on_link_up(0, now_);
  EXPECT_EQ(pass(kFirstSolicitDelayMax).size(), 2u) << "probes";
  EXPECT_EQ(state_of(kOwn), AddressState::kTentative);
  receive(kPeerMac, kOwn, kAllNodes, message_of(NdpType::kNeighbourAdvertisement, kOwn, kPeerMac));
  settle();
  EXPECT_EQ(state_of(kOwn), AddressState::kDuplicate);
  EXPECT_EQ(state_of(kOwnLinkLocal), AddressState::kUsable);
}

TEST_F(NdpTest, ProbesAgainWhereALinkWasDownUnnoticed) {
  pass(kFirstSolicitDelayMax);
  table_.set_link(0, false);
  pass(seconds(5));
  EXPECT_EQ(state_of(kOwn), AddressState::kTentative);
  table_.set_link(0, true);
  size_t probes = 0;
  for (const NeighbourOut& sent : pass(kLinkLookInterval)) {
    probes += sent.ndp.message.type == NdpType::kNeighbourSolicitation;
  }
  EXPECT_EQ(probes, 2u);
  settle();
  EXPECT_EQ(state_of(kOwn), AddressState::kUsable);
}

TEST_F(NdpTest, AnAdvertisementMeansThatAnotherHasTheAddress) {
  // RFC 4862 5.4.4.
  run();
  const auto handled = receive(kPeerMac, kOwn, kAllNodes,
                               message_of(NdpType::kNeighbourAdvertisement, kOwn, kPeerMac));
  EXPECT_EQ(handled.drop, Drop::kNdpConflict);
  settle();
  EXPECT_EQ(state_of(kOwn), AddressState::kDuplicate);
  EXPECT_EQ(state_of(kOwnLinkLocal), AddressState::kUsable);
  EXPECT_EQ(solicit(kPeer, kOwn).drop, Drop::kNdpNotForUs) << "it is not ours to answer for";
  EXPECT_TRUE(solicit(kOwn, kOwnLinkLocal).reply) << "its owner is a neighbour like others";
}

TEST_F(NdpTest, TwoWhoProbeAtOnceBothGiveWay) {
  // RFC 4862 5.4.3.
  run();
  EXPECT_EQ(solicit(IpAddress{}, kOwnLinkLocal).drop, Drop::kNdpConflict);
  EXPECT_EQ(state_of(kOwnLinkLocal), AddressState::kDuplicate);
  EXPECT_EQ(state_of(kOwn), AddressState::kDuplicate) << "RFC 4862 5.4.5: no IPv6 at all then";
  EXPECT_EQ(table_.resolve(0, kPeer, now_).answer, Answer::kUnreachable);
}

TEST_F(NdpTest, ItsOwnProbeReflectedIsNoDuplicate) {
  run();
  const auto handled = receive(kOwnMac, IpAddress{}, solicited_node_group(kOwn),
                               message_of(NdpType::kNeighbourSolicitation, kOwn));
  EXPECT_EQ(handled.drop, Drop::kNdpNotForUs);
  settle();
  EXPECT_EQ(state_of(kOwn), AddressState::kUsable);
}

TEST_F(NdpTest, SaysNothingOfAnAddressThatIsNotItsOwnYet) {
  // RFC 4862 2.
  run();
  const auto handled = solicit(kPeer, kOwn);
  EXPECT_FALSE(handled.reply);
  EXPECT_EQ(handled.drop, Drop::kNdpNotForUs);
}

TEST_F(NdpTest, AnswersWhoAsksAndRemembersThem) {
  // RFC 4861 7.2.4.
  settle();
  const auto handled = solicit(kPeer, kOwn);
  ASSERT_TRUE(handled.reply);
  EXPECT_FALSE(handled.drop);
  const NeighbourOut& reply = *handled.reply;
  EXPECT_EQ(reply.destination, kPeerMac);
  EXPECT_EQ(reply.ndp.addresses.source, kOwn);
  EXPECT_EQ(reply.ndp.addresses.destination, kPeer);
  EXPECT_TRUE(reply.ndp.message.is_solicited && reply.ndp.message.overrides);
  EXPECT_FALSE(reply.ndp.message.is_router);
  EXPECT_EQ(reply.ndp.message.target_mac, kOwnMac);
  EXPECT_EQ(table_.resolve(0, kPeer, now_).mac, kPeerMac);
}

TEST_F(NdpTest, DefendsItsAddressAgainstAProbe) {
  settle();
  const auto handled = solicit(IpAddress{}, kOwn);
  ASSERT_TRUE(handled.reply);
  EXPECT_EQ(handled.reply->destination, multicast_mac(kAllNodes));
  EXPECT_EQ(handled.reply->ndp.addresses.destination, kAllNodes);
  EXPECT_FALSE(handled.reply->ndp.message.is_solicited);
  EXPECT_EQ(table_.cache().used(), 0u);
}

TEST_F(NdpTest, IgnoresQuestionsForOthers) {
  settle();
  EXPECT_EQ(solicit(kPeer, kRouter).drop, Drop::kNdpNotForUs);
  EXPECT_EQ(table_.cache().used(), 0u);
}

TEST_F(NdpTest, OffLinkAskersAreAnsweredAndNotRemembered) {
  settle();
  IpAddress stranger = kPeer;
  stranger.bytes[0] = 0x20;
  EXPECT_TRUE(solicit(stranger, kOwn).reply);
  EXPECT_EQ(table_.cache().used(), 0u);
}

TEST_F(NdpTest, AsksInTheGroupAndProbesTheNeighbourItself) {
  settle();
  EXPECT_EQ(table_.resolve(0, kPeer, now_).answer, Answer::kPending);
  auto sent = run();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].ndp.addresses.source, kOwn);
  EXPECT_EQ(sent[0].ndp.addresses.destination, solicited_node_group(kPeer));
  EXPECT_EQ(sent[0].ndp.message.source_mac, kOwnMac);

  NdpMessage answer = message_of(NdpType::kNeighbourAdvertisement, kPeer, kPeerMac);
  answer.is_solicited = answer.overrides = true;
  EXPECT_FALSE(receive(kPeerMac, kPeer, kOwn, answer).drop);
  EXPECT_EQ(table_.resolve(0, kPeer, now_).mac, kPeerMac);
  EXPECT_TRUE(pass(kReachableTime / 2 * 3).empty());
  table_.resolve(0, kPeer, now_);
  sent = pass(kFirstProbeDelay);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].destination, kPeerMac);
  EXPECT_EQ(sent[0].ndp.addresses.destination, kPeer);
}

TEST_F(NdpTest, LinkLocalNeighboursAreAskedFromTheLinkLocalAddress) {
  settle();
  table_.resolve(0, kRouter, now_);
  const auto sent = run();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].ndp.addresses.source, kOwnLinkLocal);
}

TEST_F(NdpTest, AsksForRoutersEverLessOftenUntilOneAnswers) {
  // RFC 7559 2 and 2.1.
  pass(seconds(4 * 3600));
  ASSERT_GT(router_questions_.size(), 12u) << "4 to 2048 seconds, and the longest interval twice";
  Nanos interval = kRouterSolicitInterval;
  for (size_t i = 0; i < router_questions_.size(); ++i) {
    EXPECT_EQ(router_questions_[i].packet.addresses.source, kOwnLinkLocal);
    EXPECT_EQ(router_questions_[i].packet.addresses.destination, kAllRouters);
    if (i == 0) continue;
    const Nanos waited = router_questions_[i].sent_at - router_questions_[i - 1].sent_at;
    EXPECT_GE(waited, interval / 10 * 9) << i;
    EXPECT_LE(waited, interval / 10 * 11) << i;
    interval = earlier(interval * 2, kRouterSolicitIntervalMax);
  }
  advertise_router(kPeerMac, 65535);
  EXPECT_EQ(router_questions_while(seconds(4 * 3600)), 0u);
}

TEST_F(NdpTest, ARouterServesUntilItsTimeIsOver) {
  settle();
  EXPECT_FALSE(table_.ndp().default_router(0));
  EXPECT_FALSE(advertise_router(kPeerMac, 100).drop);
  EXPECT_EQ(table_.ndp().default_router(0), kRouter);
  EXPECT_EQ(table_.resolve(0, kRouter, now_).mac, kPeerMac) << "it named its MAC";
  pass(seconds(50));
  advertise_router(kPeerMac, 100);
  pass(seconds(99));
  EXPECT_EQ(table_.ndp().default_router(0), kRouter);
  pass(seconds(1));
  EXPECT_FALSE(table_.ndp().default_router(0));
}

TEST_F(NdpTest, TheBetterRouterIsChosen) {
  // RFC 4191 3.2.
  settle();
  advertise_router(kOtherMac, 1000);
  advertise_router(kPeerMac, 1000, wire::RouterPreference::kHigh);
  EXPECT_EQ(table_.ndp().default_router(0), kRouter);
  advertise_router(kPeerMac, 0);
  EXPECT_EQ(table_.ndp().default_router(0), kOtherRouter) << "lifetime 0: no default router";
  EXPECT_FALSE(table_.ndp().default_router(1));
}

TEST_F(NdpTest, ARouterThatDoesNotAnswerGivesWayToOneThatMay) {
  // RFC 4861 6.3.6.
  settle();
  advertise_router(kPeerMac, 9000);
  advertise_router(kOtherMac, 9000);
  ASSERT_EQ(table_.ndp().default_router(0), kRouter);
  const uint32_t before = table_.ndp().generation();
  lose_router();
  EXPECT_EQ(table_.ndp().default_router(0), kOtherRouter);
  EXPECT_NE(table_.ndp().generation(), before) << "the worker's routes follow";
  advertise_router(kPeerMac, 9000);
  EXPECT_EQ(table_.ndp().default_router(0), kRouter) << "its message gave its MAC";
}

TEST_F(NdpTest, RoutersThatDoNotAnswerTakeTurns) {
  // RFC 4861 6.3.6.
  settle();
  advertise_router(kPeerMac, 9000);
  advertise_router(kOtherMac, 9000);
  for (const IpAddress& next : {kOtherRouter, kRouter, kOtherRouter, kRouter}) {
    lose_router();
    EXPECT_EQ(table_.ndp().default_router(0), next);
  }
  table_.resolve(0, kOtherRouter, now_);
  run();
  NdpMessage answer = message_of(NdpType::kNeighbourAdvertisement, kOtherRouter, kOtherMac);
  answer.is_solicited = answer.overrides = answer.is_router = true;
  receive(kOtherMac, kOtherRouter, kOwnLinkLocal, answer);
  EXPECT_EQ(table_.ndp().default_router(0), kOtherRouter) << "it answers";
}

TEST_F(NdpTest, APreferenceDoesNotMakeUpForSilence) {
  // RFC 4191 3.2: a router that cannot be reached is not chosen for its preference.
  settle();
  advertise_router(kPeerMac, 9000);
  advertise_router(kOtherMac, 65535, wire::RouterPreference::kHigh);
  ASSERT_EQ(table_.ndp().default_router(0), kOtherRouter);
  lose_router();
  EXPECT_EQ(table_.ndp().default_router(0), kRouter);
  NdpMessage again = message_of(NdpType::kRouterAdvertisement, IpAddress{});
  again.router_lifetime_s = 65535;
  again.preference = wire::RouterPreference::kHigh;
  receive(kOtherMac, kOtherRouter, kAllNodes, again);
  EXPECT_EQ(table_.ndp().default_router(0), kRouter) << "it gave no MAC";
}

TEST_F(NdpTest, WhileALinkIsDownNoRouterIsToBlame) {
  settle();
  advertise_router(kPeerMac, 9000);
  advertise_router(kOtherMac, 9000);
  lose_router();
  table_.on_link_up(0, now_);
  EXPECT_EQ(table_.ndp().default_router(0), kRouter);
}

TEST_F(NdpTest, AsksForRoutersWhenNoneAnswers) {
  settle();
  advertise_router(kPeerMac, 9000);
  router_questions_.clear();
  lose_router();
  EXPECT_GT(router_questions_.size(), 0u);
  EXPECT_EQ(table_.ndp().default_router(0), kRouter) << "there is no other";
}

TEST_F(NdpTest, RoutersOfOnePortTakeNoPlacesOfAnothers) {
  table_.set_port(1, {kOwnMac, kAddresses, true}, now_);
  for (uint8_t i = 0; i < 16; ++i) advertise_router({{2, 0, 0, 0, 1, i}}, 65535);
  NdpMessage message = message_of(NdpType::kRouterAdvertisement, IpAddress{}, kPeerMac);
  message.router_lifetime_s = 100;
  table_.handle_ndp(1, {kPeerMac, {{kRouter, kAllNodes}, message}}, now_);
  EXPECT_EQ(table_.ndp().default_router(1), kRouter);
}

TEST_F(NdpTest, ANewRouterReplacesOneThatDoesNotAnswerOrIsLessPreferred) {
  settle();
  for (uint8_t i = 0; i < kRoutersPerPortMax; ++i) {
    advertise_router({{2, 0, 0, 0, 1, i}}, 65535, wire::RouterPreference::kLow);
  }
  advertise_router(kPeerMac, 9000, wire::RouterPreference::kLow);
  EXPECT_FALSE(table_.ndp().is_router(0, kRouter)) << "all places are taken";
  lose_router();
  advertise_router(kPeerMac, 9000, wire::RouterPreference::kLow);
  EXPECT_TRUE(table_.ndp().is_router(0, kRouter));
  advertise_router(kOtherMac, 9000, wire::RouterPreference::kHigh);
  EXPECT_EQ(table_.ndp().default_router(0), kOtherRouter) << "all places were taken, and answer";
}

TEST_F(NdpTest, ARouterThatBecameAHostIsForgotten) {
  // RFC 4861 7.2.5.
  settle();
  advertise_router(kPeerMac, 1000);
  receive(kPeerMac, kRouter, kAllNodes,
          message_of(NdpType::kNeighbourAdvertisement, kRouter, kPeerMac));
  EXPECT_FALSE(table_.ndp().default_router(0));
}

TEST_F(NdpTest, AnAdvertisementThatIsIgnoredRemovesNoRouter) {
  // RFC 4861 7.2.5 I: another MAC, and no override.
  settle();
  advertise_router(kPeerMac, 1000);
  NdpMessage message = message_of(NdpType::kNeighbourAdvertisement, kRouter, kOtherMac);
  message.overrides = false;
  receive(kOtherMac, kRouter, kAllNodes, message);
  EXPECT_EQ(table_.ndp().default_router(0), kRouter);
}

TEST_F(NdpTest, WithoutAnyRouterItAsksAgain) {
  settle();
  pass(seconds(60));
  advertise_router(kPeerMac, 100);
  EXPECT_EQ(router_questions_while(seconds(100) - nanos(1)), 0u);
  EXPECT_EQ(router_questions_while(kThreeQuestions), 3u);
}

// A host could cause a router solicitation of each worker by each pair of advertisements.
TEST_F(NdpTest, ARouterThatComesAndGoesIsAskedForOnceInAnInterval) {
  settle();
  router_questions_.clear();
  for (int i = 0; i < 10; ++i) {
    advertise_router(kPeerMac, 1800);
    advertise_router(kPeerMac, 0);
    pass(millis(100));
  }
  EXPECT_LE(router_questions_.size(), 1u);
  EXPECT_GT(router_questions_while(kThreeQuestions), 0u);
}

TEST_F(NdpTest, ARouterForNoTrafficDoesNotEndTheQuestions) {
  // RFC 7559 2.1: only an advertisement with a lifetime does.
  pass(seconds(3));
  advertise_router(kPeerMac, 0);
  EXPECT_GT(router_questions_while(seconds(60)), 0u);
}

TEST_F(NdpTest, RoutersAreHeardOnlyWhereTheConfigurationSaysSo) {
  Neighbours table(2);
  table.set_port(0, {kOwnMac, kAddresses, false}, now_);
  NdpMessage message = message_of(NdpType::kRouterAdvertisement, IpAddress{}, kPeerMac);
  message.router_lifetime_s = 100;
  const NdpArrival arrival{kPeerMac, {{kRouter, kAllNodes}, message}};
  EXPECT_EQ(table.handle_ndp(0, arrival, now_).drop, Drop::kNdpNotForUs);
  EXPECT_FALSE(table.ndp().default_router(0));
}

TEST_F(NdpTest, RedirectsAndQuestionsForRoutersAreNotForUs) {
  // RFC 4861 6.2.6.
  settle();
  EXPECT_EQ(receive(kPeerMac, kRouter, kOwn, message_of(NdpType::kRedirect, kRouter)).drop,
            Drop::kNdpNotForUs);
  EXPECT_EQ(
      receive(kPeerMac, kRouter, kAllRouters, message_of(NdpType::kRouterSolicitation, {})).drop,
      Drop::kNdpNotForUs);
}

TEST_F(NdpTest, JoinsTheGroupsBeforeItProbesAndAgainFromItsAddress) {
  // RFC 4862 5.4.2, RFC 3590 4, RFC 3810 9.1.
  EXPECT_TRUE(run().empty());
  ASSERT_EQ(reports_.size(), 1u)
      << "both addresses end with the same 24 bits, so they share a group";
  for (const NeighbourOut& report : reports_) {
    EXPECT_TRUE(report.mld.addresses.source.is_unspecified());
    EXPECT_EQ(report.mld.addresses.destination, wire::kMldRouters);
    EXPECT_EQ(report.destination, multicast_mac(wire::kMldRouters));
    EXPECT_TRUE(report.mld.report.is_change);
  }
  reports_.clear();
  std::vector<Nanos> said_at;
  for (const Nanos end = now_ + seconds(30); table_.next_deadline() <= end;) {
    now_ = later(now_, table_.next_deadline());
    run();
    while (said_at.size() < reports_.size()) said_at.push_back(now_);
  }
  ASSERT_EQ(said_at.size(), kMldRobustness);
  EXPECT_LE(said_at[1] - said_at[0], kMldReportInterval) << "RFC 3810 9.11";
  for (const NeighbourOut& report : reports_) {
    EXPECT_EQ(report.mld.addresses.source, kOwnLinkLocal);
  }
}

TEST_F(NdpTest, TellsRoutersThatAskWhatItListensTo) {
  // RFC 3810 6.2.
  settle();
  reports_.clear();
  EXPECT_FALSE(table_.handle_mld(0, {.response_ms_max = 1000}, now_).drop);
  pass(seconds(1));
  ASSERT_EQ(reports_.size(), 1u);
  EXPECT_FALSE(reports_[0].mld.report.is_change);
  reports_.clear();
  const IpAddress group = solicited_node_group(kOwn);
  table_.handle_mld(0, {.group = group, .response_ms_max = 10, .is_version1 = true}, now_);
  pass(seconds(1));
  ASSERT_EQ(reports_.size(), 1u);
  EXPECT_TRUE(reports_[0].mld.report.is_version1);
  EXPECT_EQ(reports_[0].mld.addresses.destination, group) << "RFC 2710 4";
  EXPECT_EQ(table_.handle_mld(0, {.group = kAllNodes}, now_).drop, Drop::kIcmpIgnored)
      << "all nodes: there is no membership to report";
}

TEST_F(NdpTest, QueriesThatComeFastAreAnsweredOnceAnInterval) {
  settle();
  reports_.clear();
  for (int i = 0; i < 1000; ++i) {
    table_.handle_mld(0, {.response_ms_max = 0}, now_);
    pass(millis(10));
  }
  EXPECT_GE(reports_.size(), 9u);
  EXPECT_LE(reports_.size(), 11u);
}

}  // namespace
}  // namespace lyre::link
