#include "stack/link/neighbour_board.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "stack/base/ipv6_address.h"
#include "stack/link/neighbours.h"
#include "tests/unit/stack/link/addresses.h"

// Several workers of one daemon with the same addresses: one speaks for all, and they do not all
// ask for the same neighbour.
namespace lyre::link {
namespace {

constexpr SipKey kBoardKey{3, 4};
constexpr IpAddress kClaimed{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5}};
const InterfaceAddress kShared[] = {
    InterfaceAddress::of(IpAddress::v4(0x0a000001), 24), {kClaimed, 64}, {kOwnLinkLocal, 64}};

IpAddress host_of(uint32_t number) { return IpAddress::v4(0x0a010000 + number); }

class TwoOnABoard : public testing::Test {
 protected:
  TwoOnABoard() {
    for (Neighbours* each : {&speaker_, &follower_}) {
      each->set_port(0,
                     {.mac = kOwnMac,
                      .addresses = kShared,
                      .takes_routers = true,
                      .neighbours_max = 4 * kSolicitsAtOnceMax},
                     now_);
    }
  }
  std::vector<NeighbourOut> run(Neighbours& worker) {
    NeighbourOutList out;
    worker.on_timer(now_, out);
    return {out.begin(), out.end()};
  }
  /// What both send while `span` passes; returns what the follower sends.
  std::vector<NeighbourOut> pass(Nanos span) {
    std::vector<NeighbourOut> followed;
    for (const Nanos end = now_ + span; now_ < end; now_ += millis(10)) {
      for (const NeighbourOut& sent : run(speaker_)) said_.push_back(sent);
      for (const NeighbourOut& sent : run(follower_)) followed.push_back(sent);
    }
    return followed;
  }
  static AddressState state_of(const Neighbours& worker, const IpAddress& address) {
    for (const Ndp::Own& own : worker.ndp().addresses()) {
      if (own.address.address == address) return own.state;
    }
    return AddressState::kTentative;
  }
  NdpArrival claim() const {
    wire::NdpMessage message;
    message.type = wire::NdpType::kNeighbourAdvertisement;
    message.target = kClaimed;
    message.target_mac = kOtherMac;
    return {kOtherMac, {{kClaimed, kAllNodes}, message}};
  }
  static NdpArrival router(uint16_t lifetime_s = 1800) {
    wire::NdpMessage message;
    message.type = wire::NdpType::kRouterAdvertisement;
    message.source_mac = kPeerMac;
    message.router_lifetime_s = lifetime_s;
    return {kPeerMac, {{link_local_address(kPeerMac), kAllNodes}, message}};
  }

  Nanos now_ = seconds(100);
  NeighbourBoard board_{kBoardKey, 2};
  Neighbours speaker_{1, &board_, 0};
  Neighbours follower_{2, &board_, 1};
  std::vector<NeighbourOut> said_;
};

// A worker without buffers.
TEST_F(TwoOnABoard, TheNextWorkerAsksWhereAQuestionWasNotSent) {
  pass(seconds(20));
  const IpAddress wanted = IpAddress::v4(0x0a000007);
  for (Neighbours* each : {&speaker_, &follower_}) each->resolve(0, wanted, now_);
  const std::vector<NeighbourOut> unsent = run(speaker_);
  ASSERT_EQ(unsent.size(), 1u);
  speaker_.take_back(unsent[0]);
  const std::vector<NeighbourOut> sent = run(follower_);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].arp.target_ip, wanted);
}

