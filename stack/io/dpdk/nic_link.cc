#include "stack/io/dpdk/nic_link.h"

#include <rte_ethdev.h>

#include <chrono>

namespace lyre::io::dpdk {
namespace {

uint32_t mbps_of(const rte_eth_link& link) {
  return link.link_speed == RTE_ETH_SPEED_NUM_UNKNOWN ? 0 : link.link_speed;
}

}  // namespace

Nanos NicLink::steady_now() {
  const auto since_boot = std::chrono::steady_clock::now().time_since_epoch();
  return nanos(std::chrono::duration_cast<std::chrono::nanoseconds>(since_boot).count());
}

void NicLink::update(uint16_t port_id, const DriverQuirks& quirks, const PortSetup& setup) {
  if (quirks.is_up_while_started && is_up_.load(std::memory_order_relaxed)) return;
  if (quirks.is_slow_to_tell_link) {
    ask_if_due(port_id, setup);
  } else {
    ask(port_id, setup);
  }
}

bool NicLink::ask(uint16_t port_id, const PortSetup& setup) {
  rte_eth_link link = {};
  const bool is_up = !setup.has_link_state || (rte_eth_link_get_nowait(port_id, &link) == 0 &&
                                               link.link_status == RTE_ETH_LINK_UP);
  last_mbps_ = mbps_of(link);
  is_up_.store(is_up, std::memory_order_relaxed);
  return is_up;
}

/// ethdev does not return what the driver did (rte_eth_link_get_nowait(), 22.11 to 26.07): a
/// question that failed is known by the time that it took.
void NicLink::ask_if_due(uint16_t port_id, const PortSetup& setup) {
  const Nanos asked_at = now_();
  if (asked_at < due_at_) return;
  const Nanos usual = ask(port_id, setup) ? kUpPeriod : kDownPeriod;
  const Nanos answered_at = now_();
  const bool is_silent = answered_at - asked_at >= kSilentFor;
  due_at_ = answered_at + (is_silent ? silent_pause_.next() : usual);
  if (!is_silent) silent_pause_.note_success();
}

void NicLink::forget() { due_at_ = Nanos(); }

uint32_t NicLink::speed_mbps(uint16_t port_id, const DriverQuirks& quirks) const {
  if (quirks.is_slow_to_tell_link && last_mbps_) return *last_mbps_;
  rte_eth_link link = {};
  return rte_eth_link_get_nowait(port_id, &link) == 0 ? mbps_of(link) : 0;
}

}  // namespace lyre::io::dpdk
