#pragma once

#include <string>

#include "machine/files.h"

namespace lyre::machine {

/// /lib/modules/RELEASE of the kernel that runs.
std::string modules_folder();

/// False when a driver of a bus is neither in the kernel nor among the modules in `folder`, so that
/// modprobe would not find it. True where that folder has no index.
bool is_driver_available(const std::string& driver, const Roots& roots, const std::string& folder);

}  // namespace lyre::machine
