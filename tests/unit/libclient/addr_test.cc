#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "libclient/include/lyre/lyre.h"

namespace {

std::string round_trip(const char* text) {
  lyre_addr addr{};
  if (lyre_addr_parse(text, &addr) != 0) return "refused";
  char out[64];
  EXPECT_GT(lyre_addr_format(&addr, out, sizeof out), 0);
  return out;
}

TEST(Address, ParsesWhatTheHeaderPromises) {
  EXPECT_EQ("10.9.0.1:5000", round_trip("10.9.0.1:5000"));
  EXPECT_EQ("10.9.0.1:0", round_trip("10.9.0.1"));
  EXPECT_EQ("0.0.0.0:5000", round_trip(":5000"));
  EXPECT_EQ("255.255.255.255:65535", round_trip("255.255.255.255:65535"));
  EXPECT_EQ("[fd00::1]:5201", round_trip("[fd00::1]:5201"));
  EXPECT_EQ("[fd00::1]:0", round_trip("[fd00::1]"));
  EXPECT_EQ("[fd00::1]:0", round_trip("fd00:0:0:0:0:0:0:1"));
  EXPECT_EQ("[::1]:0", round_trip("::1"));
  EXPECT_EQ("0.0.0.0:5000", round_trip("[::]:5000")) << "any address of either family";
  EXPECT_EQ("10.9.0.1:7", round_trip("[::ffff:10.9.0.1]:7"));
}

TEST(Address, RefusesEverythingElse) {
  for (const char* text : {"",
                           ":",
                           "10.9.0.1:",
                           "10.9.0:1",
                           "10.9.0.1:65536",
                           "10.9.0.1:-1",
                           "10.9.0.1:5 ",
                           "10.9.0.256:1",
                           "host:1",
                           "10.9.0.1:1:2",
                           "1111.2222.3333.4444.5555:1",
                           "[10.9.0.1]:1",
                           "[fd00::1",
                           "[fd00::1]5",
                           "[fd00::1]:",
                           "[]:5",
                           "fd00::1]:5",
                           "[fd00::g]:1",
                           ":::",
                           "[fd00::1]:65536",
                           "[0000:0000:0000:0000:0000:0000:0000:0000:0000:0000]:1"}) {
    EXPECT_EQ("refused", round_trip(text)) << text;
    EXPECT_STRNE("", lyre_last_error());
  }
  lyre_addr addr{};
  EXPECT_EQ(LYRE_E_INVALID, lyre_addr_parse(nullptr, &addr));
  EXPECT_EQ(LYRE_E_INVALID, lyre_addr_parse("1.2.3.4", nullptr));
}

TEST(Address, IsMappedAndInNetworkOrder) {
  lyre_addr addr{};
  ASSERT_EQ(0, lyre_addr_parse("1.2.3.4:80", &addr));
  const uint8_t expected[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 1, 2, 3, 4};
  EXPECT_EQ(0, memcmp(expected, addr.address, sizeof expected));
  EXPECT_EQ(80, addr.port);
}

TEST(Address, FormatsTheUnspecifiedAndIpv6) {
  lyre_addr addr{};
  char out[64];
  EXPECT_EQ(9, lyre_addr_format(&addr, out, sizeof out));
  EXPECT_STREQ("0.0.0.0:0", out);
  addr.address[0] = 0x20;
  addr.address[15] = 1;
  lyre_addr_format(&addr, out, sizeof out);
  EXPECT_STREQ("[2000::1]:0", out);
  EXPECT_EQ(LYRE_E_INVALID, lyre_addr_format(&addr, out, 4));
}

TEST(Errors, EveryCodeHasAText) {
  EXPECT_STREQ("unknown error", lyre_strerror(-999));
  for (const int code :
       {0, -1, -2, -3, -4, -5, -6, -7, -8, -9, -11, -12, -13, -14, -15, -16, -17}) {
    EXPECT_STRNE("unknown error", lyre_strerror(code)) << code;
  }
}

}  // namespace
