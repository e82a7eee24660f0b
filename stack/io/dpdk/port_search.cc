#include "stack/io/dpdk/port_search.h"

#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <strings.h>

#include <string>

namespace lyre::io::dpdk {
namespace {

std::string mac_of(uint16_t port_id) {
  char text[RTE_ETHER_ADDR_FMT_SIZE] = "";
  rte_ether_addr address = {};
  if (rte_eth_macaddr_get(port_id, &address) == 0) {
    rte_ether_format_addr(text, sizeof text, &address);
  }
  return text;
}

}  // namespace

bool belongs_to(const DeviceArgs& args, std::string_view device_name, std::string_view mac) {
  if (device_name != args.device_name()) return false;
  const std::string_view wanted = args.value_of("mac");
  return wanted.empty() ||
         (wanted.size() == mac.size() && strncasecmp(wanted.data(), mac.data(), mac.size()) == 0);
}

std::optional<uint16_t> find_port(const DeviceArgs& args) {
  uint16_t port_id = 0;
  if (rte_eth_dev_get_port_by_name(args.device_name().c_str(), &port_id) == 0) return port_id;
  if (!args.is_nic()) return std::nullopt;
  // Also ports that another driver owns.
  for (port_id = 0; port_id < RTE_MAX_ETHPORTS; ++port_id) {
    rte_eth_dev_info info = {};
    if (rte_eth_dev_is_valid_port(port_id) == 0 || rte_eth_dev_info_get(port_id, &info) != 0) {
      continue;
    }
    if (belongs_to(args, rte_dev_name(info.device), mac_of(port_id))) return port_id;
  }
  return std::nullopt;
}

}  // namespace lyre::io::dpdk
