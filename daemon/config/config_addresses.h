#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "stack/base/interface_address.h"

namespace lyre {

/// An address with a prefix, in the form ADDRESS/BITS. Units: bits of 32, or of 128 for IPv6.
struct Cidr {
  IpAddress address;
  uint32_t prefix_bits = 0;

  InterfaceAddress interface() const { return InterfaceAddress::of(address, prefix_bits); }
  friend bool operator==(const Cidr&, const Cidr&) = default;
};

/// "10.9.0.1" or "fd00::1". Fails: also for IPv4-mapped addresses, which are not allowed on the
/// wire.
std::optional<IpAddress> parse_address(const std::string& text);
/// "10.9.0.1/24" or "fd00::1/64".
std::optional<Cidr> parse_cidr(const std::string& text);
std::string address_text(const IpAddress& address);

/// True for an address that a host can have.
bool is_unicast(const IpAddress& address);
/// The same, and neither the network itself nor its broadcast address.
bool is_host_address(const Cidr& cidr);
/// True when no bit after the prefix is set.
bool is_network(const Cidr& cidr);

}  // namespace lyre
