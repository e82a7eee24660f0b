#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tools/lyre/doctor/finding.h"

/// Whether NCCL would load and use the plugin in this environment.
namespace lyre::tools {

/// Variables that NCCL reads: of the process, and of NCCL's configuration files where the process
/// has none.
using Settings = std::map<std::string, std::string>;
Settings nccl_settings(const char* const* environment, const std::vector<std::string>& files);

/// Opens a library as NCCL does; returns what is wrong, or nothing.
using LoadLibrary = std::function<std::string(const std::string& name)>;
std::string load_plugin(const std::string& name);

/// `glibc` is the version of this system's, as gnu_get_libc_version(3) gives it.
std::vector<Finding> check_nccl(const Settings& settings, const LoadLibrary& load,
                                const std::string& glibc);

}  // namespace lyre::tools
