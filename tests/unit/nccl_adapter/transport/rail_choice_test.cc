#include "nccl_adapter/transport/rail_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "nccl_adapter/limits.h"

namespace lyre::nccl_adapter {
namespace {

constexpr size_t kRails = 4;

Address rail_address(uint8_t host, size_t rail) {
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, static_cast<uint8_t>(rail), 0, host};
}

/// Hosts with kRails ports each, 10.RAIL.0.HOST.
class RailChoiceTest : public ::testing::Test {
 protected:
  RailChoiceTest() {
    for (size_t rail = 0; rail < kRails; ++rail) {
      const Address own = rail_address(1, rail);
      lyre_port port{};
      std::copy(own.begin(), own.end(), std::begin(port.address));
      port.prefix_bits = 32;
      ports_.push_back(port);
      remotes_.push_back(rail_address(2, rail));
    }
  }
  /// The first `rails` of them share a network with the peer's ports of the same place.
  void join(size_t rails) {
    for (size_t rail = 0; rail < rails; ++rail) ports_[rail].prefix_bits = 24;
  }
  RailChoice choice(size_t asked_for) const {
    RailChoice pairs;
    pairs.set(ports_,
              rail_pairs(ports_, 0, beginning_with(remotes_[asked_for], remotes_), remotes_));
    return pairs;
  }
  /// Where the first so many lanes begin.
  static std::set<std::pair<size_t, Address>> homes(const RailChoice& pairs, size_t lanes) {
    std::set<std::pair<size_t, Address>> found;
    for (size_t lane = 0; lane < lanes; ++lane) {
      const RailPair& home = pairs[pairs.spread_home(lane)];
      found.insert({home.local, home.remote});
    }
    return found;
  }
  /// What a lane dials after pair 0, where no dial succeeds.
  static std::vector<size_t> dials(const RailChoice& pairs, size_t count) {
    std::vector<size_t> numbers;
    size_t far_pairs = 0;
    size_t number = 0;
    for (size_t i = 0; i < count; ++i) {
      number = pairs.next(number, &far_pairs);
      numbers.push_back(number);
    }
    return numbers;
  }

  std::vector<lyre_port> ports_;
  std::vector<Address> remotes_;
};

TEST_F(RailChoiceTest, SpreadsLanesOverThePairsOfTheSamePlace) {
  for (size_t asked_for = 0; asked_for < kRails; ++asked_for) {
    const RailChoice pairs = choice(asked_for);
    EXPECT_EQ(homes(pairs, 3 * kRails).size(), kRails);
    EXPECT_EQ(homes(pairs, kRails).size(), kRails);
    for (size_t lane = 0; lane < 3 * kRails; ++lane) {
      EXPECT_TRUE(pairs[pairs.spread_home(lane)].is_same_place) << lane;
    }
  }
}

TEST_F(RailChoiceTest, SpreadsLanesOverThePairsThatNeedNoRouter) {
  join(kRails);
  EXPECT_EQ(homes(choice(0), 3 * kRails).size(), kRails);
}

TEST_F(RailChoiceTest, SpreadsLanesOverAllPairsWhereSomePortsNeedARouter) {
  join(kRails - 1);
  const RailChoice pairs = choice(0);
  EXPECT_EQ(pairs.turn(), kRails) << "the near ones, and one other";
  EXPECT_EQ(homes(pairs, pairs.size()).size(), kRails * kRails);
}

// So many near pairs as there are ports say nothing: these leave one of ours out.
TEST_F(RailChoiceTest, SpreadsLanesOverAllPairsWhereNearOnesShareAPort) {
  ports_[0].prefix_bits = 8;
  const RailChoice pairs = choice(0);
  EXPECT_EQ(pairs.turn(), kRails + 1);
  EXPECT_EQ(homes(pairs, pairs.size()).size(), kRails * kRails);
}

TEST_F(RailChoiceTest, WithOldPeersLanesBeginOnAllPairs) {
  RailChoice pairs;
  pairs.set(ports_, rail_pairs(ports_, 0, remotes_));
  EXPECT_EQ(homes(pairs, pairs.size()).size(), kRails * kRails);
  EXPECT_EQ(pairs.turn(), kRailsMax);
  EXPECT_EQ(dials(pairs, 3), (std::vector<size_t>{1, 2, 3}));
}

TEST_F(RailChoiceTest, TakesOneOtherPairAfterAllThatAreNear) {
  for (const size_t joined : {size_t{0}, kRails}) {
    join(joined);
    const RailChoice pairs = choice(0);
    EXPECT_EQ(pairs.turn(), kRails + 1);
    EXPECT_EQ(dials(pairs, 2 * (kRails + 1)),
              (std::vector<size_t>{1, 2, 3, kRails, 0, 1, 2, 3, kRails + 1, 0}));
  }
}

TEST_F(RailChoiceTest, LeavesNoPairOut) {
  for (const size_t joined : {size_t{0}, size_t{1}, kRails - 1, kRails}) {
    join(joined);
    const RailChoice pairs = choice(1);
    const std::vector<size_t> numbers = dials(pairs, pairs.size() * (kRails + 1));
    EXPECT_EQ(std::set<size_t>(numbers.begin(), numbers.end()).size(), pairs.size()) << joined;
  }
}

TEST_F(RailChoiceTest, BesideASlowPairIsAHomeThatSharesNoPort) {
  const RailChoice pairs = choice(0);
  for (size_t slow = 0; slow < pairs.size(); ++slow) {
    for (size_t turn = 0; turn < 2 * kRails; ++turn) {
      const RailPair& other = pairs[pairs.beside(slow, turn)];
      EXPECT_TRUE(other.is_same_place);
      EXPECT_NE(other.local, pairs[slow].local);
      EXPECT_NE(other.remote, pairs[slow].remote);
    }
  }
  EXPECT_NE(pairs.beside(0, 1), pairs.beside(0, 2));
}

TEST_F(RailChoiceTest, BesideASlowPairOfTheOnlyPortIsOneToAnotherPortOfThePeer) {
  ports_.resize(1);
  EXPECT_EQ(choice(0).beside(0, 1), 1u);
  remotes_.resize(1);
  EXPECT_EQ(choice(0).beside(0, 1), 0u);
}

}  // namespace
}  // namespace lyre::nccl_adapter
