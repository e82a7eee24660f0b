#include "stack/link/neighbour_cache.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "tests/unit/stack/link/addresses.h"

namespace lyre::link {
namespace {

constexpr Nanos kReachableTimeMax = kReachableTime / 2 * 3;
constexpr uint32_t kCapacity = 1024;

NeighbourCache make_cache(uint64_t seed, uint32_t capacity = kCapacity) {
  NeighbourCache cache(seed);
  for (uint8_t port = 0; port < kPortsMax; ++port) cache.set_capacity(port, capacity);
  return cache;
}

IpAddress host(uint32_t number) { return IpAddress::v4(0x0a000000 + number); }

class NeighbourCacheTest : public testing::Test {
 protected:
  std::vector<Solicit> run() {
    SolicitList out;
    cache_.on_timer(now_, out);
    return {out.begin(), out.end()};
  }
  std::vector<Solicit> pass(Nanos span) {
    now_ += span;
    return run();
  }
  Resolved resolve() { return cache_.resolve(0, kPeer, now_); }
  using Heeded = NeighbourCache::Heeded;
  bool advertise(MacAddress mac, bool is_solicited = true, bool overrides = true) {
    return cache_.advertise(0, kPeer, {mac, is_solicited, overrides}, now_) != Heeded::kNoEntry;
  }
  void make_known() {
    resolve();
    run();
    advertise(kPeerMac);
  }

  Nanos now_ = seconds(100);
  NeighbourCache cache_ = make_cache(1);
};

TEST_F(NeighbourCacheTest, AsksAtOnceAndLearnsTheAnswer) {
  EXPECT_EQ(resolve().answer, Answer::kPending);
  EXPECT_LE(cache_.next_deadline(), now_);
  const auto sent = run();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_FALSE(sent[0].mac);
  EXPECT_EQ(sent[0].ip, kPeer);
  const uint32_t before = cache_.generation();
  EXPECT_TRUE(advertise(kPeerMac));
  EXPECT_NE(cache_.generation(), before);
  EXPECT_EQ(resolve().answer, Answer::kKnown);
  EXPECT_EQ(resolve().mac, kPeerMac);
}

TEST_F(NeighbourCacheTest, GivesUpAfterThreeTriesAndTriesAgainLater) {
  // RFC 4861 10: MAX_MULTICAST_SOLICIT questions, RETRANS_TIMER apart.
  resolve();
  size_t asked = run().size();
  for (int i = 0; i < 5; ++i) asked += pass(kRetransmitTime).size();
  EXPECT_EQ(asked, kSolicitsMax);
  EXPECT_EQ(resolve().answer, Answer::kUnreachable);
  const uint32_t before = cache_.generation();
  EXPECT_TRUE(pass(kUnreachableHold).empty());
  EXPECT_NE(cache_.generation(), before);
  EXPECT_EQ(resolve().answer, Answer::kPending);
  EXPECT_EQ(run().size(), 1u);
}

TEST_F(NeighbourCacheTest, ALateAnswerMakesAnUnreachableHostKnown) {
  resolve();
  for (int i = 0; i < 4; ++i) pass(kRetransmitTime);
  ASSERT_EQ(resolve().answer, Answer::kUnreachable);
  advertise(kPeerMac);
  EXPECT_EQ(resolve().answer, Answer::kKnown);
}

TEST_F(NeighbourCacheTest, AnEntryInUseIsProbedByUnicastAfterADelay) {
  // RFC 4861 7.3.3: REACHABLE, STALE, DELAY when used, PROBE.
  make_known();
  EXPECT_TRUE(pass(kReachableTimeMax).empty());
  EXPECT_EQ(resolve().answer, Answer::kKnown);
  const auto sent = pass(kFirstProbeDelay);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].mac, kPeerMac);
  EXPECT_EQ(resolve().answer, Answer::kKnown) << "still used while it is probed";
  advertise(kPeerMac);
  EXPECT_TRUE(pass(kFirstProbeDelay).empty());
}