TEST_F(TwoOnABoard, OneWorkerAnnouncesProbesAndReportsForAll) {
  EXPECT_TRUE(pass(seconds(3)).empty());
  follower_.handle_ndp(0, router(), now_);
  EXPECT_TRUE(pass(seconds(10)).empty());
  using Kind = NeighbourOut::Kind;
  const auto count = [&](Kind kind) {
    return std::ranges::count_if(said_, [&](const auto& sent) { return sent.kind == kind; });
  };
  EXPECT_EQ(count(Kind::kArp), kArpAnnounceCount + kArpProbeCount);
  EXPECT_GE(count(Kind::kNdp), 2 * (kDadProbes + kNdpAnnounceCount));
  EXPECT_GT(count(Kind::kMld), 0);
  for (const Neighbours* each : {&speaker_, &follower_}) {
    EXPECT_EQ(state_of(*each, kClaimed), AddressState::kUsable);
    EXPECT_EQ(state_of(*each, kOwnLinkLocal), AddressState::kUsable);
  }
  said_.clear();
  for (Neighbours* each : {&speaker_, &follower_}) each->on_link_up(0, now_);
  follower_.handle_ndp(0, router(), now_);
  EXPECT_TRUE(pass(seconds(10)).empty());
  EXPECT_EQ(count(Kind::kArp), kArpAnnounceCount + kArpProbeCount);
}

// Every follower asked four seconds later, although it had the router.
TEST_F(TwoOnABoard, AFollowerThatHasHeardARouterBeforeItsAddressIsUsableDoesNotAsk) {
  while (state_of(speaker_, kOwnLinkLocal) == AddressState::kTentative) {
    now_ += millis(10);
    run(speaker_);
  }
  ASSERT_EQ(state_of(follower_, kOwnLinkLocal), AddressState::kTentative);
  follower_.handle_ndp(0, router(), now_);
  EXPECT_TRUE(pass(seconds(10)).empty());
  EXPECT_EQ(state_of(follower_, kOwnLinkLocal), AddressState::kUsable);
}

// All workers asked at once.
TEST_F(TwoOnABoard, TheSpeakerAsksFirstWhenTheLastRouterLeaves) {
  const auto hear = [&](uint16_t lifetime_s) {
    for (Neighbours* each : {&speaker_, &follower_}) each->handle_ndp(0, router(lifetime_s), now_);
  };
  const auto is_question = [](const NeighbourOut& sent) {
    return sent.ndp.message.type == wire::NdpType::kRouterSolicitation;
  };
  pass(seconds(3));
  hear(1800);
  pass(seconds(10));
  said_.clear();
  hear(0);
  EXPECT_TRUE(pass(seconds(1)).empty());
  EXPECT_EQ(std::ranges::count_if(said_, is_question), 1);
  hear(1800);
  EXPECT_TRUE(pass(seconds(10)).empty());
  hear(0);
  EXPECT_TRUE(std::ranges::any_of(pass(kRouterSolicitInterval * 2), is_question))
      << "the question of the speaker may be lost";
}

// A query arrives at one worker, which may be any.
TEST_F(TwoOnABoard, EachWorkerAnswersTheQueriesThatItReceives) {
  pass(seconds(3));
  const wire::MldQuery query{.group = {}, .response_ms_max = 100};
  EXPECT_FALSE(follower_.handle_mld(0, query, now_).drop);
  const auto answers = pass(millis(200));
  EXPECT_FALSE(answers.empty());
  for (const NeighbourOut& sent : answers) EXPECT_EQ(sent.kind, NeighbourOut::Kind::kMld);
}

TEST_F(TwoOnABoard, OneWorkerDefendsAnAddress) {
  pass(seconds(20));
  const wire::ArpPacket conflict{wire::ArpOperation::kRequest, kOtherMac, IpAddress::v4(0x0a000001),
                                 MacAddress{}, IpAddress::v4(0x0a000009)};
  EXPECT_EQ(follower_.handle_arp(0, conflict, now_).drop, Drop::kArpConflict);
  EXPECT_EQ(speaker_.handle_arp(0, conflict, now_).drop, Drop::kArpConflict);
  said_.clear();
  const auto is_arp = [](const auto& sent) { return sent.kind == NeighbourOut::Kind::kArp; };
  EXPECT_TRUE(std::ranges::none_of(pass(seconds(1)), is_arp));
  EXPECT_EQ(std::ranges::count_if(said_, is_arp), 1);
}

