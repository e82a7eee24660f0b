#pragma once

#include <cstdint>
#include <string>

#include "stack/base/result.h"
#include "stack/io/dpdk/device_args.h"

namespace lyre::io::dpdk {

/// Whether a port was opened before in this process.
enum class Opening : uint8_t { kFirst, kAgain };

/// Makes DPDK open the NIC, with the device arguments that its driver needs. One that the start of
/// DPDK has opened stays as it is.
/// Thread: the control thread. Fails: one line that says what keeps the NIC from being opened.
Status open_nic(DeviceArgs& args, Opening opening);

/// Why a NIC of the VMbus, which DPDK opens only when it starts, is not open. `first_error`: what
/// DPDK logged then; empty: nothing.
Error netvsc_missing(const std::string& name, Opening opening, const std::string& first_error);

/// The warning of a port on a PCI NIC whose driver has no row in driver_quirks.cc. Empty: it has
/// one, or the device is another one.
std::string driver_warning(const DeviceArgs& args, const std::string& driver);

}  // namespace lyre::io::dpdk
