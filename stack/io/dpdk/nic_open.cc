#include "stack/io/dpdk/nic_open.h"

#include <rte_dev.h>

#include <cerrno>
#include <string>

#include "stack/io/dpdk/driver_quirks.h"
#include "stack/io/dpdk/eal.h"
#include "stack/io/dpdk/kernel_interface.h"
#include "stack/io/dpdk/log.h"
#include "stack/io/dpdk/nic_check.h"
#include "stack/io/dpdk/port_search.h"

namespace lyre::io::dpdk {
namespace {

/// A NIC that the start of DPDK opened stays as it is.
Status probe_nic(DeviceArgs& args) {
  if (find_port(args)) return Ok{};
  if (device_path(args.kernel_folder()).empty()) {
    return Error{ENODEV, args.name() + ": there is no PCI device at this address"};
  }
  if (Status fit = prepare_nic(pci_nic_of(args.name()), dpdk_version(), args); !fit) return fit;
  LogQuote said;
  if (rte_dev_probe(args.text().c_str()) == 0) return Ok{};
  const std::string driver = kernel_driver_of(args.kernel_folder());
  return Error{EIO, args.name() + ": cannot be opened while its driver is " +
                        (driver.empty() ? "none" : driver) + ": " +
                        said.cause("it must be bound to vfio-pci or uio_pci_generic")};
}

Status find_netvsc(const DeviceArgs& args, Opening opening) {
  if (find_port(args)) return Ok{};
  return netvsc_missing(args.name(), opening, first_error_of_start());
}

}  // namespace

Status open_nic(DeviceArgs& args, Opening opening) {
  return args.is_vmbus() ? find_netvsc(args, opening) : probe_nic(args);
}

/// The drivers of that bus log the cause, and the start of DPDK succeeds without the NIC.
Error netvsc_missing(const std::string& name, Opening opening, const std::string& first_error) {
  if (opening == Opening::kAgain) {
    return Error{ENOTSUP, name +
                              ": DPDK opens a NIC of the VMbus only when it starts, and this "
                              "one was closed: restart the daemon"};
  }
  return Error{EIO, name + ": DPDK could not open it" +
                        (first_error.empty() ? "" : ", and said first: " + first_error)};
}

std::string driver_warning(const DeviceArgs& args, const std::string& driver) {
  if (!args.is_pci() || !quirks_of(driver).driver.empty()) return "";
  return "Lyre has no rules for its driver (" + driver +
         "): it copies each packet, and the NIC does not segment";
}

}  // namespace lyre::io::dpdk
