#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "machine/files.h"
#include "tools/lyre/doctor/finding.h"

/// Whether service and machine fit what lyred.toml configures.
namespace lyre::tools {

/// Where systemd looks for the service. Tests have folders of their own.
struct ServiceFolders {
  std::vector<std::string> units = {"/etc/systemd/system", "/run/systemd/system",
                                    "/usr/local/lib/systemd/system",
                                    "/usr/lib/systemd/system"};  ///< the operator's is the first
  std::string drop_ins;  ///< the folder of those that Lyre ships
};

/// Drop-ins of lyred.service that ports on `devices` need, and those that none needs. Nothing where
/// the service is not installed.
std::vector<Finding> check_drop_ins(const std::vector<std::string>& devices,
                                    const machine::Roots& roots, const ServiceFolders& folders);

/// Whether the NIC of each port is on the NUMA node of `cores`. Nothing where lyred chooses them:
/// `cores` is empty.
std::vector<Finding> check_numa(const std::vector<std::string>& devices,
                                const std::vector<uint32_t>& cores, const machine::Roots& roots);

}  // namespace lyre::tools
