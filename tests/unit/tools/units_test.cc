#include "tools/lyre/units.h"

#include <gtest/gtest.h>

namespace lyre::tools {
namespace {

TEST(Units, BytesHaveThreeDigits) {
  EXPECT_EQ("0 B", format_bytes(0));
  EXPECT_EQ("1023 B", format_bytes(1023));
  EXPECT_EQ("1.00 KiB", format_bytes(1024));
  EXPECT_EQ("64.0 KiB", format_bytes(65536));
  EXPECT_EQ("1.00 MiB", format_bytes((1u << 20) - 1));
  EXPECT_EQ("16384 PiB", format_bytes(UINT64_MAX));
}

TEST(Units, RatesAreDecimal) {
  EXPECT_EQ("0 b/s", format_rate(0));
  EXPECT_EQ("1.00 kb/s", format_rate(999.9));
  EXPECT_EQ("26.7 Gb/s", format_rate(26.71e9));
}

TEST(Units, Durations) {
  EXPECT_EQ("999 ns", format_duration(999));
  EXPECT_EQ("23.4 us", format_duration(23'400));
  EXPECT_EQ("200 ms", format_duration(200'000'000));
  EXPECT_EQ("59.0 s", format_duration(59'000'000'000));
  EXPECT_EQ("1m 01s", format_duration(61'000'000'000));
  EXPECT_EQ("2h 05m", format_duration(7'500'000'000'000));
  EXPECT_EQ("3d 01h", format_duration(int64_t{73} * 3600 * 1'000'000'000));
}

}  // namespace
}  // namespace lyre::tools
