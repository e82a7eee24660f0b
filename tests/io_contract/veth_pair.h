#pragma once

#include <string>

#include "stack/base/result.h"

namespace lyre::io::contract {

/// A fresh pair of kernel interfaces in this process's own network namespace (made on first use),
/// up, with an MTU of `mtu_bytes`; an earlier pair is gone. Names: "left" and "right".
/// Fails: EPERM without the right, ENOTSUP when the kernel has no such interfaces.
Status make_veth_pair(uint32_t mtu_bytes);

/// Waits until the kernel says that `interface` is up and running.
void await_interface(const std::string& interface);

}  // namespace lyre::io::contract
