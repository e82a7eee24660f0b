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

/// In front of an IPv4 address that is written as an IPv6 one.
constexpr uint32_t kMappedBits = 96;

constexpr uint32_t kMainTable = 254;     // RT_TABLE_MAIN
constexpr uint32_t kDefaultTable = 253;  // RT_TABLE_DEFAULT: the kernel's second choice

/// A way of the kernel to a network: a route over several next hops is one for each.
struct Route {
  Address network{};
  uint32_t bits = 0;  ///< of 128
  std::string interface;
  /// Unspecified (of the route's family): none. Of IPv6 for a route of IPv4 "via inet6".
  Address gateway{};
  uint32_t metric = 0;  ///< of several routes to a network the kernel uses the one with the lowest
  uint32_t table = kMainTable;
  bool is_learned = false;   ///< of IPv6: from a router advertisement, with a lifetime
  Address source{};          ///< of IPv6: the route is for packets from this network only
  uint32_t source_bits = 0;  ///< of 128; 0: from all
  /// Its place in the kernel's list, one for all next hops of a route. Of several IPv4 routes to a
  /// network with one metric the kernel uses the first.
  uint32_t number = 0;
  /// The kernel uses it for no packets: its interface is down, or has no link with the sysctl
  /// ignore_routes_with_linkdown=1. /proc does not say so.
  bool is_dead = false;
  bool is_of_file = false;  ///< of /proc; rtnetlink(7) may tell it too, of another table
};

/// A rule (`ip rule`): the kernel looks for routes of these packets in the table. Its other
/// conditions, as marks, are not told. Units: bits of 128; 0, and kMappedBits for IPv4, are all.
struct RouteRule {
  bool is_v4 = true;
  uint32_t table = kMainTable;
  Address source = {};
  uint32_t source_bits = 0;
  Address destination = {};
  uint32_t destination_bits = 0;
  std::string out_interface{};  ///< that to which the sender's socket is bound; empty: any
};

struct Routing {
  std::vector<Route> routes;
  std::vector<RouteRule> rules;
};

/// All unicast routes of both families. What /proc says of them takes the place of rtnetlink(7) on
/// a recorded machine, and where the process may not ask (AF_NETLINK). It stands beside the routes
/// of a family of which rtnetlink(7) did not tell all.
Routing read_routing(const Roots& roots);
/// Adds what /proc says of the routes of a family. IPv4: of the table "main" only, and one next hop
/// of a route over several. IPv6: of all tables, which are not told: each counts as "main".
void add_routes_of_file(const Roots& roots, bool is_of_v4, std::vector<Route>& out);
/// Of a kernel that was given no others: the tables "main" and "default" for all packets.
std::vector<RouteRule> usual_rules();
/// The number of a route that comes after these.
uint32_t number_after(const std::vector<Route>& routes);
/// True for a route to everything, of either family.
bool is_default(const Route& route);
bool is_v4(const Address& address);
bool is_v4(const Route& route);
/// fe80::/10: each interface has this network.
bool is_link_local(const Address& address);
/// Whether the rule is for packets from all, and whether to all.
bool is_from_all(const RouteRule& rule);
bool is_to_all(const RouteRule& rule);
/// A gateway of the route's own family.
bool has_gateway(const Route& route);
/// Whether the rule leads to the route's table, for others than sockets that are bound to the
/// route's interface: these go with the interface.
bool leads_to(const RouteRule& rule, const Route& route);
/// Whether `address` begins as `network`. Units: of 128.
bool is_in(const Address& address, const Address& network, uint32_t bits);

/// The number that a text of hexadecimal digits begins with.
uint32_t hex(std::string_view text);
/// Four bytes as the kernel prints them: a number of this machine's byte order.
Address mapped(uint32_t ipv4_as_printed);
/// As inet_ntop(3) writes it.
std::string text_of(const Address& address);

}  // namespace lyre::machine
