#pragma once

#include <cstdint>
#include <string>

namespace lyre::io::dpdk {

/// Whether DPDK drives Intel's NIC with this device number by its driver ice: E810 and its
/// relatives, without their virtual functions.
bool is_ice(uint16_t device);

/// Whether ice finds the package that it loads into the NIC: below `firmware` or, from 24.11 on,
/// where the kernel was told to look. `sys`: where the kernel's files are.
bool has_ice_package(const std::string& firmware, const std::string& sys);

}  // namespace lyre::io::dpdk
