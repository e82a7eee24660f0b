#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "machine/netlink.h"
#include "machine/routes.h"

namespace lyre::machine {

/// An address of this machine and the kernel's interface that has it.
struct OwnAddress {
  Address address{};
  std::string interface;
  uint32_t bits = 128;    ///< of its network, of 128
  std::string passing{};  ///< why it is not one to keep, as "temporary"; empty: it is
};

/// All of both families. None where the process may not ask the kernel (AF_NETLINK), as the service
/// may not without a drop-in for kernel interfaces or NICs beside their kernel driver.
std::vector<OwnAddress> own_addresses();
/// Those of a dump for RTM_GETADDR, without those of interfaces that went since.
std::vector<OwnAddress> addresses_in(std::string_view dump, InterfaceNames& names);

}  // namespace lyre::machine
