#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "daemon/config/config.h"

namespace lyre {
namespace {

TEST(ConfigErrors, AllAreListedEachWithItsLine) {
  const auto config = parse_config(
      "[daemon]\n"
      "log_level = \"loud\"\n"
      "colour = 1\n"
      "[workers]\n"
      "spin_us = -1\n"
      "[[port]]\n"
      "name = \"a\"\n"
      "device = \"net_memif0\"\n"
      "mtu = 12\n"
      "address = \"10.9.0.1\"\n"
      "[network]\n",
      "f");
  ASSERT_FALSE(config.ok());
  std::istringstream lines(config.error().text);
  std::vector<std::string> begins;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_NE(line.find(", allowed: "), std::string::npos) << line;
    begins.push_back(line.substr(0, line.find(": ", line.find(": ") + 1)));
  }
  std::sort(begins.begin(), begins.end());
  EXPECT_EQ(begins, (std::vector<std::string>{"f:10: port.address", "f:11: network",
                                              "f:2: daemon.log_level", "f:3: daemon.colour",
                                              "f:5: workers.spin_us", "f:9: port.mtu"}));
}

TEST(ConfigErrors, PortsAndRoutesAreListedTogether) {
  const auto config = parse_config(
      "[[port]]\nname = \"a\"\ndevice = \"d0\"\naddress = \"10.9.0.1/24\"\n"
      "[[port]]\nname = \"a\"\ndevice = \"d1\"\naddress = \"10.8.0.1/24\"\n"
      "[[port]]\nname = \"c\"\ndevice = \"d1\"\naddress = \"10.7.0.1/24\"\n",
      "f");
  ASSERT_FALSE(config.ok());
  EXPECT_NE(config.error().text.find("f:6: port.name"), std::string::npos) << config.error().text;
  EXPECT_NE(config.error().text.find("f:11: port.device"), std::string::npos)
      << config.error().text;
}

}  // namespace
}  // namespace lyre
