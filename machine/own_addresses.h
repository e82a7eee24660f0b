#pragma once

#include <string>
#include <vector>

#include "machine/routes.h"

namespace lyre::machine {

/// An address of this machine and the kernel's interface that has it.
struct OwnAddress {
  Address address{};
  std::string interface;
};

/// All of both families. None where the process may not ask the kernel (AF_NETLINK), as the service
/// may not.
std::vector<OwnAddress> own_addresses();

}  // namespace lyre::machine
