#pragma once

#include <set>
#include <string>

#include "machine/files.h"

namespace lyre::machine {

/// The addresses of the kernel's interfaces, IPv4 and IPv6, as inet_ntop(3) writes them.
std::set<std::string> local_addresses(const Roots& roots);

}  // namespace lyre::machine
