#include "stack/io/dpdk/multicast_filter.h"

#include <rte_ethdev.h>
#include <rte_ether.h>

#include <algorithm>
#include <cerrno>
#include <vector>

namespace lyre::io::dpdk {

int receive_groups(uint16_t port_id, const DriverQuirks& quirks,
                   std::span<const MacAddress> groups) {
  std::vector<rte_ether_addr> list(groups.size());
  for (size_t i = 0; i < groups.size(); ++i) {
    std::copy(groups[i].bytes.begin(), groups[i].bytes.end(), list[i].addr_bytes);
  }
  const auto count = static_cast<uint32_t>(list.size());
  const int some = rte_eth_dev_set_mc_addr_list(port_id, list.data(), count);
  if (some == 0) return 0;
  const int all = rte_eth_allmulticast_enable(port_id);
  const bool has_neither = some == -ENOTSUP && all == -ENOTSUP;
  return has_neither && !quirks.has_multicast_filter ? 0 : all;
}

}  // namespace lyre::io::dpdk
