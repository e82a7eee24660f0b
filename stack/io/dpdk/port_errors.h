#pragma once

#include <cerrno>
#include <cstdint>
#include <string>

#include "stack/base/result.h"

namespace lyre::io::dpdk {

// `name`: the device's.

// Why a port stays away until the daemon is restarted.

/// Workers and peers know a device by its address and its limits.
inline Error changed(const std::string& name) {
  return Error{EINVAL, name + ": is back with another address or other limits: restart the daemon"};
}

/// Slots that the kernel may still write are no longer in the pool.
inline Error lacks_slots(const std::string& name) {
  return Error{ENOBUFS, name +
                            ": is not opened again, so that a quarter of memory.rx_slots stays "
                            "free for other ports: restart the daemon"};
}

/// The pools are shared with the other ports: a packet that was freed twice would be used twice.
inline Error frees_twice(const std::string& name) {
  return Error{ENOTSUP, name +
                            ": is not opened again, as its driver frees packets twice when it "
                            "stops: restart the daemon"};
}

// Of a port on a kernel interface.

inline Error no_interface(const std::string& name, const std::string& interface) {
  return Error{ENODEV, name + ": there is no interface " + interface};
}

inline Error no_ethernet(const std::string& name, const std::string& interface) {
  return Error{ENOTSUP, name + ": " + interface + " carries no Ethernet frames"};
}

inline Error small_mtu(const std::string& name, uint32_t mtu, const std::string& interface,
                       uint32_t its_mtu) {
  return Error{EINVAL, name + ": MTU " + std::to_string(mtu) + " is more than that of " +
                           interface + ": " + std::to_string(its_mtu)};
}

}  // namespace lyre::io::dpdk
