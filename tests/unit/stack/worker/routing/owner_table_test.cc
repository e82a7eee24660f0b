#include "stack/worker/routing/owner_table.h"

#include <gtest/gtest.h>

#include <set>

namespace lyre::worker {
namespace {

FourTuple tuple_of(uint16_t port) { return {{IpAddress::v4(1), port}, {IpAddress::v4(2), 2}}; }

TEST(OwnerTable, KeepsTheLastClaim) {
  OwnerTable owners(4, {1, 2});
  EXPECT_EQ(owners.find(tuple_of(1)), OwnerTable::kNone);
  EXPECT_TRUE(owners.claim(tuple_of(1), 3));
  EXPECT_TRUE(owners.claim(tuple_of(1), 5));
  owners.unclaim(tuple_of(1), 3);
  EXPECT_EQ(owners.find(tuple_of(1)), 5u);
  owners.unclaim(tuple_of(1), 5);
  EXPECT_EQ(owners.find(tuple_of(1)), OwnerTable::kNone);
  EXPECT_EQ(owners.used(), 0u);
}

TEST(OwnerTable, SaysWhenItIsFull) {
  OwnerTable owners(2, {1, 2});
  for (uint16_t port = 0; port < 3; ++port) EXPECT_EQ(owners.claim(tuple_of(port), 1), port < 2);
  EXPECT_TRUE(owners.claim(tuple_of(1), 2)) << "one that is there already needs no place";
}

TEST(OwnerTable, AConnectionHasOneHomeAndHomesShareThem) {
  OwnerTable owners(2, {1, 2});
  const OwnerTable other(8, {1, 2});
  uint32_t connections[3] = {};
  for (uint16_t port = 0; port < 300; ++port) {
    const uint32_t home = owners.home_of(tuple_of(port), 3);
    ASSERT_LT(home, 3u);
    EXPECT_EQ(other.home_of(tuple_of(port), 3), home) << "the size of a table does not matter";
    ++connections[home];
  }
  for (const uint32_t count : connections) EXPECT_GT(count, 50u);
}

// With 16 workers they used one block of places in 16, so that probes were long.
TEST(OwnerTable, TheConnectionsOfAHomeUseTheWholeTable) {
  constexpr uint32_t kWorkers = 16;
  constexpr uint32_t kPlaces = 8192;
  constexpr uint32_t kBlockPlaces = 256;
  const OwnerTable owners(kPlaces / 2, {1, 2});
  const FlowTable index(kPlaces / 2, {1, 2});
  std::set<uint32_t> blocks;
  uint32_t connections = 0;
  for (uint32_t port = 0; port <= UINT16_MAX; ++port) {
    const FourTuple tuple = tuple_of(static_cast<uint16_t>(port));
    if (owners.home_of(tuple, kWorkers) != 5) continue;
    blocks.insert(index.hash(tuple) % kPlaces / kBlockPlaces);
    ++connections;
  }
  EXPECT_GT(connections, 3000u);
  EXPECT_EQ(blocks.size(), kPlaces / kBlockPlaces);
}

}  // namespace
}  // namespace lyre::worker
