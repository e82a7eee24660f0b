#include "nccl_adapter/transport/verbs/failed_places.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace lyre::nccl_adapter {
namespace {

constexpr Address kNotKnown{};

Address gid_of(size_t side, size_t number) {
  return {static_cast<uint8_t>(side), static_cast<uint8_t>(number)};
}

VerbsChoice choice_of(size_t side, size_t places, size_t best) {
  VerbsChoice choice{.places = {}, .best = best};
  for (size_t i = 0; i < places; ++i) {
    VerbsPlace place{};
    place.gid.address = gid_of(side, i);
    choice.places.push_back(place);
  }
  return choice;
}

TEST(FailedPlaces, ThatNeverFailedAreTakenInTurnByLanes) {
  const FailedPlaces none;
  const VerbsChoice choice = choice_of(1, 4, 2);
  for (size_t lane = 0; lane < 6; ++lane) {
    EXPECT_EQ(none.choose(choice, lane, kNotKnown).gid.address, gid_of(1, lane % 2));
  }
}

TEST(FailedPlaces, AreTriedAgainAfterAllOthers) {
  FailedPlaces failed;
  const VerbsChoice choice = choice_of(1, 3, 1);
  for (size_t number : {0u, 1u, 2u, 0u}) {
    EXPECT_EQ(failed.choose(choice, 0, kNotKnown).gid.address, gid_of(1, number));
    failed.note(gid_of(1, number), kNotKnown);
  }
  failed.forget();
  EXPECT_EQ(failed.choose(choice, 0, kNotKnown).gid.address, gid_of(1, 0));
}

TEST(FailedPlaces, OfBothSidesMeetInEveryPair) {
  for (size_t senders : {1u, 2u, 4u}) {
    for (size_t receivers : {1u, 3u, 4u}) {
      FailedPlaces sender;
      FailedPlaces receiver;
      std::set<std::pair<Address, Address>> tried;
      for (size_t i = 0; i < senders * receivers; ++i) {
        const Address from = sender.choose(choice_of(1, senders, 1), 0, kNotKnown).gid.address;
        const Address to = receiver.choose(choice_of(2, receivers, 1), 0, from).gid.address;
        tried.insert({from, to});
        sender.note(from, kNotKnown);
        receiver.note(to, from);
      }
      EXPECT_EQ(tried.size(), senders * receivers);
    }
  }
}

TEST(FailedPlaces, AreLeftByBothSidesAtTheFirstFailure) {
  FailedPlaces receiver;
  const VerbsChoice choice = choice_of(2, 4, 1);
  receiver.note(gid_of(2, 0), gid_of(1, 0));
  EXPECT_EQ(receiver.choose(choice, 0, gid_of(1, 1)).gid.address, gid_of(2, 1))
      << "that the first one failed with another address counts, too";
}

TEST(FailedPlaces, OfManyAddressesAreForgotten) {
  FailedPlaces receiver;
  const VerbsChoice choice = choice_of(2, 2, 1);
  for (size_t i = 0; i < 257; ++i) {
    Address from = gid_of(1, i % 256);
    from[2] = static_cast<uint8_t>(i / 256);
    receiver.note(gid_of(2, 0), from);
  }
  receiver.note(gid_of(2, 1), gid_of(1, 7));
  receiver.note(gid_of(2, 1), gid_of(1, 8));
  EXPECT_EQ(receiver.choose(choice, 0, gid_of(1, 9)).gid.address, gid_of(2, 0));
}

}  // namespace
}  // namespace lyre::nccl_adapter
