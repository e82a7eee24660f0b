#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "tools/lyre/nic/nic.h"

namespace lyre::tools {

/// How the kernel uses an interface.
struct InterfaceUse {
  std::vector<std::string> addresses;  ///< "10.0.1.5/24"; no link-local ones
  std::vector<std::string> gateways;   ///< one of each family at most
  uint32_t mtu_bytes = 0;              ///< 0: unknown
  uint32_t speed_mbps = 0;             ///< 0: unknown, as while the link is down
};
/// Of the interfaces `names`. Unknown ones have no addresses.
InterfaceUse interface_use(const std::vector<std::string>& names, const machine::Roots& roots = {});
/// The routers of these interfaces, of the families of `addresses`.
std::vector<std::string> gateways_of(const std::vector<std::string>& names,
                                     const std::vector<std::string>& addresses,
                                     const machine::Roots& roots);

/// The [[port]] section of lyred.toml with which lyred uses the NIC as the kernel does now.
std::string port_section(const NicState& state, const InterfaceUse& use);

/// Prints the section of a NIC that is bound to `out`, and where that fails to `instead`: the
/// kernel no longer has the NIC's addresses.
void print_section(const std::string& section, std::ostream& out, std::ostream& instead);

}  // namespace lyre::tools
