#include "stack/io/dpdk/nic_link.h"

#include <rte_ethdev.h>

namespace lyre::io::dpdk {
namespace {

uint32_t mbps_of(const rte_eth_link& link) {
  return link.link_speed == RTE_ETH_SPEED_NUM_UNKNOWN ? 0 : link.link_speed;
}

}  // namespace

void NicLink::update(uint16_t port_id, const DriverQuirks& quirks, const PortSetup& setup) {
  const bool was_up = is_up_.load(std::memory_order_relaxed);
  if (quirks.is_up_while_started && was_up) return;
  if (quirks.is_slow_to_tell_link && now_ < due_at_) return;
  rte_eth_link link = {};
  const bool is_up = !setup.has_link_state || (rte_eth_link_get_nowait(port_id, &link) == 0 &&
                                               link.link_status == RTE_ETH_LINK_UP);
  last_mbps_ = mbps_of(link);
  is_up_.store(is_up, std::memory_order_relaxed);
  due_at_ = now_ + (is_up ? kUpPeriod : kDownPeriod);
}

uint32_t NicLink::speed_mbps(uint16_t port_id, const DriverQuirks& quirks) const {
  if (quirks.is_slow_to_tell_link && last_mbps_) return *last_mbps_;
  rte_eth_link link = {};
  return rte_eth_link_get_nowait(port_id, &link) == 0 ? mbps_of(link) : 0;
}

}  // namespace lyre::io::dpdk
