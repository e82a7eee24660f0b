#include "stack/base/drop_reasons.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace lyre {
namespace {

TEST(DropReasons, KeysAreUniqueAndPlain) {
  std::set<std::string> keys;
  for (const DropText& text : kDropTexts) {
    const std::string key = text.key;
    EXPECT_TRUE(keys.insert(key).second) << key;
    EXPECT_EQ(key.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"), std::string::npos)
        << key;
    EXPECT_FALSE(std::string(text.text).empty()) << key;
  }
  EXPECT_EQ(keys.size(), kDropCount);
}

}  // namespace
}  // namespace lyre