TEST_F(NeighbourCacheTest, AnUnusedEntryIsForgottenInSilence) {
  make_known();
  EXPECT_TRUE(pass(kReachableTimeMax).empty());
  EXPECT_TRUE(pass(kStaleHold).empty());
  EXPECT_EQ(cache_.used(), 0u);
  EXPECT_TRUE(run().empty());
  EXPECT_EQ(cache_.next_deadline(), kNever);
}

TEST_F(NeighbourCacheTest, HostsAreTrustedForDifferentTimes) {
  // RFC 4861 6.3.2: between 0.5 and 1.5 times the base value.
  std::set<int64_t> spans;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    cache_ = make_cache(seed);
    make_known();
    const Nanos known_at = now_;
    EXPECT_TRUE(pass(kRetransmitTime).empty());
    const Nanos span = cache_.next_deadline() - known_at;
    EXPECT_GE(span, kReachableTime / 2);
    EXPECT_LE(span, kReachableTimeMax);
    spans.insert(span.value);
  }
  EXPECT_GT(spans.size(), 10u);
}

TEST_F(NeighbourCacheTest, AHostThatMovedIsAskedForEverywhere) {
  // RFC 4861 7.3.2.
  make_known();
  pass(kReachableTimeMax);
  resolve();
  std::vector<Solicit> sent = pass(kFirstProbeDelay);
  for (int i = 0; i < 3; ++i) {
    for (const Solicit& each : pass(kRetransmitTime)) sent.push_back(each);
  }
  ASSERT_EQ(sent.size(), 4u);
  EXPECT_EQ(sent[2].mac, kPeerMac);
  EXPECT_FALSE(sent[3].mac);
  EXPECT_EQ(resolve().answer, Answer::kPending);
  advertise(kOtherMac);
  EXPECT_EQ(resolve().mac, kOtherMac);
}

TEST_F(NeighbourCacheTest, ADoubtedHostIsProbedAtOnce) {
  // RFC 1122 3.3.1.4: by unicast, and when that gets no answer, by broadcast.
  make_known();
  EXPECT_TRUE(pass(kRetransmitTime).empty());
  cache_.doubt(0, kPeer, now_);
  EXPECT_LE(cache_.next_deadline(), now_);
  std::vector<Solicit> sent = run();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].mac, kPeerMac);
  EXPECT_EQ(resolve().mac, kPeerMac) << "still used while it is probed";
  for (uint8_t i = 0; i < kSolicitsMax; ++i) {
    cache_.doubt(0, kPeer, now_);  // the probes go on
    for (const Solicit& each : pass(kRetransmitTime)) sent.push_back(each);
  }
  ASSERT_EQ(sent.size(), size_t{kSolicitsMax} + 1);
  EXPECT_FALSE(sent.back().mac);
  advertise(kOtherMac);
  EXPECT_EQ(resolve().mac, kOtherMac);
}

TEST_F(NeighbourCacheTest, ADoubtedEntryThatIsStaleIsProbedAtOnce) {
  make_known();
  pass(kReachableTimeMax);
  cache_.doubt(0, kPeer, now_);
  EXPECT_EQ(run().size(), 1u);
  advertise(kPeerMac);
  pass(kReachableTimeMax);
  resolve();  // in DELAY
  cache_.doubt(0, kPeer, now_);
  EXPECT_EQ(run().size(), 1u);
}

// The sessions to all hosts behind a router that answers may doubt it.
TEST_F(NeighbourCacheTest, AHostThatHasJustAnsweredIsNotDoubted) {
  make_known();
  cache_.doubt(0, kPeer, now_);
  EXPECT_TRUE(run().empty());
  EXPECT_TRUE(pass(kRetransmitTime).empty());
  cache_.doubt(0, kPeer, now_);
  EXPECT_EQ(run().size(), 1u);
  advertise(kPeerMac);
  cache_.doubt(0, kPeer, now_);
  EXPECT_TRUE(pass(kRetransmitTime).empty());
}

TEST_F(NeighbourCacheTest, ADoubtAddsNothing) {
  cache_.doubt(0, kPeer, now_);
  EXPECT_EQ(cache_.used(), 0u);
  resolve();
  EXPECT_EQ(run().size(), 1u);
  cache_.doubt(0, kPeer, now_);
  EXPECT_TRUE(run().empty()) << "it is asked for already";
}

