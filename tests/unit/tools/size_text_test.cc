#include "tools/lyre/size_text.h"

#include <gtest/gtest.h>

namespace lyre::tools {
namespace {

TEST(SizeText, UnitsArePowersOf1024InEitherCase) {
  EXPECT_EQ(parse_size("0"), 0u);
  EXPECT_EQ(parse_size("65536"), 65536u);
  for (const char* text : {"64k", "64K", "64KB", "64KiB", "64 kib", "64ki", "65536B"}) {
    EXPECT_EQ(parse_size(text), 65536u) << text;
  }
  EXPECT_EQ(parse_size("3GiB"), uint64_t{3} << 30);
  EXPECT_EQ(parse_size("15E"), uint64_t{15} << 60);
}

TEST(SizeText, RefusesWhatIsNoSize) {
  for (const char* text : {"", "-5", "+5", " 5", "abc", "5x", "5kk", "1.5M", "k", "5 k b", "16E",
                           "99999999999999999999"}) {
    EXPECT_EQ(parse_size(text), std::nullopt) << text;
  }
}

TEST(SizeText, IsTheShortestForm) {
  EXPECT_EQ(size_text(0), "0");
  EXPECT_EQ(size_text(1000), "1000");
  EXPECT_EQ(size_text(1024), "1KiB");
  EXPECT_EQ(size_text(uint64_t{4} << 20), "4MiB");
  for (const uint64_t bytes : {uint64_t{5}, uint64_t{3} << 40, UINT64_MAX}) {
    EXPECT_EQ(parse_size(size_text(bytes)), bytes);
  }
}

}  // namespace
}  // namespace lyre::tools
