#include "stack/worker/flow_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "stack/base/rng.h"

namespace lyre::worker {
namespace {

FourTuple tuple_of(uint32_t number) {
  return {.local = {IpAddress::v4(0x0a090001), static_cast<uint16_t>(5000 + number % 7)},
          .remote = {IpAddress::v4(0x0a090000 + number / 1000), static_cast<uint16_t>(number)}};
}

TEST(FlowTable, FindsWhatWasInsertedAndNothingElse) {
  std::vector<FourTuple> tuples;
  FlowTable table(1000, SipKey{1, 2});
  const auto lookup = [&](uint32_t conn) { return tuples[conn]; };
  for (uint32_t i = 0; i < 1000; ++i) {
    tuples.push_back(tuple_of(i));
    table.insert(tuples[i], i);
  }
  for (uint32_t i = 0; i < 1000; ++i) EXPECT_EQ(table.find(tuples[i], lookup), i);
  EXPECT_EQ(table.find(tuple_of(5000), lookup), FlowTable::kNone);
}

TEST(FlowTable, SpreadsNeighbouringPortsWhateverTheKey) {
  constexpr uint32_t kFlows = 10'000;
  for (const SipKey& key : {SipKey{0, 0}, SipKey{1, ~uint64_t{1}}, SipKey{7, 0x0a090001}}) {
    FlowTable table(kFlows, key);
    std::set<uint32_t> places;
    FourTuple tuple = tuple_of(0);
    for (uint32_t port = 0; port < kFlows; ++port) {
      tuple.remote.port = static_cast<uint16_t>(port);
      places.insert(table.hash(tuple) % 65536);
    }
    EXPECT_GT(places.size(), kFlows / 2);
  }
}

// A client chooses whole addresses of peers, as strangers do with their own: one word of an address
// must not cancel another, whatever the key.
TEST(FlowTable, SpreadsAddressesWhoseWordsDifferInTheSameBits) {
  constexpr uint64_t kAddresses = 1000;
  for (const SipKey& key : {SipKey{0, 0}, SipKey{0x1234567890abcdef, 0xfedcba0987654321}}) {
    for (const int shift : {0, 32}) {
      FlowTable table(kAddresses, key);
      std::set<uint32_t> hashes;
      for (uint64_t difference = 0; difference < kAddresses; ++difference) {
        FourTuple tuple = tuple_of(0);
        const uint64_t words[2] = {0xfd00 ^ difference, 1 ^ std::rotl(difference, shift)};
        std::memcpy(tuple.remote.address.bytes.data(), words, sizeof words);
        hashes.insert(table.hash(tuple));
      }
      EXPECT_GT(hashes.size(), kAddresses * 99 / 100);
    }
  }
}

TEST(FlowTable, AgreesWithAMapOverInsertionsAndErasures) {
  constexpr uint32_t kFlows = 64;  // small, so that runs of neighbours are long
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Rng rng(seed);
    FlowTable table(kFlows, SipKey{seed, ~seed});
    std::vector<FourTuple> tuples(kFlows);
    std::map<FourTuple, uint32_t> model;
    const auto lookup = [&](uint32_t conn) { return tuples[conn]; };
    for (int step = 0; step < 4000; ++step) {
      const FourTuple tuple = tuple_of(static_cast<uint32_t>(rng.below(200)));
      const auto known = model.find(tuple);
      if (known != model.end()) {
        ASSERT_EQ(table.find(tuple, lookup), known->second);
        table.erase(tuple, known->second);
        model.erase(known);
      } else if (model.size() < kFlows) {
        ASSERT_EQ(table.find(tuple, lookup), FlowTable::kNone);
        uint32_t conn = 0;
        while (std::any_of(model.begin(), model.end(),
                           [&](const auto& entry) { return entry.second == conn; })) {
          ++conn;
        }
        tuples[conn] = tuple;
        model[tuple] = conn;
        table.insert(tuple, conn);
      }
    }
  }
}

}  // namespace
}  // namespace lyre::worker