TEST_F(TwoOnABoard, NoWorkerUsesAnAddressBeforeTheSpeakerHasFoundItFree) {
  while (state_of(speaker_, kClaimed) == AddressState::kTentative) {
    ASSERT_EQ(state_of(follower_, kClaimed), AddressState::kTentative);
    pass(millis(10));
  }
  pass(kFollowInterval + millis(10));
  EXPECT_EQ(state_of(follower_, kClaimed), AddressState::kUsable);
}

TEST_F(TwoOnABoard, AllWaitForTheLink) {
  const auto link_is = [&](bool is_up) {
    for (Neighbours* each : {&speaker_, &follower_}) each->set_link(0, is_up);
  };
  link_is(false);
  pass(seconds(10) + millis(100));
  EXPECT_TRUE(follower_.ndp().needs_link(0, now_ + kLinkLookInterval));
  EXPECT_FALSE(follower_.ndp().needs_link(0, now_)) << "it does not look at the board meanwhile";
  for (Neighbours* each : {&speaker_, &follower_}) {
    EXPECT_EQ(state_of(*each, kClaimed), AddressState::kTentative);
  }
  link_is(true);
  pass(seconds(5));
  for (Neighbours* each : {&speaker_, &follower_}) {
    EXPECT_EQ(state_of(*each, kClaimed), AddressState::kUsable);
    EXPECT_FALSE(each->ndp().needs_link(0, now_ + seconds(10)));
  }
}

// A NIC delivers the answer to a probe to any worker.
TEST_F(TwoOnABoard, AnOwnerThatOneWorkerHearsIsKnownToAll) {
  pass(millis(20));
  ASSERT_EQ(state_of(follower_, kClaimed), AddressState::kTentative);
  EXPECT_EQ(follower_.handle_ndp(0, claim(), now_).drop, Drop::kNdpConflict);
  EXPECT_EQ(state_of(follower_, kClaimed), AddressState::kDuplicate);
  pass(seconds(4));
  EXPECT_EQ(state_of(speaker_, kClaimed), AddressState::kDuplicate);
  EXPECT_EQ(state_of(speaker_, kOwnLinkLocal), AddressState::kUsable);
  EXPECT_EQ(state_of(follower_, kOwnLinkLocal), AddressState::kUsable);
}

TEST_F(TwoOnABoard, AnOwnerThatIsHeardAfterTheDecisionChangesNothing) {
  while (state_of(speaker_, kClaimed) == AddressState::kTentative) {
    now_ += millis(10);
    run(speaker_);
  }
  ASSERT_EQ(state_of(follower_, kClaimed), AddressState::kTentative);
  EXPECT_EQ(follower_.handle_ndp(0, claim(), now_).drop, Drop::kNdpConflict);
  EXPECT_EQ(state_of(follower_, kClaimed), AddressState::kUsable);
}

/// Caches of several workers, which want the same neighbours.
class CachesOnABoard : public testing::Test {
 protected:
  static constexpr uint32_t kWorkers = 3;

  CachesOnABoard() {
    for (uint32_t i = 0; i < kWorkers; ++i) {
      caches_.emplace_back(i + 1, &board_, i).set_capacity(0, 4 * kSolicitsAtOnceMax);
    }
  }
  size_t run(uint32_t worker) {
    SolicitList out;
    caches_[worker].on_timer(now_, out);
    return out.size();
  }
  size_t run_all() {
    size_t count = 0;
    for (uint32_t i = 0; i < kWorkers; ++i) count += run(i);
    return count;
  }
  Answer resolve(uint32_t worker, const IpAddress& ip) {
    return caches_[worker].resolve(0, ip, now_).answer;
  }

  Nanos now_ = seconds(100);
  NeighbourBoard board_{kBoardKey, kWorkers};
  std::vector<NeighbourCache> caches_;
};

