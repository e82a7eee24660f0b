#include "nccl_adapter/transport/rails.h"

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

TEST(RailPairs, BeginWithThePeersPortThatWasAskedFor) {
  const lyre_port ports[] = {port(ipv4(10, 0, 0, 1), 24), port(ipv4(10, 0, 0, 3), 24)};
  const Address asked_for = ipv4(10, 0, 0, 4);
  const std::vector<Address> told = {ipv4(10, 0, 0, 2), asked_for, ipv4(10, 0, 0, 6)};
  const std::vector<Address> expected = {asked_for, ipv4(10, 0, 0, 6), ipv4(10, 0, 0, 2)};
  EXPECT_EQ(beginning_with(asked_for, told), expected);
  EXPECT_EQ(rail_pairs(ports, 1, beginning_with(asked_for, told)).front(),
            (RailPair{1, asked_for}));
  EXPECT_EQ(beginning_with(asked_for, {told[0]}), (std::vector<Address>{asked_for, told[0]}));
}

TEST(RailPairs, FamiliesAreNotOneNetwork) {
  Address ipv6{};
  ipv6[0] = 0xfd;
  const lyre_port ports[] = {port(ipv6, 0), port(ipv4(10, 0, 0, 1), 24)};
  const Address remotes[] = {ipv4(10, 0, 0, 2)};
  EXPECT_EQ(rail_pairs(ports, 0, remotes).front().local, 1u);
}

TEST(RailPairs, APortOfBothFamiliesIsOnBothNetworks) {
  Address own{};
  own[0] = 0xfd;
  own[15] = 1;
  Address remote = own;
  remote[15] = 2;
  lyre_port both = port(ipv4(10, 0, 0, 1), 24);
  both.address_count = 2;
  both.addresses[0].prefix_bits = 24;
  std::copy(std::begin(both.address), std::end(both.address), both.addresses[0].address);
  both.addresses[1].prefix_bits = 64;
  std::copy(own.begin(), own.end(), both.addresses[1].address);
  const lyre_port ports[] = {port(ipv4(10, 0, 1, 1), 24), both};
  EXPECT_EQ(rail_pairs(ports, 0, {&remote, 1}).front().local, 1u);
  EXPECT_EQ(address_towards(both, remote), own);
  EXPECT_EQ(address_towards(both, ipv4(10, 0, 0, 2)), ipv4(10, 0, 0, 1));
}

}  // namespace
}  // namespace lyre::nccl_adapter
