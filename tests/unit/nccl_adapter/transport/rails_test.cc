#include "nccl_adapter/transport/rails.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

namespace lyre::nccl_adapter {
namespace {

Address ipv4(uint8_t a, uint8_t b, uint8_t c, uint8_t d) {
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d};
}

Address ipv6(uint8_t last) { return {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last}; }

lyre_port port(const Address& address, uint32_t prefix_bits) {
  lyre_port made{};
  std::copy(address.begin(), address.end(), std::begin(made.address));
  made.prefix_bits = prefix_bits;
  return made;
}

// 10.0.0.N, and fd00::N.
lyre_port port_of_both(uint8_t last) {
  const Address first = ipv4(10, 0, 0, last);
  const Address second = ipv6(last);
  lyre_port both = port(first, 24);
  both.address_count = 2;
  both.addresses[0].prefix_bits = 24;
  std::copy(first.begin(), first.end(), both.addresses[0].address);
  both.addresses[1].prefix_bits = 64;
  std::copy(second.begin(), second.end(), both.addresses[1].address);
  return both;
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

/// 10.HOST.RAIL.1, which no prefix joins.
std::vector<lyre_port> single_addresses(uint8_t host, uint8_t count) {
  std::vector<lyre_port> ports;
  for (uint8_t rail = 0; rail < count; ++rail) ports.push_back(port(ipv4(10, host, rail, 1), 32));
  return ports;
}

Handle handle_of(std::span<const lyre_port> ports, size_t own) {
  Handle handle;
  handle.address = address_of(ports[own]);
  handle.others = further_addresses(ports, own);
  handle.places = places_of(ports, own, handle.others);
  return handle;
}

TEST(RailPairs, BeginWithTheSamePlaceWhereNoPrefixShowsANetwork) {
  const std::vector<lyre_port> here = single_addresses(1, 8);
  const std::vector<lyre_port> there = single_addresses(2, 8);
  std::vector<Address> told;
  for (const lyre_port& remote : there) told.push_back(address_of(remote));
  for (size_t chosen = 0; chosen < 8; ++chosen) {
    const Handle handle = handle_of(there, chosen);
    const std::vector<Address> named = {handle.address, handle.others[0], handle.others[1]};
    const std::vector<RailPair> first = rail_pairs(here, 0, named, told_by(handle, named));
    EXPECT_EQ(first.front(), (RailPair{chosen, told[chosen]})) << chosen;
    EXPECT_EQ(count_same_place(first), 3u) << chosen;
    const std::vector<RailPair> all =
        rail_pairs(here, 0, beginning_with(handle.address, told), told);
    ASSERT_EQ(all.size(), 64u);
    EXPECT_EQ(count_same_place(all), 8u) << chosen;
    for (size_t i = 0; i < 8; ++i) EXPECT_EQ(all[i].local, (chosen + i) % 8) << chosen;
  }
}

TEST(RailPairs, KeepTheirOrderWhereThePeerHasMorePortsOrDoesNotSayWhich) {
  const std::vector<lyre_port> here = single_addresses(1, 2);
  const std::vector<lyre_port> there = single_addresses(2, 4);
  Handle handle = handle_of(there, 1);
  const std::vector<Address> named = {handle.address, handle.others[0], handle.others[1]};
  EXPECT_EQ(rail_pairs(here, 0, named, told_by(handle, named)), rail_pairs(here, 0, named));
  std::vector<Address> told;
  for (const lyre_port& remote : there) told.push_back(address_of(remote));
  const std::vector<RailPair> all = rail_pairs(here, 0, told, told);
  EXPECT_EQ(all, rail_pairs(here, 0, told));
  EXPECT_EQ(count_same_place(all), 0u);
  handle.places = {};
  EXPECT_EQ(rail_pairs(here, 0, named, told_by(handle, named)), rail_pairs(here, 0, named));
}

TEST(RailPairs, OneNetworkComesBeforeTheSamePlace) {
  const lyre_port ports[] = {port(ipv4(10, 0, 0, 1), 24), port(ipv4(10, 0, 1, 1), 24)};
  const Address told[] = {ipv4(10, 0, 1, 2), ipv4(10, 0, 0, 2)};
  EXPECT_EQ(rail_pairs(ports, 0, told, told), rail_pairs(ports, 0, told));
}

TEST(Addresses, AHandleSaysWhereTheirPortsAre) {
  const std::vector<lyre_port> ports = single_addresses(1, 8);
  EXPECT_EQ(handle_of(ports, 5).places, (HandlePlaces{.first = 6, .others = {2, 3}, .ports = 8}));
  const lyre_port both[] = {port_of_both(1), port_of_both(3)};
  EXPECT_EQ(handle_of(both, 1).places, (HandlePlaces{.first = 2, .others = {2, 1}, .ports = 2}));
  EXPECT_EQ(handle_of({both, 1}, 0).places,
            (HandlePlaces{.first = 1, .others = {1, 0}, .ports = 1}));
  // Of the two families of one port the one that is used.
  const Handle handle = handle_of(both, 1);
  EXPECT_EQ(told_by(handle, std::vector{ipv6(3)}), (std::vector<Address>{Address{}, ipv6(3)}));
}

TEST(Addresses, AHandleThatNamesPlacesWithoutPortsTellsNothing) {
  Handle handle = handle_of(single_addresses(1, 2), 1);
  handle.places = {.first = 15, .others = {15, 15}, .ports = 1};
  EXPECT_EQ(told_by(handle, std::vector{handle.address}), std::vector<Address>(1));
}

TEST(RailPairs, FamiliesAreNotOneNetwork) {
  // A network of IPv6 that contains every address, and one of IPv4 elsewhere.
  lyre_port far = port_of_both(1);
  const Address elsewhere = ipv4(10, 0, 1, 1);
  std::copy(elsewhere.begin(), elsewhere.end(), far.address);
  std::copy(elsewhere.begin(), elsewhere.end(), far.addresses[0].address);
  far.addresses[1].prefix_bits = 0;
  const lyre_port ports[] = {far, port(ipv4(10, 0, 0, 1), 24)};
  const Address remotes[] = {ipv4(10, 0, 0, 2)};
  EXPECT_EQ(rail_pairs(ports, 0, remotes).front().local, 1u);
}

TEST(RailPairs, AreOfOneFamily) {
  const lyre_port ports[] = {port(ipv6(1), 64), port(ipv4(10, 0, 0, 1), 24)};
  const Address remotes[] = {ipv4(10, 0, 0, 2), ipv6(2)};
  const std::vector<RailPair> expected = {{0, remotes[1]}, {1, remotes[0]}};
  const std::vector<RailPair> pairs = rail_pairs(ports, 0, remotes);
  EXPECT_TRUE(std::is_permutation(pairs.begin(), pairs.end(), expected.begin(), expected.end()));
  EXPECT_TRUE(rail_pairs({ports, 1}, 0, {remotes, 1}).empty());
}

TEST(RailPairs, APortOfBothFamiliesIsOnBothNetworks) {
  const Address remote = ipv6(2);
  const lyre_port both = port_of_both(1);
  const lyre_port ports[] = {port(ipv4(10, 0, 1, 1), 24), both};
  EXPECT_EQ(rail_pairs(ports, 0, {&remote, 1}).front().local, 1u);
  EXPECT_EQ(address_towards(both, remote), ipv6(1));
  EXPECT_EQ(address_towards(both, ipv4(10, 0, 0, 2)), ipv4(10, 0, 0, 1));
}

TEST(Addresses, TellAtWhichPortTheyAre) {
  const lyre_port ports[] = {port(ipv4(10, 0, 0, 1), 24), port(ipv4(10, 0, 0, 3), 24)};
  EXPECT_EQ(port_at(ports, ipv4(10, 0, 0, 3)), 1u);
  EXPECT_EQ(port_at(ports, ipv4(10, 0, 0, 9)), 0u) << "it is nobody's";
}

TEST(Addresses, ALinkLocalOneCountsOnlyWhereItIsTheFirst) {
  Address link_local = ipv6(1);
  link_local[0] = 0xfe;
  link_local[1] = 0x80;
  lyre_port beside = port_of_both(1);
  std::copy(link_local.begin(), link_local.end(), beside.addresses[1].address);
  EXPECT_EQ(address_towards(beside, ipv6(2)), ipv4(10, 0, 0, 1));
  EXPECT_TRUE(rail_pairs({&beside, 1}, 0, std::vector{ipv6(2)}).empty());
  EXPECT_EQ(further_addresses({&beside, 1}, 0)[0], Address{});
  const lyre_port alone = port(link_local, 64);
  EXPECT_EQ(address_towards(alone, ipv6(2)), link_local);
}

TEST(Addresses, OfAHandleAreThoseOfItsFirstFamilyWhereThatIsHere) {
  const std::vector<Address> told = {ipv4(10, 0, 0, 2), ipv6(2), ipv4(10, 0, 0, 4)};
  const std::vector<Address> all_ipv4 = {told[0], told[2]};
  const lyre_port of_ipv4 = port(ipv4(10, 0, 0, 1), 24);
  const lyre_port of_ipv6 = port(ipv6(1), 64);
  const lyre_port of_both = port_of_both(1);
  EXPECT_EQ(usable_addresses({&of_ipv4, 1}, told), all_ipv4);
  EXPECT_EQ(usable_addresses({&of_both, 1}, told), all_ipv4) << "no pair more than with one family";
  EXPECT_EQ(usable_addresses({&of_ipv6, 1}, told), std::vector{told[1]});
  EXPECT_EQ(usable_addresses(std::array{of_ipv4, of_ipv6}, told), told);
  EXPECT_TRUE(usable_addresses({&of_ipv6, 1}, all_ipv4).empty());
  EXPECT_TRUE(usable_addresses({&of_ipv4, 1}, {told[1]}).empty());
}

TEST(Addresses, AHandleNamesTheOtherFamilyOfItsPortFirst) {
  const lyre_port both[] = {port_of_both(1), port_of_both(3), port_of_both(5), port_of_both(7)};
  using Further = std::array<Address, kHandleOthersMax>;
  EXPECT_EQ(further_addresses(both, 0), (Further{ipv6(1), ipv4(10, 0, 0, 5)}));
  EXPECT_EQ(further_addresses({both, 1}, 0), (Further{ipv6(1), Address{}}));
}

// As plugins did that named one address of each port.
TEST(Addresses, AHandleNamesOtherPortsWhereItsPortHasOneFamily) {
  const lyre_port ports[] = {port(ipv4(10, 0, 0, 1), 24), port(ipv4(10, 0, 0, 3), 24),
                             port(ipv4(10, 0, 0, 5), 24), port(ipv4(10, 0, 0, 7), 24)};
  using Further = std::array<Address, kHandleOthersMax>;
  EXPECT_EQ(further_addresses(ports, 1), (Further{ipv4(10, 0, 0, 7), ipv4(10, 0, 0, 1)}));
  EXPECT_EQ(further_addresses({ports, 2}, 0), (Further{ipv4(10, 0, 0, 3), Address{}}));
  EXPECT_EQ(further_addresses({ports, 1}, 0), Further{});
}

}  // namespace
}  // namespace lyre::nccl_adapter
