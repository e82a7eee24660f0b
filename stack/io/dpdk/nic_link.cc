#include "stack/io/dpdk/nic_link.h"

#include <rte_ethdev.h>

#include <algorithm>

namespace lyre::io::dpdk {
namespace {

uint32_t mbps_of(const rte_eth_link& link) {
  return link.link_speed == RTE_ETH_SPEED_NUM_UNKNOWN ? 0 : link.link_speed;
}

}  // namespace

/// ethdev does not return what the driver did (rte_eth_link_get_nowait(), 22.11 to 26.07): a
/// question that failed is known by the time that it took.
void NicLink::look(Nanos now) {
  if (is_to_begin_) {
    const bool is_silent = now_ != Nanos() && now - now_ >= kSilentFor;
    const Nanos usual = is_up_.load(std::memory_order_relaxed) ? kUpPeriod : kDownPeriod;
    period_ = is_silent ? std::min(std::max(period_, kUpPeriod) * 2, kPeriodMax) : usual;
    due_at_ = now + period_;
    is_to_begin_ = false;
  }
  now_ = now;
}

void NicLink::update(uint16_t port_id, const DriverQuirks& quirks, const PortSetup& setup) {
  const bool was_up = is_up_.load(std::memory_order_relaxed);
  if (quirks.is_up_while_started && was_up) return;
  if (quirks.is_slow_to_tell_link && now_ < due_at_) return;
  rte_eth_link link = {};
  const bool is_up = !setup.has_link_state || (rte_eth_link_get_nowait(port_id, &link) == 0 &&
                                               link.link_status == RTE_ETH_LINK_UP);
  last_mbps_ = mbps_of(link);
  is_up_.store(is_up, std::memory_order_relaxed);
  due_at_ = kNever;
  is_to_begin_ = true;
}

void NicLink::forget() {
  now_ = due_at_ = Nanos();
  is_to_begin_ = false;
}

uint32_t NicLink::speed_mbps(uint16_t port_id, const DriverQuirks& quirks) const {
  if (quirks.is_slow_to_tell_link && last_mbps_) return *last_mbps_;
  rte_eth_link link = {};
  return rte_eth_link_get_nowait(port_id, &link) == 0 ? mbps_of(link) : 0;
}

}  // namespace lyre::io::dpdk
