#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "machine/files.h"

namespace lyre::machine {

/// In network byte order; IPv4 as ::ffff:a.b.c.d.
using Address = std::array<uint8_t, 16>;

/// A route of the kernel that is up.
struct Route {
  Address network{};
  uint32_t bits = 0;  ///< of 128
  std::string interface;
  Address gateway{};    ///< unspecified (of the route's family): none
  uint32_t metric = 0;  ///< of several routes to a network the kernel uses the one with the lowest
};

/// All routes of both families, without IPv6 ones to the loopback interface.
std::vector<Route> routes(const Roots& roots);
/// True for a route to everything, of either family.
bool is_default(const Route& route);
bool is_v4(const Route& route);
bool has_gateway(const Route& route);
bool is_in(const Address& address, const Route& route);

/// The number that a text of hexadecimal digits begins with.
uint32_t hex(std::string_view text);
/// Four bytes as the kernel prints them: a number of this machine's byte order.
Address mapped(uint32_t ipv4_as_printed);
/// As inet_ntop(3) writes it.
std::string text_of(const Address& address);

}  // namespace lyre::machine
