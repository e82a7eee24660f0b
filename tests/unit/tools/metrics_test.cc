#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tools/lyre/metrics/shared_texts.h"

namespace lyre::tools {
namespace {

/// Texts that are numbered in the order of their making.
SharedTexts numbered() {
  return SharedTexts([made = 0]() mutable { return std::to_string(++made); });
}

TEST(SharedTexts, AScrapeGetsANewText) {
  SharedTexts texts = numbered();
  EXPECT_EQ(*texts.next(), "1");
  EXPECT_EQ(*texts.next(), "2") << "the first one is not held any more";
}

// Each of 32 slow scrapers had a text of its own, and the service reached its limit of memory.
TEST(SharedTexts, SlowScrapersShareTheNewestText) {
  SharedTexts texts = numbered();
  auto first = texts.next();
  auto second = texts.next();
  EXPECT_EQ(*second, "2");
  for (int i = 0; i < 30; ++i) EXPECT_EQ(texts.next(), second);
  first.reset();
  const auto third = texts.next();
  EXPECT_EQ(*third, "3") << "the shared one does not grow old while others hold it";
  EXPECT_EQ(texts.next(), third);
}

}  // namespace
}  // namespace lyre::tools