TEST_F(CachesOnABoard, OneWorkerAsksForAllThatWant) {
  size_t asked = 0;
  for (uint32_t i = 0; i < kWorkers; ++i) {
    ASSERT_EQ(resolve(i, host_of(1)), Answer::kPending);
    asked += run(i);
    now_ += micros(10);
  }
  EXPECT_EQ(asked, 1u);
  // Nobody answers: one of them asks again after each interval, and all give up.
  for (int i = 0; i < 600; ++i) {
    now_ += millis(10);
    if (i < 400) asked += run_all();
  }
  // The last try of each is its own.
  EXPECT_EQ(asked, kSolicitsMax + kWorkers - 1);
  for (uint32_t i = 0; i < kWorkers; ++i) EXPECT_EQ(resolve(i, host_of(1)), Answer::kUnreachable);
}

// It waited for the others three times, and gave up although it had sent nothing.
TEST_F(CachesOnABoard, AWorkerThatAlwaysComesLaterAsksBeforeItGivesUp) {
  resolve(0, host_of(1));
  run(0);
  now_ += millis(1);
  resolve(1, host_of(1));
  size_t asked = run(1);
  EXPECT_EQ(asked, 0u);
  for (int i = 0; resolve(1, host_of(1)) == Answer::kPending; ++i) {
    ASSERT_LT(i, 10'000);
    now_ += millis(1);
    run(0);
    asked += run(1);
  }
  EXPECT_EQ(asked, 1u);
}

TEST_F(CachesOnABoard, NobodyReliesOnAQuestionFromBeforeTheLinkCameUp) {
  resolve(0, host_of(1));
  ASSERT_EQ(run(0), 1u);
  now_ += millis(5);
  caches_[1].forget(0, now_);
  resolve(1, host_of(1));
  EXPECT_EQ(run(1), 1u);
  now_ += millis(5);
  resolve(0, host_of(2));
  ASSERT_EQ(run(0), 1u);
  resolve(1, host_of(2));
  EXPECT_EQ(run(1), 0u) << "it was sent afterwards";
}

// Those that another worker has asked for take no place in a list.
TEST_F(CachesOnABoard, OneCallHandlesSoManyNeighboursAtMost) {
  std::set<uint32_t> places;
  for (uint32_t i = 0; places.size() < 2 * kDuePerTimerMax; ++i) {
    const NeighbourBoard::Place place = board_.place_of(0, host_of(i));
    if (!places.insert(place.index).second) continue;
    board_.note_question(place, 0, now_);
    resolve(1, host_of(i));
  }
  int calls = 0;
  while (caches_[1].next_deadline() <= now_) {
    EXPECT_EQ(run(1), 0u);
    ASSERT_LT(++calls, 10);
  }
  EXPECT_EQ(calls, 2);
}

TEST_F(CachesOnABoard, NobodyReliesOnAQuestionThatWasAnswered) {
  resolve(0, host_of(1));
  ASSERT_EQ(run(0), 1u);
  board_.forget_question(board_.place_of(0, host_of(1)));
  resolve(1, host_of(1));
  EXPECT_EQ(run(1), 1u);
}

TEST_F(CachesOnABoard, AQuestionForOneNeighbourIsNoneForAnother) {
  for (uint32_t i = 0; i < kSolicitBurstMax; ++i) {
    resolve(0, host_of(i));
    resolve(1, host_of(1000 + i));
  }
  EXPECT_EQ(run(0) + run(1), 2 * kSolicitBurstMax);
}

// Each worker had a rate of its own, and a cloud drops what an interface sends beyond one.
TEST_F(CachesOnABoard, TheQuestionsOfAllWorkersHaveOneRate) {
  for (uint32_t i = 0; i < kSolicitsAtOnceMax; ++i) {
    for (uint32_t worker = 0; worker < kWorkers; ++worker) {
      resolve(worker, host_of(worker * kSolicitsAtOnceMax + i));
    }
  }
  size_t asked = 0;
  for (size_t count = run_all(); count > 0; count = run_all()) asked += count;
  EXPECT_EQ(asked, kSolicitsAtOnceMax);
  now_ += seconds(1) / 2;
  for (size_t count = run_all(); count > 0; count = run_all()) asked += count;
  EXPECT_EQ(asked, kSolicitsAtOnceMax + kSolicitsPerSecondMax / 2);
}

TEST_F(CachesOnABoard, TheBoardKnowsWhoKnowsANeighbourAndWhoWaits) {
  const NeighbourBoard::Place place = board_.place_of(0, host_of(1));
  EXPECT_EQ(board_.knowers(place), 0u);
  resolve(1, host_of(1));
  resolve(2, host_of(1));
  EXPECT_EQ(board_.knowers(place), 0b110u);
  EXPECT_EQ(board_.waiters(place), 0b110u);
  caches_[1].advertise(0, host_of(1), {kPeerMac, true, true}, now_);
  EXPECT_EQ(board_.waiters(place), 0b100u);
  caches_[2].forget(0, now_);
  EXPECT_EQ(board_.knowers(place), 0b010u);
  EXPECT_EQ(board_.waiters(place), 0u);
}

/// Two workers with sessions of two users. The first user has connections to addresses that no host
/// has, other ones on each worker, and the network answers nothing.
class UsersOnABoard : public testing::Test {
 protected:
  static constexpr uint32_t kDead = 3000;
  static constexpr uint32_t kGreedy = 0;
  static constexpr uint32_t kOther = 1;

  UsersOnABoard() {
    for (uint32_t worker = 0; worker < 2; ++worker) {
      NeighbourCache& cache = caches_.emplace_back(worker + 1, &board_, worker);
      cache.set_capacity(0, 2 * kDead);
      cache.set_users(2);
    }
  }
  /// A session of `user` sends to `ip`, or tries again.
  Answer want(uint32_t worker, const IpAddress& ip, uint32_t user) {
    const Answer answer = caches_[worker].resolve(0, ip, now_).answer;
    if (answer == Answer::kPending) caches_[worker].urge(0, ip, user, now_);
    return answer;
  }
  void want_dead() {
    for (uint32_t worker = 0; worker < 2; ++worker) {
      for (uint32_t i = 0; i < kDead; ++i) want(worker, dead_host(worker, i), kGreedy);
    }
  }
  void hold_dead() {
    want_dead();
    for (uint32_t worker = 0; worker < 2; ++worker) {
      for (uint32_t i = 0; i < kDead; ++i) {
        ASSERT_TRUE(caches_[worker].hold(0, dead_host(worker, i)));
      }
    }
  }
  static IpAddress dead_host(uint32_t worker, uint32_t i) { return host_of(kDead * worker + i); }
  /// Turns of both workers. Sessions try again as those whose neighbours' states change do.
  void pass(Nanos span) {
    for (const Nanos end = now_ + span; now_ < end; now_ += millis(1)) {
      if (now_.value % millis(100).value == 0) want_dead();
      for (NeighbourCache& cache : caches_) run(cache);
    }
  }
  void run(NeighbourCache& cache) {
    for (int calls = 0; cache.next_deadline() <= now_; ++calls) {
      ASSERT_LT(calls, 1000);
      SolicitList out;
      cache.on_timer(now_, out);
      for (const Solicit& each : out) asked_.insert(each.ip);
    }
  }

  Nanos now_ = seconds(100);
  NeighbourBoard board_{kBoardKey, 2};
  std::vector<NeighbourCache> caches_;
  std::set<IpAddress> asked_;
};

// It was asked for when all that were due before had been, which took as long as there were such.
TEST_F(UsersOnABoard, ANewNeighbourOfOneUserIsAskedForBeforeTheDeadOnesOfAnother) {
  hold_dead();
  pass(seconds(3));
  const IpAddress wanted = IpAddress::v4(0x0b000001);
  ASSERT_EQ(want(1, wanted, kOther), Answer::kPending);
  ASSERT_TRUE(caches_[1].hold(0, wanted));
  pass(seconds(1));
  EXPECT_TRUE(asked_.contains(wanted));
}

TEST_F(UsersOnABoard, NeighboursAreAskedForSoonAfterTheLinkCameBack) {
  const IpAddress known = IpAddress::v4(0x0b000001);
  const IpAddress wanted = IpAddress::v4(0x0b000002);
  for (const IpAddress& ip : {known, wanted}) {
    want(1, ip, kOther);
    ASSERT_TRUE(caches_[1].hold(0, ip));
  }
  caches_[1].advertise(0, known, {kPeerMac, true, true}, now_);
  hold_dead();
  pass(seconds(3));
  for (NeighbourCache& cache : caches_) cache.forget(0, now_);
  want_dead();
  for (const IpAddress& ip : {known, wanted}) want(1, ip, kOther);
  asked_.clear();
  pass(seconds(1));
  EXPECT_TRUE(asked_.contains(known));
  EXPECT_TRUE(asked_.contains(wanted));
}

// A user has so many urgent ones, whatever it opens and closes.
TEST_F(UsersOnABoard, WhatOneUserMakesUrgentLeavesHalfOfTheRate) {
  hold_dead();
  pass(seconds(3));
  uint32_t urgent = 0;
  for (const NeighbourCache& cache : caches_) {
    for (uint32_t i = 0; i < cache.table(0).bound(); ++i) {
      const Neighbour* each = cache.table(0).at(i);
      urgent += each != nullptr && each->is_urgent;
    }
  }
  EXPECT_GT(urgent, 0u);
  EXPECT_LE(urgent, kUrgentAtOnce + 3 * kUrgentPerSecond);
}

// It counted until its end less a millisecond, and then once more.
TEST(NeighbourBoardTest, AQuestionOfATurnThatBeganLaterCountsOnce) {
  NeighbourBoard board(kBoardKey, 2);
  const NeighbourBoard::Place place = board.place_of(0, host_of(1));
  const Nanos now = seconds(100);
  board.note_question(place, 0, now + millis(1));
  const auto until = board.asked_elsewhere(place, 1, now, kRetransmitTime);
  ASSERT_TRUE(until);
  EXPECT_FALSE(board.asked_elsewhere(place, 1, *until, kRetransmitTime));
}

TEST(NeighbourBoardTest, AWorkerIsInAPlaceWhileItHasOneOfItsAddresses) {
  NeighbourBoard board(kBoardKey, 2);
  const IpAddress first = host_of(0);
  const NeighbourBoard::Place place = board.place_of(0, first);
  uint32_t number = 1;
  while (board.place_of(0, host_of(number)).index != place.index) ++number;
  const IpAddress second = host_of(number);
  BoardSeat seat(board, 1);
  for (const IpAddress& each : {first, second}) {
    seat.add(0, each);
    seat.begin_wait(0, each);
  }
  seat.end_wait(0, first);
  seat.remove(0, first);
  EXPECT_EQ(board.knowers(place), 0b10u);
  EXPECT_EQ(board.waiters(place), 0b10u);
  seat.end_wait(0, second);
  EXPECT_EQ(board.waiters(place), 0u);
  seat.remove(0, second);
  EXPECT_EQ(board.knowers(place), 0u);
}

TEST(NeighbourBoardTest, HasRoomForTheLastOf64Workers) {
  constexpr uint32_t kLast = 63;
  NeighbourBoard board(kBoardKey, kLast + 1);
  const NeighbourBoard::Place place = board.place_of(0, host_of(1));
  BoardSeat seat(board, kLast);
  seat.add(0, host_of(1));
  seat.begin_wait(0, host_of(1));
  EXPECT_EQ(board.knowers(place), uint64_t{1} << kLast);
  EXPECT_EQ(board.waiters(place), uint64_t{1} << kLast);
  const Nanos now = seconds(100);
  board.note_question(place, kLast, now);
  EXPECT_TRUE(board.asked_elsewhere(place, 0, now, kRetransmitTime));
  EXPECT_FALSE(board.asked_elsewhere(place, kLast, now, kRetransmitTime));
}

}  // namespace
}  // namespace lyre::link
