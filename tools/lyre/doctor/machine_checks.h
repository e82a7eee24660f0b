#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "machine/boot_pages.h"
#include "machine/files.h"
#include "tools/lyre/configured.h"
#include "tools/lyre/doctor/finding.h"
#include "tools/lyre/nic/nic.h"

/// What `lyre doctor` asks the machine.
namespace lyre::tools {

/// What the kernel says of itself: `release` and `hardware` ("x86_64", "aarch64") as uname(2) gives
/// them.
Finding check_kernel(const std::string& release, std::string_view hardware);
Finding check_iommu(const machine::Roots& roots, const std::vector<NicState>& nics,
                    std::string_view hardware);
/// Lockdown, which comes with Secure Boot, and NICs that DPDK drives without VFIO.
Finding check_lockdown(const machine::Roots& roots, const std::vector<NicState>& nics);
/// `modules_folder`: as machine::modules_folder().
Finding check_driver_modules(const machine::Roots& roots, const std::vector<NicState>& nics,
                             const std::string& modules_folder);
/// NICs that a boot binds to igb_uio: whether the newest kernel in `folder`, which is /lib/modules,
/// has that module. `release`: of the kernel that runs. Nothing where all is well.
std::vector<Finding> check_next_kernel(const std::vector<NicState>& nics,
                                       const std::string& release, const std::string& folder);
/// ENAs on igb_uio: whether their registers are written in combined writes. `options` are the lines
/// of modprobe's configuration. Nothing where there is no such NIC.
std::vector<Finding> check_write_combining(const machine::Roots& roots,
                                           const std::vector<NicState>& nics,
                                           const std::string& options);
/// `needed_mib`: what lyred needs of them. `devices`: those of its ports. None reserved is a
/// problem where one of these is a NIC that fetches from physical addresses. `has_daemon`: one runs
/// and has taken its own. Otherwise so many must be free, and processes that keep receive pools of
/// a daemon that has ended are named.
Finding check_hugepages(const machine::Roots& roots, const std::vector<NicState>& nics,
                        const std::vector<std::string>& devices, uint64_t needed_mib,
                        bool has_daemon);
/// Whether a boot reserves `needed_mib`.
Finding check_hugepages_at_boot(const machine::Roots& roots, const machine::BootFolders& folders,
                                uint64_t needed_mib);
Finding check_isolation(const machine::Roots& roots);
Finding check_io_uring(const machine::Roots& roots);
/// One finding for each NIC, or one if there is none.
std::vector<Finding> check_nics(const std::vector<NicState>& nics);

}  // namespace lyre::tools
