#include "stack/worker/tables/place_accounts.h"

#include <gtest/gtest.h>

namespace lyre::worker {
namespace {

constexpr uint32_t kUser = 0;
constexpr uint32_t kOtherUser = 1;

PlaceAccounts limited_accounts() {
  return {{.sessions_per_client = 2,
           .sessions_per_user = 3,
           .listeners_per_client = 1,
           .listeners_per_user = 2},
          2};
}

TEST(PlaceAccounts, AClientHasItsOwnLimits) {
  const PlaceAccounts places = limited_accounts();
  EXPECT_TRUE(places.may_add_session(kUser, 1));
  EXPECT_FALSE(places.may_add_session(kUser, 2));
  EXPECT_TRUE(places.may_add_listener(kUser, 0));
  EXPECT_FALSE(places.may_add_listener(kUser, 1));
}

TEST(PlaceAccounts, AllClientsOfAUserShareTheLimitsOfTheUser) {
  PlaceAccounts places = limited_accounts();
  for (int i = 0; i < 3; ++i) places.add_session(kUser);
  for (int i = 0; i < 2; ++i) places.add_listener(kUser);
  EXPECT_FALSE(places.may_add_session(kUser, 0)) << "a client that has none itself";
  EXPECT_FALSE(places.may_add_listener(kUser, 0));
  EXPECT_TRUE(places.may_add_session(kOtherUser, 0));
  EXPECT_TRUE(places.may_add_listener(kOtherUser, 0));
}

TEST(PlaceAccounts, APlaceThatIsGivenBackCanBeUsedAgain) {
  PlaceAccounts places = limited_accounts();
  for (int i = 0; i < 3; ++i) places.add_session(kUser);
  for (int i = 0; i < 2; ++i) places.add_listener(kUser);
  places.remove_session(kUser);
  places.remove_listener(kUser);
  EXPECT_EQ(places.sessions_of(kUser), 2u);
  EXPECT_EQ(places.listeners_of(kUser), 1u);
  EXPECT_TRUE(places.may_add_session(kUser, 0));
  EXPECT_TRUE(places.may_add_listener(kUser, 0));
}

TEST(PlaceAccounts, EachUserHasItsOwnRateOfResets) {
  PlaceAccounts places({}, 2);
  const Nanos now = seconds(10);
  for (uint32_t i = 0; i < kResetBurst; ++i) ASSERT_TRUE(places.take_reset(kUser, now));
  EXPECT_FALSE(places.take_reset(kUser, now));
  EXPECT_TRUE(places.take_reset(kOtherUser, now));
  const Nanos later = now + seconds(1) / kResetsPerSecond;
  EXPECT_TRUE(places.take_reset(kUser, later));
  EXPECT_FALSE(places.take_reset(kUser, later));
}

TEST(PlaceAccounts, ResetsForCookiesHaveARateOfTheirOwn) {
  PlaceAccounts places({}, 2);
  const Nanos now = seconds(10);
  while (places.take_reset(kUser, now)) {
  }
  for (uint32_t i = 0; i < kResetBurst; ++i) ASSERT_TRUE(places.take_cookie_reset(now));
  EXPECT_FALSE(places.take_cookie_reset(now));
}

}  // namespace
}  // namespace lyre::worker