TEST_F(NeighbourCacheTest, AnAdvertisementNobodyAskedForIsIgnored) {
  EXPECT_FALSE(advertise(kPeerMac));
  EXPECT_EQ(cache_.used(), 0u);
  resolve();
  EXPECT_EQ(cache_.advertise(0, kPeer, {std::nullopt, true, true}, now_), Heeded::kNoEntry)
      << "RFC 4861 7.2.5";
}

TEST_F(NeighbourCacheTest, AMacIsReplacedOnlyWithTheOverrideFlag) {
  // RFC 4861 7.2.5 I and II.
  make_known();
  advertise(kOtherMac, true, false);
  EXPECT_EQ(resolve().mac, kPeerMac);
  EXPECT_EQ(pass(kFirstProbeDelay).size(), 1u) << "but it is doubted";
  advertise(kOtherMac, false, true);
  EXPECT_EQ(resolve().mac, kOtherMac);
}

TEST_F(NeighbourCacheTest, WhatIsHeardInPassingIsDoubted) {
  // RFC 4861 7.2.3.
  EXPECT_FALSE(cache_.learn(0, kPeer, kPeerMac, false, now_));
  EXPECT_TRUE(cache_.learn(0, kPeer, kPeerMac, true, now_));
  EXPECT_EQ(resolve().mac, kPeerMac);
  EXPECT_EQ(pass(kFirstProbeDelay).size(), 1u);
  EXPECT_TRUE(cache_.learn(0, kPeer, kOtherMac, false, now_));
  EXPECT_EQ(resolve().mac, kOtherMac);
}

TEST_F(NeighbourCacheTest, ImpossibleMacsAreNotLearned) {
  EXPECT_FALSE(cache_.learn(0, kPeer, kMacBroadcast, true, now_));
  EXPECT_FALSE(cache_.learn(0, kPeer, MacAddress{}, true, now_));
  resolve();
  EXPECT_FALSE(advertise(kMacBroadcast));
  EXPECT_EQ(resolve().answer, Answer::kPending);
}

TEST_F(NeighbourCacheTest, AFloodDoesNotEvictWhatIsInUse) {
  make_known();
  resolve();
  for (uint32_t i = 0; i < 20'000; ++i) {
    IpAddress ip = kPeer;
    ip.bytes[12] = 1;
    ip.bytes[13] = static_cast<uint8_t>(i >> 16);
    ip.bytes[14] = static_cast<uint8_t>(i >> 8);
    ip.bytes[15] = static_cast<uint8_t>(i);
    cache_.learn(0, ip, kOtherMac, true, now_);
  }
  EXPECT_EQ(cache_.used(), kCapacity);
  EXPECT_EQ(resolve().mac, kPeerMac);
}

TEST_F(NeighbourCacheTest, NamesEachNeighbourThatAnsweredNothing) {
  constexpr uint32_t kHosts = kLostPerTimerMax + 8;
  for (uint32_t i = 0; i < kHosts; ++i) cache_.resolve(0, host(i), now_);
  std::set<IpAddress> lost;
  for (int tries = 0; tries <= kSolicitsMax; ++tries) {
    EXPECT_TRUE(lost.empty());
    while (cache_.next_deadline() <= now_) {
      run();
      for (const LostNeighbour& each : cache_.lost()) lost.insert(each.ip);
    }
    now_ += kRetransmitTime;
  }
  EXPECT_EQ(lost.size(), kHosts);
  EXPECT_EQ(cache_.resolve(0, host(0), now_).answer, Answer::kUnreachable);
  run();
  EXPECT_TRUE(cache_.lost().empty()) << "each is named once";
}

/// Ports with `peers` hosts each, to all of which something is sent in every turn. Each question is
/// answered at once.
class LargeSubnets {
 public:
  LargeSubnets(uint32_t ports, uint32_t peers) : ports_(ports), peers_(peers) {}

