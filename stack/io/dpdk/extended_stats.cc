#include "stack/io/dpdk/extended_stats.h"

#include <rte_ethdev.h>

#include <algorithm>
#include <numeric>
#include <utility>

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

bool is_fault(std::string_view shown) {
  constexpr std::string_view kFaults[] = {"rx_q_bad_desc_num", "rx_q_bad_req_id", "rx_q_bad_desc",
                                          "tx_q_bad_req_id", "tx_q_prepare_ctx_err"};
  return std::find(std::begin(kFaults), std::end(kFaults), shown) != std::end(kFaults);
}

void ExtendedStats::open(uint16_t port_id) {
  port_id_ = port_id;
  close();
  faults_ = 0;
  const int count = rte_eth_xstats_get_names(port_id, nullptr, 0);
  if (count <= 0) return;
  std::vector<rte_eth_xstat_name> names(static_cast<size_t>(count));
  const int got = rte_eth_xstats_get_names(port_id, names.data(), static_cast<unsigned>(count));
  for (int i = 0; i < std::min(got, count); ++i) names_.push_back(shown_name(names[i].name));
  for (size_t id = 0; id < names_.size(); ++id) {
    if (is_fault(names_[id])) fault_ids_.push_back(id);
  }
}

bool ExtendedStats::has_new_faults() {
  if (fault_ids_.empty()) return false;
  std::vector<uint64_t> values(fault_ids_.size());
  const auto count = static_cast<unsigned>(values.size());
  const int got = rte_eth_xstats_get_by_id(port_id_, fault_ids_.data(), values.data(), count);
  if (got != static_cast<int>(count)) return false;
  const uint64_t faults = std::accumulate(values.begin(), values.end(), uint64_t{0});
  return faults > std::exchange(faults_, faults);
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
