#include "stack/io/dpdk/extended_stats.h"

#include <rte_ethdev.h>

#include <algorithm>

namespace lyre::io::dpdk {

void ExtendedStats::open(uint16_t port_id) {
  port_id_ = port_id;
  names_.clear();
  const int count = rte_eth_xstats_get_names(port_id, nullptr, 0);
  if (count <= 0) return;
  std::vector<rte_eth_xstat_name> names(static_cast<size_t>(count));
  const int got = rte_eth_xstats_get_names(port_id, names.data(), static_cast<unsigned>(count));
  for (int i = 0; i < std::min(got, count); ++i) names_.emplace_back(names[i].name);
}

std::vector<DeviceCounter> ExtendedStats::read() const {
  std::vector<DeviceCounter> out;
  if (names_.empty()) return out;
  std::vector<rte_eth_xstat> values(names_.size());
  const auto room = static_cast<unsigned>(values.size());
  const int got = rte_eth_xstats_get(port_id_, values.data(), room);
  if (got < 0) return out;
  values.resize(std::min(static_cast<size_t>(got), values.size()));
  for (const rte_eth_xstat& counter : values) {
    if (counter.value == 0 || counter.id >= names_.size()) continue;
    out.push_back({.name = names_[counter.id], .value = counter.value});
  }
  return out;
}

}  // namespace lyre::io::dpdk