  /// Sends that found no MAC in `turns` turns, 100 us apart.
  uint32_t send(uint32_t turns) {
    uint32_t misses = 0;
    for (uint32_t turn = 0; turn < turns; ++turn) {
      now_ += micros(100);
      for (uint8_t port = 0; port < ports_; ++port) {
        for (uint32_t peer = 0; peer < peers_; ++peer) {
          misses += cache_.resolve(port, host(peer), now_).answer != Answer::kKnown;
        }
      }
      answer_questions();
    }
    return misses;
  }
  uint32_t asked() const { return asked_; }

 private:
  void answer_questions() {
    while (cache_.next_deadline() <= now_) {
      SolicitList out;
      cache_.on_timer(now_, out);
      for (const Solicit& each : out) {
        ++asked_;
        cache_.advertise(each.port, each.ip, {kPeerMac, true, true}, now_);
      }
    }
  }

  uint32_t ports_;
  uint32_t peers_;
  uint32_t asked_ = 0;
  Nanos now_ = seconds(100);
  NeighbourCache cache_ = make_cache(7);
};

TEST(LargeSubnetTest, EachOf511PeersIsAskedForOnce) {
  LargeSubnets subnet(1, 511);
  subnet.send(1);
  EXPECT_EQ(subnet.send(1000), 0u);
  EXPECT_EQ(subnet.asked(), 511u);
}

TEST(LargeSubnetTest, PeersOfEightPortsDoNotDisplaceEachOther) {
  LargeSubnets subnet(8, 127);
  subnet.send(1);
  EXPECT_EQ(subnet.send(1000), 0u);
  EXPECT_EQ(subnet.asked(), 8 * 127u);
}

