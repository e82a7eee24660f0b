#include "stack/channel/versions.h"

#include <gtest/gtest.h>

namespace lyre::channel {
namespace {

constexpr VersionRange kOurs{3, 5};

struct Case {
  VersionRange theirs;
  std::optional<uint16_t> common;
};

TEST(Versions, TheHighestOfBothIsUsed) {
  const Case cases[] = {
      {{3, 5}, 5},             // the same
      {{1, 3}, 3},             // older
      {{2, 4}, 4},             //
      {{4, 9}, 5},             // newer
      {{5, 5}, 5},             //
      {{1, 9}, 5},             // more
      {{4, 4}, 4},             // less
      {{1, 2}, std::nullopt},  // too old
      {{6, 9}, std::nullopt},  // too new
      {{5, 3}, std::nullopt},  // empty
      {{3, 0}, std::nullopt},  // a header from before there were ranges
      {{0, 0}, std::nullopt},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(common_version(kOurs, c.theirs), c.common) << range_text(c.theirs).text;
    EXPECT_EQ(common_version(c.theirs, kOurs), c.common) << range_text(c.theirs).text;
  }
}

TEST(Versions, TheLineNamesTheSideToUpgrade) {
  EXPECT_STREQ(no_common_version("channel", "this daemon", kOurs, "the client", {1, 2}).text,
               "the client speaks channel version 1 to 2, this daemon 3 to 5: upgrade the client");
  EXPECT_STREQ(no_common_version("channel", "this daemon", kOurs, "the client", {6, 6}).text,
               "the client speaks channel version 6, this daemon 3 to 5: upgrade this daemon");
}

}  // namespace
}  // namespace lyre::channel
