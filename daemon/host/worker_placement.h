#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "daemon/config/config.h"
#include "machine/files.h"

namespace lyre {

/// Chooses the cores of "auto" among the processors `allowed` (ascending), the NUMA node of
/// each worker's packet memory, and to which cores each may go (machine/core_choice.h). May be
/// called again, with other `most` and `least`, which limit the choice and no list of cores.
/// REQUIRES: `allowed` is not empty, 0 < least <= most.
void place_workers(Config& config, const machine::Roots& roots, std::span<const uint32_t> allowed,
                   uint32_t most = kCoresMax, uint32_t least = 1);

/// Where the workers run, for people: "workers: 2, on cores 14-15; memory of NUMA node 1".
/// REQUIRES: place_workers().
std::string placement_text(const Config& config);

}  // namespace lyre
