#pragma once

#include <string>
#include <vector>

#include "daemon/config/config.h"
#include "machine/files.h"

namespace lyre {

/// Looks for what a configuration needs of this machine and what may still come before the start:
/// devices and their drivers, interfaces, addresses, directories, hugepages, the socket's group.
/// Returns a line like those of load_config() for each that is missing. Opens no device.
std::vector<std::string> probe_machine(const Config& config, const machine::Roots& roots);

}  // namespace lyre
