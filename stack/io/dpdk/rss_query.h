#pragma once

#include <cstdint>
#include <span>

#include "stack/io/rss_spread.h"

namespace lyre::io::dpdk {

/// How the device, which is started, spreads what it receives: as much of it as its driver tells.
/// Thread: the control thread.
RssSpread query_rss(uint16_t port_id);

/// As query_rss(), of a device that may have been started before, with `key` (empty: it was not).
/// Some drivers draw a key at each start (iavf); the device gets the earlier one back, if it takes
/// it. `hashes`: as configured, RTE_ETH_RSS_*. *Shares* `key` with the driver until the device is
/// configured again or closed: iavf keeps a pointer to it, for a reset of its own.
/// Thread: the control thread.
RssSpread restore_rss(uint16_t port_id, uint64_t hashes, std::span<uint8_t> key);

}  // namespace lyre::io::dpdk
