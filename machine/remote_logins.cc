#include "machine/remote_logins.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace lyre::machine {
namespace {

constexpr uint16_t kSshPort = 22;
constexpr std::string_view kEstablished = "01";
constexpr uint32_t kRtfUp = 0x1;
constexpr size_t kIpv4Hex = 8;
constexpr size_t kIpv6Hex = 32;

/// In network byte order; IPv4 as ::ffff:a.b.c.d.
using Address = std::array<uint8_t, 16>;

struct Route {
  Address network{};
  uint32_t bits = 0;
  std::string interface;
};

uint32_t hex(std::string_view text) {
  return static_cast<uint32_t>(std::strtoul(std::string(text).c_str(), nullptr, 16));
}

Address mapped(uint32_t ipv4_as_printed) {
  Address out{};
  out[10] = out[11] = 0xff;
  // The kernel prints the four bytes as a number of this machine's byte order.
  for (size_t i = 0; i < 4; ++i) out[12 + i] = static_cast<uint8_t>(ipv4_as_printed >> (8 * i));
  return out;
}

/// Of /proc/net/tcp and tcp6: 32-bit words as numbers of this machine.
Address address_of_socket(std::string_view text) {
  if (text.size() == kIpv4Hex) return mapped(hex(text));
  Address out{};
  for (size_t word = 0; word < 4 && text.size() == kIpv6Hex; ++word) {
    const uint32_t value = hex(text.substr(8 * word, 8));
    for (size_t i = 0; i < 4; ++i) out[4 * word + i] = static_cast<uint8_t>(value >> (8 * i));
  }
  return out;
}

/// Of /proc/net/ipv6_route: bytes in order.
Address address_of_route(std::string_view text) {
  Address out{};
  for (size_t i = 0; i < out.size() && text.size() == kIpv6Hex; ++i) {
    out[i] = static_cast<uint8_t>(hex(text.substr(2 * i, 2)));
  }
  return out;
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
    const auto parts = words(line);  // name, destination, gateway, flags, ..., mask at 7
    if (parts.size() < 8 || (hex(parts[3]) & kRtfUp) == 0) continue;
    const auto bits = static_cast<uint32_t>(__builtin_popcount(hex(parts[7])));
    out.push_back({mapped(hex(parts[1])), 96 + bits, parts[0]});
  }
  for (const std::string& line : lines(roots.proc + "/net/ipv6_route")) {
    const auto parts = words(line);  // destination, its bits, ..., flags at 8, name
    if (parts.size() < 10 || (hex(parts[8]) & kRtfUp) == 0 || parts[9] == "lo") continue;
    out.push_back({address_of_route(parts[0]), hex(parts[1]), parts[9]});
  }
  return out;
}

std::vector<Address> peers(const Roots& roots, uint16_t own_port) {
  std::vector<Address> out;
  for (const char* file : {"/net/tcp", "/net/tcp6"}) {
    for (const std::string& line : lines(roots.proc + file)) {
      const auto parts = words(line);  // number, local, remote, state
      if (parts.size() < 4 || parts[3] != kEstablished) continue;
      const size_t colon = parts[1].find(':');
      if (colon == std::string::npos || hex(parts[1].substr(colon + 1)) != own_port) continue;
      out.push_back(address_of_socket(parts[2].substr(0, parts[2].find(':'))));
    }
  }
  return out;
}

}  // namespace

std::set<std::string> login_interfaces(const Roots& roots, const std::string& ssh_connection) {
  std::vector<Address> remote = peers(roots, kSshPort);
  const auto parts = words(ssh_connection);  // peer, its port, own address, own port
  if (parts.size() == 4) {
    const auto own_port = static_cast<uint16_t>(std::strtoul(parts[3].c_str(), nullptr, 10));
    const auto more = own_port == kSshPort ? std::vector<Address>{} : peers(roots, own_port);
    remote.insert(remote.end(), more.begin(), more.end());
  }
  const std::vector<Route> all = routes(roots);
  std::set<std::string> found;
  for (const Address& peer : remote) {
    const Route* best = nullptr;
    for (const Route& route : all) {
      if (is_in(peer, route) && (best == nullptr || route.bits > best->bits)) best = &route;
    }
    if (best != nullptr) found.insert(best->interface);
  }
  return found;
}

}  // namespace lyre::machine
