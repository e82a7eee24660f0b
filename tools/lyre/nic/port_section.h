#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "machine/own_addresses.h"
#include "machine/routes.h"
#include "tools/lyre/nic/nic.h"

namespace lyre::tools {

/// How the kernel uses an interface, as far as a port can.
struct InterfaceUse {
  std::vector<std::string> addresses;  ///< "10.0.1.5/24", as many as a port has; no link-local ones
  std::vector<std::string> left_out;   ///< the further ones
  std::vector<std::string> gateways;   ///< one of each family at most
  /// Of IPv6, in place of a gateway: its lifetime ends. Empty: none.
  std::string advertised_router;
  std::vector<std::string> notes;  ///< what else was not taken, and why
  uint32_t mtu_bytes = 0;          ///< 0: unknown
  uint32_t speed_mbps = 0;         ///< 0: unknown, as while the link is down
};
/// Of the interfaces `names`. Unknown ones have no addresses.
InterfaceUse interface_use(const std::vector<std::string>& names, const machine::Roots& roots = {});
/// Its parts: the addresses of these interfaces among `all`, at least one of each family, and then
/// the routers of the families of the addresses taken.
void take_addresses(const std::vector<std::string>& names,
                    const std::vector<machine::OwnAddress>& all, InterfaceUse& use);
void take_routers(const std::vector<std::string>& names, const std::vector<machine::Route>& routes,
                  InterfaceUse& use);

/// The [[port]] section of lyred.toml with which lyred uses the NIC as the kernel does now.
std::string port_section(const NicState& state, const InterfaceUse& use);

/// Prints the section of a NIC that is bound to `out`, and where that fails to `instead`: the
/// kernel no longer has the NIC's addresses.
void print_section(const std::string& section, std::ostream& out, std::ostream& instead);

}  // namespace lyre::tools
