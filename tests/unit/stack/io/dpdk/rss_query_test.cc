#include "stack/io/dpdk/rss_query.h"

#include <gtest/gtest.h>
#include <rte_ethdev.h>

#include <algorithm>
#include <cerrno>
#include <vector>

namespace lyre::io::dpdk {
namespace {

constexpr uint16_t kPort = 0;
constexpr uint64_t kHashes = RTE_ETH_RSS_NONFRAG_IPV4_TCP;
constexpr size_t kKeyBytes = 52;
using Key = std::vector<uint8_t>;

/// What the test plays of a device.
struct SpreadingNic {
  Key key;  ///< empty: it does not tell
  uint64_t hashes = 0;
  bool takes_key = true;
  int updates = 0;
} spreading;

Key key_of(uint8_t value) { return Key(kKeyBytes, value); }

class RestoreRss : public ::testing::Test {
 protected:
  RestoreRss() { spreading = {.key = key_of(2), .hashes = kHashes}; }
};

// A connection changed its worker whenever the device had been reset.
TEST_F(RestoreRss, GivesADeviceThatDrewAnotherKeyTheOneBefore) {
  Key before = key_of(1);
  const RssSpread spread = restore_rss(kPort, kHashes, before);
  EXPECT_EQ(spreading.key, before);
  EXPECT_EQ(spreading.hashes, kHashes);
  EXPECT_EQ(spread.key, before);
  EXPECT_TRUE(spread.hashes_ipv4);
  EXPECT_FALSE(spread.hashes_ipv6);
}

// The worker predicted queues by a key that the device had no more.
TEST_F(RestoreRss, TellsTheNewKeyOfADeviceThatRefusesTheOneBefore) {
  spreading.takes_key = false;
  Key before = key_of(1);
  EXPECT_EQ(restore_rss(kPort, kHashes, before).key, key_of(2));
  EXPECT_EQ(spreading.updates, 1);
}

// In an upgrade, another process opens the device: most connections went to other workers.
TEST_F(RestoreRss, GivesTheDeviceOfAnotherProcessTheKeyOfTheFirst) {
  Key handed_over = restore_rss(kPort, kHashes, {}).key;
  spreading = {.key = key_of(3), .hashes = kHashes};
  EXPECT_EQ(restore_rss(kPort, kHashes, handed_over).key, key_of(2));
  EXPECT_EQ(spreading.key, key_of(2));
}

TEST_F(RestoreRss, LeavesADeviceAloneThatKeptItsKeyOrHadNone) {
  Key before = key_of(2);
  EXPECT_EQ(restore_rss(kPort, kHashes, before).key, key_of(2));
  EXPECT_EQ(restore_rss(kPort, kHashes, {}).key, key_of(2));
  Key of_other_size(40, 1);
  EXPECT_EQ(restore_rss(kPort, kHashes, of_other_size).key, key_of(2));
  spreading.key.clear();
  EXPECT_TRUE(restore_rss(kPort, kHashes, before).key.empty());
  EXPECT_EQ(spreading.updates, 0);
}

}  // namespace
}  // namespace lyre::io::dpdk

// DPDK's functions, in front of which this program has some of the same name.
using lyre::io::dpdk::kKeyBytes;
using lyre::io::dpdk::spreading;
extern "C" {
int rte_eth_dev_info_get(uint16_t, rte_eth_dev_info* out) {
  *out = {};
  out->hash_key_size = kKeyBytes;
  return 0;
}
int rte_eth_dev_rss_hash_conf_get(uint16_t, rte_eth_rss_conf* out) {
  if (spreading.key.empty()) return -ENOTSUP;
  std::copy(spreading.key.begin(), spreading.key.end(), out->rss_key);
  out->rss_hf = spreading.hashes;
  return 0;
}
int rte_eth_dev_rss_hash_update(uint16_t, rte_eth_rss_conf* wanted) {
  ++spreading.updates;
  if (!spreading.takes_key) return -ENOTSUP;
  spreading.key.assign(wanted->rss_key, wanted->rss_key + wanted->rss_key_len);
  spreading.hashes = wanted->rss_hf;
  return 0;
}
}
