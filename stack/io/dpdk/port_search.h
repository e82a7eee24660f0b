#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "stack/io/dpdk/device_args.h"

namespace lyre::io::dpdk {

/// Whether a port of DPDK belongs to the device of `args`: its device has that name, and its MAC
/// address is the argument `mac`, where there is one.
bool belongs_to(const DeviceArgs& args, std::string_view device_name, std::string_view mac);

/// The port that DPDK has made for a device. The drivers mana and mlx4 make several ports of a
/// device, whose names are not that of the device.
std::optional<uint16_t> find_port(const DeviceArgs& args);

/// Queue pairs that a device can have: of a NIC as its driver says. 0: not known, as of a NIC that
/// DPDK has not opened.
uint32_t queue_pairs_max(const DeviceArgs& args);

/// The port of the PCI function that a NIC of the VMbus sends through: it has the same MAC address.
/// Thread: DPDK's interrupt thread. netvsc closes the function there, and a port that is being
/// closed has no data to look at: see on_interrupt_thread().
std::optional<uint16_t> find_function(uint16_t netvsc_port);

/// Whether the port of that function was started, and not stopped since. Empty: the interrupt
/// thread is busy, often with that function.
/// Thread: any but DPDK's interrupt thread.
std::optional<bool> is_function_used(uint16_t netvsc_port);

/// The path in /sys of the PCI device behind a port: of a NIC on the VMbus its virtual function,
/// and of a virtual device the NIC under its interface. Empty: there is none.
std::string pci_path_of(const DeviceArgs& args);

}  // namespace lyre::io::dpdk
