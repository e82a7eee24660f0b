#include "stack/io/dpdk/port_search.h"

#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <strings.h>

#include <algorithm>
#include <string>

#include "stack/io/dpdk/interrupt_thread.h"
#include "stack/io/dpdk/kernel_interface.h"

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

/// While a port is stopped, ethdev has functions in place of its driver's that are the same for all
/// ports (eth_dev_fp_ops_reset()). It makes no port of the last number before all others are taken.
bool is_started(uint16_t port_id) {
  return rte_eth_fp_ops[port_id].rx_pkt_burst != rte_eth_fp_ops[RTE_MAX_ETHPORTS - 1].rx_pkt_burst;
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

uint32_t queue_pairs_max(const DeviceArgs& args) {
  if (!args.is_nic()) return virtual_queue_pairs_max(args);
  const auto port_id = find_port(args);
  rte_eth_dev_info device = {};
  if (!port_id || rte_eth_dev_info_get(*port_id, &device) != 0) return 0;
  return std::min(device.max_rx_queues, device.max_tx_queues);
}

std::optional<uint16_t> find_function(uint16_t netvsc_port) {
  const std::string mac = mac_of(netvsc_port);
  if (mac.empty()) return std::nullopt;
  for (uint16_t port_id = 0; port_id < RTE_MAX_ETHPORTS; ++port_id) {
    const bool is_other = port_id != netvsc_port && rte_eth_dev_is_valid_port(port_id) != 0;
    if (is_other && mac_of(port_id) == mac) return port_id;
  }
  return std::nullopt;
}

std::optional<bool> is_function_used(uint16_t netvsc_port) {
  bool is_used = false;
  const bool has_looked = on_interrupt_thread([&] {
    const auto function = find_function(netvsc_port);
    is_used = function && is_started(*function);
  });
  return has_looked ? std::optional(is_used) : std::nullopt;
}

std::string pci_path_of(const DeviceArgs& args) {
  if (!args.is_nic()) return pci_path_of_interface(std::string(args.value_of("iface")));
  if (args.is_pci()) return device_path(args.kernel_folder());
  const std::string function = pci_function_with(std::string(args.value_of("mac")));
  return function.empty() ? function : device_path(DeviceArgs::parse(function).kernel_folder());
}

}  // namespace lyre::io::dpdk
