#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stack/base/result.h"
#include "stack/io/dpdk/device_args.h"
#include "stack/io/dpdk/environment.h"
#include "stack/io/dpdk/nic_check.h"

namespace lyre::io::dpdk {

/// The NICs that DPDK may open, with the device arguments that their drivers need. DPDK opens no
/// other one.
class AllowedNics {
 public:
  /// `sys`: where the kernel's files are.
  explicit AllowedNics(const DpdkVersion& version, std::string sys = "/sys")
      : version_(version), sys_(std::move(sys)) {}

  /// Adds the NIC of a port: "0000:00:06.0,..." or "vmbus:UUID,mac=...". A NIC of the VMbus is
  /// added with the virtual function that has the MAC address `mac`; without `mac` it has none.
  /// Fails: the NIC or its function is not there or cannot be driven; one line that says why.
  Status add(const std::string& device);

  /// Call when all are added. Fails: NICs that fetch memory by different addresses, of which a
  /// process has one kind; one line that names two.
  Status check_addressing() const;

  /// Call when all are added. `folder`: where DPDK's drivers are. Fails: a MANA function that is
  /// a port of its own, and no driver of it.
  Status check_drivers(const std::string& folder) const;

  bool empty() const { return pci_.empty() && vmbus_.empty(); }
  bool has_pci() const { return !pci_.empty(); }
  bool has_vmbus() const { return !vmbus_.empty(); }
  /// No NIC needs physical addresses, and one is known to fetch by virtual ones.
  bool uses_virtual_addresses() const {
    return physical_.empty() && (!virtual_.empty() || has_either_);
  }
  /// A NIC needs physical addresses, which ordinary pages do not keep.
  bool uses_physical_addresses() const { return !physical_.empty() || has_vmbus(); }
  /// The values of EAL's option -a.
  std::vector<std::string> words() const;

 private:
  Status add_function(DeviceArgs args);
  Status add_netvsc(DeviceArgs args);
  void note_addressing(const std::string& address);

  const DpdkVersion version_;
  const std::string sys_;
  std::vector<DeviceArgs> pci_;
  std::vector<DeviceArgs> vmbus_;
  // The first NIC that needs such addresses; empty: none.
  std::string virtual_;
  std::string physical_;
  std::string behind_iommu_;  ///< the first one that VFIO drives behind an IOMMU
  std::string mana_;          ///< the first MANA function that is a port of its own
  bool has_either_ = false;   ///< a NIC that can do with either
};

/// Whether DPDK gets hugepages, of which `free_mib` of 2 MiB each are free, where it may ask for
/// `heap_mib`. Too few are taken only where they are required: DPDK does not go on with ordinary
/// pages.
bool takes_hugepages(const EnvironmentOptions& options, const AllowedNics& nics, uint64_t free_mib,
                     uint32_t heap_mib);

/// The command line of EAL. `lcores`: the value of its option --lcores. `heap_mib`: without
/// hugepages.
std::vector<std::string> eal_arguments(const EnvironmentOptions& options, const AllowedNics& nics,
                                       bool has_hugepages, const std::string& lcores,
                                       uint32_t heap_mib);

}  // namespace lyre::io::dpdk
