#include "nccl_adapter/core/rails.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lyre::nccl_adapter {
namespace {

Address ipv4(uint8_t a, uint8_t b, uint8_t c, uint8_t d) {
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d};
}

lyre_port port(const Address& address, uint32_t prefix_bits) {
  lyre_port made{};
  std::copy(address.begin(), address.end(), std::begin(made.address));
  made.prefix_bits = prefix_bits;
  return made;
}

TEST(RailPairs, NeighboursShareNoPort) {
  const lyre_port ports[] = {port(ipv4(10, 0, 0, 1), 24), port(ipv4(10, 0, 0, 3), 24)};
  const Address remotes[] = {ipv4(10, 0, 0, 2), ipv4(10, 0, 0, 4)};
  const std::vector<RailPair> expected = {
      {0, remotes[0]}, {1, remotes[1]}, {0, remotes[1]}, {1, remotes[0]}};
  EXPECT_EQ(rail_pairs(ports, 0, remotes), expected);
}

TEST(RailPairs, OneNetworkComesBeforeARouter) {
  const lyre_port ports[] = {port(ipv4(10, 0, 0, 1), 24), port(ipv4(10, 0, 1, 1), 24)};
  const Address remotes[] = {ipv4(10, 0, 1, 2), ipv4(10, 0, 0, 2)};
  const std::vector<RailPair> pairs = rail_pairs(ports, 1, remotes);
  ASSERT_EQ(pairs.size(), 4u);
  EXPECT_EQ(pairs[0], (RailPair{1, remotes[0]}));
  EXPECT_EQ(pairs[1], (RailPair{0, remotes[1]}));
}

TEST(RailPairs, BeginWithThePortThatWasAskedFor) {
  const lyre_port ports[] = {port(ipv4(10, 0, 0, 1), 24), port(ipv4(10, 0, 0, 3), 24)};
  const Address remotes[] = {ipv4(10, 0, 0, 2)};
  const std::vector<RailPair> expected = {{1, remotes[0]}, {0, remotes[0]}};
  EXPECT_EQ(rail_pairs(ports, 1, remotes), expected);
}

TEST(RailPairs, FamiliesAreNotOneNetwork) {
  Address ipv6{};
  ipv6[0] = 0xfd;
  const lyre_port ports[] = {port(ipv6, 0), port(ipv4(10, 0, 0, 1), 24)};
  const Address remotes[] = {ipv4(10, 0, 0, 2)};
  EXPECT_EQ(rail_pairs(ports, 0, remotes).front().local, 1u);
}

}  // namespace
}  // namespace lyre::nccl_adapter
