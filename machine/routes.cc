#include "machine/routes.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "machine/kernel_routes.h"

namespace lyre::machine {
namespace {

constexpr uint32_t kRouteUp = 0x1;  // RTF_UP
// RTF_ADDRCONF: the kernel took it from a router advertisement. RTF_EXPIRES: another program did.
constexpr uint32_t kRouteLearned = 0x40000 | 0x400000;
constexpr size_t kRouteIpv6Hex = 32;

/// Of /proc/net/ipv6_route: bytes in order.
Address address_of_route(std::string_view text) {
  Address out{};
  for (size_t i = 0; i < out.size() && text.size() == kRouteIpv6Hex; ++i) {
    out[i] = static_cast<uint8_t>(hex(text.substr(2 * i, 2)));
  }
  return out;
}

void add_ipv4_file(const std::string& path, std::vector<Route>& out) {
  constexpr size_t kTitles = 1;  // a line that names the columns
  const std::vector<std::string> all = lines(path);
  for (size_t i = kTitles; i < all.size(); ++i) {
    // Name, destination, gateway, flags, ..., metric at 6 (decimal), mask at 7.
    const auto parts = words(all[i]);
    if (parts.size() < 8 || (hex(parts[3]) & kRouteUp) == 0) continue;
    const auto bits = static_cast<uint32_t>(__builtin_popcount(hex(parts[7])));
    const auto metric = static_cast<uint32_t>(std::strtoul(parts[6].c_str(), nullptr, 10));
    out.push_back({.network = mapped(hex(parts[1])),
                   .bits = kMappedBits + bits,
                   .interface = parts[0],
                   .gateway = mapped(hex(parts[2])),
                   .metric = metric,
                   .number = number_after(out),
                   .is_of_file = true});
  }
}

void add_ipv6_file(const std::string& path, std::vector<Route>& out) {
  for (const std::string& line : lines(path)) {
    // Destination, its bits, source, its bits, gateway, metric, ..., flags at 8, name.
    const auto parts = words(line);
    if (parts.size() < 10 || (hex(parts[8]) & kRouteUp) == 0 || parts[9] == "lo") continue;
    out.push_back({.network = address_of_route(parts[0]),
                   .bits = hex(parts[1]),
                   .interface = parts[9],
                   .gateway = address_of_route(parts[4]),
                   .metric = hex(parts[5]),
                   .is_learned = (hex(parts[8]) & kRouteLearned) != 0,
                   .source = address_of_route(parts[2]),
                   .source_bits = hex(parts[3]),
                   .number = number_after(out),
                   .is_of_file = true});
  }
}

bool holds_all(uint32_t bits, bool is_of_v4) {
  return bits == (is_of_v4 ? kMappedBits : 0) || bits == 0;
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

bool is_v4(const Address& address) {
  constexpr size_t kBytes = kMappedBits / 8;
  const Address any = mapped(0);
  return std::equal(any.begin(), any.begin() + kBytes, address.begin());
}

bool is_v4(const Route& route) { return route.bits >= kMappedBits && is_v4(route.network); }

bool has_gateway(const Route& route) {
  return route.gateway != Address{} && route.gateway != mapped(0) &&
         is_v4(route.gateway) == is_v4(route);
}

bool is_link_local(const Address& address) {
  constexpr Address kNetwork{0xfe, 0x80};
  constexpr uint32_t kBits = 10;
  return is_in(address, kNetwork, kBits);
}

bool is_from_all(const RouteRule& rule) { return holds_all(rule.source_bits, rule.is_v4); }

bool is_to_all(const RouteRule& rule) { return holds_all(rule.destination_bits, rule.is_v4); }

bool leads_to(const RouteRule& rule, const Route& route) {
  const bool is_bound = !rule.out_interface.empty() && rule.out_interface == route.interface;
  return !is_bound && rule.table == route.table && rule.is_v4 == is_v4(route);
}

std::string text_of(const Address& address) {
  const bool is_of_v4 = is_v4(address);
  char text[INET6_ADDRSTRLEN] = "";
  ::inet_ntop(is_of_v4 ? AF_INET : AF_INET6, address.data() + (is_of_v4 ? kMappedBits / 8 : 0),
              text, sizeof text);
  return text;
}

bool is_in(const Address& address, const Address& network, uint32_t bits) {
  for (uint32_t bit = 0; bit < bits; ++bit) {
    const auto mask = static_cast<uint8_t>(0x80 >> (bit % 8));
    if (((address[bit / 8] ^ network[bit / 8]) & mask) != 0) return false;
  }
  return true;
}

std::vector<RouteRule> usual_rules() {
  std::vector<RouteRule> out;
  for (const bool is_of_v4 : {true, false}) {
    const Address any = is_of_v4 ? mapped(0) : Address{};
    const uint32_t bits = is_of_v4 ? kMappedBits : 0;
    for (const uint32_t table : {kMainTable, kDefaultTable}) {
      out.push_back({.is_v4 = is_of_v4,
                     .table = table,
                     .source = any,
                     .source_bits = bits,
                     .destination = any,
                     .destination_bits = bits});
    }
  }
  return out;
}

uint32_t number_after(const std::vector<Route>& routes) {
  return routes.empty() ? 0 : routes.back().number + 1;
}

Routing read_routing(const Roots& roots) {
  const bool is_recorded = roots.proc != Roots{}.proc;
  auto asked = is_recorded ? std::nullopt : kernel_routing();
  KernelRouting out = asked ? std::move(*asked)
                            : KernelRouting{.routing = {.routes = {}, .rules = usual_rules()},
                                            .is_whole_v4 = false,
                                            .is_whole_v6 = false};
  add_files(roots, out);
  return std::move(out.routing);
}

void add_routes_of_file(const Roots& roots, bool is_of_v4, std::vector<Route>& out) {
  if (is_of_v4) {
    add_ipv4_file(roots.proc + "/net/route", out);
  } else {
    add_ipv6_file(roots.proc + "/net/ipv6_route", out);
  }
}

}  // namespace lyre::machine
