#include "machine/routes.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstdlib>

namespace lyre::machine {
namespace {

constexpr uint32_t kRouteUp = 0x1;  // RTF_UP
constexpr size_t kRouteIpv6Hex = 32;
constexpr uint32_t kMappedBits = 96;

/// Of /proc/net/ipv6_route: bytes in order.
Address address_of_route(std::string_view text) {
  Address out{};
  for (size_t i = 0; i < out.size() && text.size() == kRouteIpv6Hex; ++i) {
    out[i] = static_cast<uint8_t>(hex(text.substr(2 * i, 2)));
  }
  return out;
}

}  // namespace

uint32_t hex(std::string_view text) {
  return static_cast<uint32_t>(std::strtoul(std::string(text).c_str(), nullptr, 16));
}

Address mapped(uint32_t ipv4_as_printed) {
  Address out{};
  out[10] = out[11] = 0xff;
  for (size_t i = 0; i < 4; ++i) out[12 + i] = static_cast<uint8_t>(ipv4_as_printed >> (8 * i));
  return out;
}

bool is_default(const Route& route) {
  return route.bits == 0 || (route.bits == kMappedBits && route.network == mapped(0));
}

bool is_v4(const Route& route) {
  return std::equal(route.network.begin(), route.network.begin() + kMappedBits / 8,
                    mapped(0).begin()) &&
         route.bits >= kMappedBits;
}

bool has_gateway(const Route& route) {
  return route.gateway != Address{} && route.gateway != mapped(0);
}

std::string text_of(const Address& address) {
  const bool is_v4 = std::equal(address.begin(), address.begin() + 12, mapped(0).begin());
  char text[INET6_ADDRSTRLEN] = "";
  ::inet_ntop(is_v4 ? AF_INET : AF_INET6, address.data() + (is_v4 ? 12 : 0), text, sizeof text);
  return text;
}

bool is_in(const Address& address, const Route& route) {
  for (uint32_t bit = 0; bit < route.bits; ++bit) {
    const auto mask = static_cast<uint8_t>(0x80 >> (bit % 8));
    if (((address[bit / 8] ^ route.network[bit / 8]) & mask) != 0) return false;
  }
  return true;
}

std::vector<Route> routes(const Roots& roots) {
  std::vector<Route> out;
  for (const std::string& line : lines(roots.proc + "/net/route")) {
    // Name, destination, gateway, flags, ..., metric at 6 (decimal), mask at 7.
    const auto parts = words(line);
    if (parts.size() < 8 || (hex(parts[3]) & kRouteUp) == 0) continue;
    const auto bits = static_cast<uint32_t>(__builtin_popcount(hex(parts[7])));
    const auto metric = static_cast<uint32_t>(std::strtoul(parts[6].c_str(), nullptr, 10));
    out.push_back(
        {mapped(hex(parts[1])), kMappedBits + bits, parts[0], mapped(hex(parts[2])), metric});
  }
  for (const std::string& line : lines(roots.proc + "/net/ipv6_route")) {
    // Destination, its bits, ..., gateway at 4, metric, ..., flags at 8, name.
    const auto parts = words(line);
    if (parts.size() < 10 || (hex(parts[8]) & kRouteUp) == 0 || parts[9] == "lo") continue;
    out.push_back({address_of_route(parts[0]), hex(parts[1]), parts[9], address_of_route(parts[4]),
                   hex(parts[5])});
  }
  return out;
}

}  // namespace lyre::machine
