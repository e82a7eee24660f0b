#pragma once

#include <cstdint>

#include "stack/io/rss_spread.h"

namespace lyre::io::dpdk {

/// How the device, which is started, spreads what it receives: as much of it as its driver tells.
/// Thread: the control thread.
RssSpread query_rss(uint16_t port_id);

}  // namespace lyre::io::dpdk
