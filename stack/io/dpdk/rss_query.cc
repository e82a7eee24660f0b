#include "stack/io/dpdk/rss_query.h"

#include <rte_ethdev.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace lyre::io::dpdk {
namespace {

constexpr size_t kUsualKeyBytes = 40;

std::vector<uint16_t> query_queues(uint16_t port_id, uint16_t entries) {
  std::vector<rte_eth_rss_reta_entry64> groups((entries + RTE_ETH_RETA_GROUP_SIZE - 1) /
                                               RTE_ETH_RETA_GROUP_SIZE);
  for (auto& group : groups) group.mask = UINT64_MAX;
  if (entries == 0 || rte_eth_dev_rss_reta_query(port_id, groups.data(), entries) != 0) return {};
  std::vector<uint16_t> queues(entries);
  for (size_t i = 0; i < queues.size(); ++i) {
    queues[i] = groups[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE];
  }
  return queues;
}

}  // namespace

RssSpread query_rss(uint16_t port_id) {
  RssSpread spread;
  rte_eth_dev_info device = {};
  if (rte_eth_dev_info_get(port_id, &device) != 0) return spread;
  std::vector<uint8_t> key(device.hash_key_size != 0 ? device.hash_key_size : kUsualKeyBytes);
  rte_eth_rss_conf conf = {};
  conf.rss_key = key.data();
  conf.rss_key_len = static_cast<uint8_t>(key.size());
  if (rte_eth_dev_rss_hash_conf_get(port_id, &conf) != 0) return spread;
  spread.key = std::move(key);
  spread.queues = query_queues(port_id, device.reta_size);
  spread.hashes_ipv4 = (conf.rss_hf & RTE_ETH_RSS_NONFRAG_IPV4_TCP) != 0;
  spread.hashes_ipv6 = (conf.rss_hf & RTE_ETH_RSS_NONFRAG_IPV6_TCP) != 0;
  return spread;
}

RssSpread restore_rss(uint16_t port_id, uint64_t hashes, std::span<uint8_t> key) {
  RssSpread drawn = query_rss(port_id);
  const bool has_same = std::equal(key.begin(), key.end(), drawn.key.begin(), drawn.key.end());
  if (has_same || key.size() != drawn.key.size()) return drawn;
  rte_eth_rss_conf conf = {};
  conf.rss_key = key.data();
  conf.rss_key_len = static_cast<uint8_t>(key.size());
  conf.rss_hf = hashes;
  // A driver that refuses may have taken a part, so it is asked again in any case.
  static_cast<void>(rte_eth_dev_rss_hash_update(port_id, &conf));
  return query_rss(port_id);
}

}  // namespace lyre::io::dpdk
