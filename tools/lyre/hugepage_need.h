#pragma once

#include <cstdint>

#include "tools/lyre/configured.h"

namespace lyre::tools {

/// Hugepages for so many workers, in MiB: DPDK's own memory, and the pools of each worker. A whole
/// number of pages of 2 MiB, and enough for one worker with default settings.
uint64_t hugepages_mib(uint32_t workers, const ConfiguredPackets& packets);

}  // namespace lyre::tools
