#pragma once

#include <cerrno>
#include <string>

#include "stack/base/result.h"

namespace lyre::io::dpdk {

// Why a port stays away until the daemon is restarted. `name`: the device's.

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

}  // namespace lyre::io::dpdk
