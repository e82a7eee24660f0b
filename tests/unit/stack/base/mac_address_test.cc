#include "stack/base/mac_address.h"

#include <gtest/gtest.h>

namespace lyre {
namespace {

TEST(MacText, HasSixPairsOfDigits) {
  EXPECT_EQ(mac_text(MacAddress{{0x02, 0, 0, 0x0a, 0, 0xff}}.bytes), "02:00:00:0a:00:ff");
}

}  // namespace
}  // namespace lyre
