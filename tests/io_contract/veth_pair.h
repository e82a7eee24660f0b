#pragma once

#include <string>

#include "stack/base/result.h"

namespace lyre::io::contract {

/// Creates a pair of kernel interfaces, up, with an MTU of `mtu_bytes`, in this process's own
/// network namespace (made on first use). An earlier pair is removed. Names: "left" and "right".
/// Fails: EPERM without the privilege, ENOTSUP when the kernel has no such interfaces.
Status make_veth_pair(uint32_t mtu_bytes);

/// Removes the pair, and makes it again with the same addresses.
void remove_veth_pair();
Status make_veth_pair_again(uint32_t mtu_bytes);

/// Waits until the kernel reports `interface` as up and running.
void await_interface(const std::string& interface);

}  // namespace lyre::io::contract
