#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "stack/base/ip_address.h"
#include "stack/base/mac_address.h"
#include "stack/base/nanos.h"
#include "stack/io/dpdk/kernel_interface.h"

namespace lyre::io::dpdk {

// What makes a port on a kernel interface work badly, and the cure, in one line; empty: nothing.
// Thread: the control thread.

/// How often they are looked for. The kernel answers some questions under its lock of all
/// interfaces (RTNL), for which others may make it wait.
inline constexpr Nanos kInterfaceLookInterval = seconds(30);

/// The interface is no longer what the port was opened on: a bond that changed its interface, a
/// bridge, or an operator gave it another address or a smaller MTU. Workers and peers know `mac`.
std::string changed_interface(const std::string& interface, const MacAddress& mac,
                              uint32_t mtu_bytes, const InterfaceSocket& by = {});

/// The kernel merges received packets to more than 64 KiB (BIG TCP), for which no slots are kept.
std::string oversized_merging(const std::string& interface, uint32_t interface_index);

/// The kernel forwards what arrives. Its stack gets each packet beside a packet socket: it sends
/// copies on, or tells peers that they cannot reach `own`, the port's addresses. `proc`: where the
/// kernel's files are.
std::string forwarding_kernel(const std::string& interface, std::span<const IpAddress> own,
                              const std::string& proc = "/proc");

}  // namespace lyre::io::dpdk
