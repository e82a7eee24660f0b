#include "stack/io/dpdk/extended_stats.h"

#include <rte_ethdev.h>

#include <algorithm>

namespace lyre::io::dpdk {
namespace {

void add(std::vector<DeviceCounter>& counters, const std::string& name, uint64_t value) {
  const auto known = std::find_if(counters.begin(), counters.end(),
                                  [&](const DeviceCounter& each) { return each.name == name; });
  if (known == counters.end()) {
    counters.push_back({.name = name, .value = value});
  } else {
    known->value += value;
  }
}

}  // namespace

std::string shown_name(std::string_view name) {
  const bool is_of_port = name == "rx_good_packets" || name == "tx_good_packets" ||
                          name == "rx_good_bytes" || name == "tx_good_bytes" ||
                          name == "rx_missed_errors";
  if (is_of_port) return {};
  constexpr size_t kPrefixLength = 4;
  const std::string_view prefix = name.substr(0, kPrefixLength);
  const size_t end = name.find_first_not_of("0123456789", kPrefixLength);
  const bool is_of_queue = (prefix == "rx_q" || prefix == "tx_q") &&
                           end != std::string_view::npos && end > kPrefixLength && name[end] == '_';
  if (!is_of_queue) return std::string(name);
  const std::string_view rest = name.substr(end);
  if (rest == "_packets" || rest == "_bytes") return {};
  return std::string(prefix) + std::string(rest);
}

void ExtendedStats::open(uint16_t port_id) {
  port_id_ = port_id;
  names_.clear();
  const int count = rte_eth_xstats_get_names(port_id, nullptr, 0);
  if (count <= 0) return;
  std::vector<rte_eth_xstat_name> names(static_cast<size_t>(count));
  const int got = rte_eth_xstats_get_names(port_id, names.data(), static_cast<unsigned>(count));
  for (int i = 0; i < std::min(got, count); ++i) names_.push_back(shown_name(names[i].name));
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
    if (counter.value == 0 || counter.id >= names_.size() || names_[counter.id].empty()) continue;
    add(out, names_[counter.id], counter.value);
  }
  return out;
}

}  // namespace lyre::io::dpdk
