#pragma once

#include <string>
#include <vector>

#include "daemon/config/config.h"
#include "machine/files.h"

namespace lyre {

/// Looks for what the configuration needs of this machine: devices and their drivers, interfaces,
/// addresses, directories, hugepages, the groups of sockets; and, with the number of workers,
/// whether a client may have the memory of the smallest context. Returns a line like those of
/// load_config() for each that is missing now; it may appear before the daemon starts. Opens no
/// device.
std::vector<std::string> probe_machine(const Config& config, const machine::Roots& roots);

}  // namespace lyre