TEST(LargeSubnetTest, AFullCacheServesAsManyPeersAsItHolds) {
  LargeSubnets subnet(1, kCapacity);
  subnet.send(10'000);  // a second: time for the rate
  EXPECT_EQ(subnet.send(100), 0u);
}

TEST_F(NeighbourCacheTest, QuestionsHaveARate) {
  // No host answers: each is asked for three times, a second apart.
  cache_ = make_cache(1, 4 * kSolicitsAtOnceMax);
  for (uint32_t i = 0; i < 4 * kSolicitsAtOnceMax; ++i) cache_.resolve(0, host(i), now_);
  uint32_t asked = 0;
  const Nanos begun_at = now_;
  uint32_t calls = 0;
  while (cache_.next_deadline() <= begun_at + seconds(10)) {
    now_ = later(now_, cache_.next_deadline());
    asked += static_cast<uint32_t>(run().size());
    const auto passed_ms = static_cast<uint32_t>((now_ - begun_at).value / 1'000'000);
    ASSERT_LE(asked, kSolicitsAtOnceMax + passed_ms * kSolicitsPerSecondMax / 1000);
    ASSERT_LT(++calls, 40'000u) << "a cache that may not ask is not due";
  }
  EXPECT_GE(asked, kSolicitsMax * 4 * kSolicitsAtOnceMax);
}

// A client that opened and aborted connections to many addresses delayed the questions of others by
// a millisecond for each.
TEST_F(NeighbourCacheTest, HeldNeighboursAreAskedForBeforeThoseThatNobodyHolds) {
  constexpr uint32_t kAborted = 8 * kSolicitsAtOnceMax;
  cache_ = make_cache(1, kAborted + 1);
  cache_.set_users(1);
  for (uint32_t i = 0; i < kAborted; ++i) {
    const IpAddress ip = IpAddress::v4(0x0b000000 + i);
    cache_.resolve(0, ip, now_);
    ASSERT_TRUE(cache_.hold(0, ip));
    cache_.release(0, ip);
  }
  now_ += millis(1);
  resolve();
  ASSERT_TRUE(cache_.hold(0, kPeer));
  cache_.urge(0, kPeer, 0, now_);
  std::set<IpAddress> asked;
  for (int i = 0; i < 2; ++i) {
    int calls = 0;
    while (cache_.next_deadline() <= now_) {
      for (const Solicit& each : run()) asked.insert(each.ip);
      ASSERT_LT(++calls, 1000);
    }
    now_ += seconds(1) / kSolicitsPerSecondMax;
  }
  EXPECT_LE(asked.size(), kSolicitsAtOnceMax + 1);
  EXPECT_TRUE(asked.contains(kPeer));
}

// A new entry could ask at once: an address that nobody has was asked for at each connection.
TEST_F(NeighbourCacheTest, ANeighbourThatIsReleasedAndWantedAgainIsAskedForOnceASecond) {
  for (int i = 0; i < 10; ++i) {
    resolve();
    ASSERT_TRUE(cache_.hold(0, kPeer));
    EXPECT_EQ(run().size(), i == 0 ? 1u : 0u);
    cache_.release(0, kPeer);
  }
  EXPECT_EQ(pass(kRetransmitTime).size(), 1u);
}

TEST_F(NeighbourCacheTest, WhatASessionHoldsIsNeverReplaced) {
  cache_ = make_cache(1, 4);
  make_known();
  ASSERT_TRUE(cache_.hold(0, kPeer));
  for (uint32_t i = 0; i < 100; ++i) {
    cache_.resolve(0, host(i), now_);
    run();
    cache_.advertise(0, host(i), {kOtherMac, true, true}, now_);
  }
  pass(seconds(1000));
  EXPECT_EQ(resolve().mac, kPeerMac) << "also when it was not used for long";
  cache_.release(0, kPeer);
  EXPECT_EQ(cache_.holders(), 0u);
  for (int i = 0; i < 10; ++i) pass(seconds(1000));  // DELAY, PROBE, broadcast, given up
  EXPECT_EQ(cache_.used(), 0u);
}

TEST_F(NeighbourCacheTest, AFullCacheRefusesOthersUntilOneIsReleased) {
  cache_ = make_cache(1, 4);
  for (uint32_t i = 0; i < 4; ++i) {
    cache_.resolve(0, host(i), now_);
    ASSERT_TRUE(cache_.hold(0, host(i)));
  }
  EXPECT_EQ(resolve().answer, Answer::kUnreachable);
  EXPECT_FALSE(cache_.hold(0, kPeer));
  EXPECT_FALSE(cache_.learn(0, kPeer, kPeerMac, true, now_));
  cache_.release(0, host(2));
  EXPECT_EQ(resolve().answer, Answer::kPending);
}

TEST_F(NeighbourCacheTest, AHeldEntryIsAskedForAgainWhenTheLinkComesBack) {
  make_known();
  cache_.hold(0, kPeer);
  cache_.forget(0, now_);
  EXPECT_TRUE(run().empty());
  EXPECT_EQ(resolve().answer, Answer::kPending);
  EXPECT_EQ(run().size(), 1u);
  cache_.forget(0, now_);
  cache_.release(0, kPeer);
  EXPECT_EQ(cache_.used(), 0u);
}

TEST_F(NeighbourCacheTest, MoreQuestionsThanFitLeaveWithTheNextCalls) {
  for (uint32_t i = 0; i < 100; ++i) cache_.resolve(0, IpAddress::v4(0x0a000064 + i), now_);
  EXPECT_EQ(cache_.used(), 100u);
  size_t asked = 0;
  int calls = 0;
  while (cache_.next_deadline() <= now_) {
    asked += run().size();
    ASSERT_LT(++calls, 10);
  }
  EXPECT_EQ(asked, 100u);
}

TEST_F(NeighbourCacheTest, OnlyThePortIsForgotten) {
  make_known();
  cache_.learn(1, kPeer, kOtherMac, true, now_);
  cache_.forget(1, now_);
  EXPECT_EQ(resolve().answer, Answer::kKnown);
  EXPECT_EQ(cache_.resolve(1, kPeer, now_).answer, Answer::kPending);
  EXPECT_EQ(run().size(), 1u) << "and is asked for";
}

TEST_F(NeighbourCacheTest, PortsAreApart) {
  make_known();
  EXPECT_EQ(cache_.resolve(1, kPeer, now_).answer, Answer::kPending);
}

}  // namespace
}  // namespace lyre::link
