#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "machine/files.h"
#include "tools/lyre/doctor/finding.h"

/// Whether service and machine fit what a configuration of lyred asks of them.
namespace lyre::tools {

/// Where systemd looks for the service. Tests have folders of their own.
struct ServiceFolders {
  std::vector<std::string> units = {"/etc/systemd/system", "/run/systemd/system",
                                    "/usr/local/lib/systemd/system",
                                    "/usr/lib/systemd/system"};  ///< the operator's is the first
  std::string drop_ins;  ///< the folder of those that Lyre ships
};

/// The unit that runs a configuration.
struct DaemonUnit {
  std::string name;    ///< "lyred", "lyred@team-a"
  std::string parent;  ///< "lyred@", whose drop-ins all of its instances have; empty: none
  std::string config;  ///< the file's name
};
/// lyred.toml is the service's, NAME.toml that of lyred@NAME.
DaemonUnit unit_of(const std::string& config_path);

/// Drop-ins of the unit that ports on `devices` need, and those that none needs. Nothing where the
/// unit is not installed.
std::vector<Finding> check_drop_ins(const std::vector<std::string>& devices,
                                    const machine::Roots& roots, const ServiceFolders& folders,
                                    const DaemonUnit& unit);

/// What `systemctl show` prints of the unit: MainPID and CPUAffinity, where systemd runs.
std::string run_unit_show(const DaemonUnit& unit);
/// Those of `cores` that CPUAffinity= of the unit does not have. `shown`: as run_unit_show()
/// returns it. Nothing while the daemon runs: it has its cores.
std::vector<Finding> check_affinity(const std::string& shown, const std::vector<uint32_t>& cores,
                                    const DaemonUnit& unit);

/// Whether the NIC of each port is on the NUMA node of `cores`. Nothing where lyred chooses them:
/// `cores` is empty.
std::vector<Finding> check_numa(const std::vector<std::string>& devices,
                                const std::vector<uint32_t>& cores, const machine::Roots& roots);

}  // namespace lyre::tools
