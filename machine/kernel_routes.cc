#include "machine/kernel_routes.h"

#include <linux/fib_rules.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <string>

namespace lyre::machine {
namespace {

constexpr uint32_t kTablesOfVrfs = RT_TABLE_UNSPEC;

Address unspecified(uint8_t family) { return family == AF_INET ? mapped(0) : Address{}; }

/// An address of either family, by its size. `none`: of no such size.
Address address_of_value(std::string_view value, const Address& none) {
  if (value.size() == sizeof(uint32_t)) return mapped(from_bytes<uint32_t>(value));
  return value.size() == sizeof(Address) ? from_bytes<Address>(value) : none;
}

uint32_t bits_of_128(uint8_t family, uint8_t bits) {
  return (family == AF_INET ? kMappedBits : 0) + bits;
}

/// RTA_TABLE and FRA_TABLE have numbers that do not fit into the header.
uint32_t table_of(std::string_view value, uint8_t in_header) {
  return value.empty() ? in_header : from_bytes<uint32_t>(value);
}

/// Of a next hop: of the route's family, or of the one that RTA_VIA names.
Address gateway_among(const std::vector<NetlinkPart>& attributes, uint8_t family) {
  const std::string_view via = attribute(attributes, RTA_VIA);
  if (via.size() > sizeof(sa_family_t)) {
    return address_of_value(via.substr(sizeof(sa_family_t)), unspecified(family));
  }
  return address_of_value(attribute(attributes, RTA_GATEWAY), unspecified(family));
}

struct NextHop {
  uint32_t interface = 0;
  Address gateway{};
  bool is_dead = false;
};

/// `flags_of_lone_hop`: RTNH_F_ ones of the header, for the hop of a route that has one.
std::vector<NextHop> next_hops(const std::vector<NetlinkPart>& attributes, uint8_t family,
                               uint32_t flags_of_lone_hop) {
  const auto is_dead = [](uint32_t flags) { return (flags & RTNH_F_DEAD) != 0; };
  std::vector<NextHop> out;
  if (const auto index = from_bytes<uint32_t>(attribute(attributes, RTA_OIF)); index != 0) {
    out.push_back({index, gateway_among(attributes, family), is_dead(flags_of_lone_hop)});
  }
  std::string_view rest = attribute(attributes, RTA_MULTIPATH);
  for (;;) {
    const auto hop = from_bytes<rtnexthop>(rest);
    if (hop.rtnh_len < sizeof hop || hop.rtnh_len > rest.size()) return out;
    const auto own = attributes_in(rest.substr(sizeof hop, hop.rtnh_len - sizeof hop));
    out.push_back({static_cast<uint32_t>(hop.rtnh_ifindex), gateway_among(own, family),
                   is_dead(hop.rtnh_flags)});
    rest.remove_prefix(std::min<size_t>(RTNH_ALIGN(hop.rtnh_len), rest.size()));
  }
}

bool& is_whole(KernelRouting& routing, uint8_t family) {
  return family == AF_INET ? routing.is_whole_v4 : routing.is_whole_v6;
}

/// A name that may end in a zero.
std::string_view name_in(std::string_view value) { return value.substr(0, value.find('\0')); }

void add_route(std::string_view message, uint8_t family, InterfaceNames& names,
               KernelRouting& out) {
  const auto header = from_bytes<rtmsg>(message);
  if (header.rtm_family != family || header.rtm_type != RTN_UNICAST) return;
  if ((header.rtm_flags & RTM_F_CLONED) != 0) return;  // of one peer, with what its path carries
  const auto attributes = attributes_in(message.substr(sizeof header));
  Route route;
  route.table = table_of(attribute(attributes, RTA_TABLE), header.rtm_table);
  if (route.table == RT_TABLE_LOCAL) return;
  route.network = address_of_value(attribute(attributes, RTA_DST), unspecified(family));
  route.bits = bits_of_128(family, header.rtm_dst_len);
  route.metric = from_bytes<uint32_t>(attribute(attributes, RTA_PRIORITY));
  route.number = number_after(out.routing.routes);
  if (family == AF_INET6) {
    route.is_learned = header.rtm_protocol == RTPROT_RA;
    route.source = address_of_value(attribute(attributes, RTA_SRC), Address{});
    route.source_bits = header.rtm_src_len;
  }
  const std::vector<NextHop> hops = next_hops(attributes, family, header.rtm_flags);
  if (hops.empty()) is_whole(out, family) = false;
  for (const NextHop& hop : hops) {
    route.interface = names.name_of(hop.interface);
    if (route.interface.empty()) continue;  // it went since the dump
    route.gateway = hop.gateway;
    route.is_dead = hop.is_dead;
    out.routing.routes.push_back(route);
  }
}

RouteRule rule_with(const fib_rule_hdr& header, uint32_t table,
                    const std::vector<NetlinkPart>& attributes) {
  RouteRule rule{.is_v4 = header.family == AF_INET, .table = table};
  // "not": the packets of all other selectors.
  const bool is_inverted = (header.flags & FIB_RULE_INVERT) != 0;
  const auto take = [&](uint16_t type, uint8_t bits, Address& network, uint32_t& network_bits) {
    const bool is_all = bits == 0 || is_inverted;
    const Address none = unspecified(header.family);
    network = is_all ? none : address_of_value(attribute(attributes, type), none);
    network_bits = bits_of_128(header.family, is_all ? uint8_t{0} : bits);
  };
  take(FRA_SRC, header.src_len, rule.source, rule.source_bits);
  take(FRA_DST, header.dst_len, rule.destination, rule.destination_bits);
  if (!is_inverted) rule.out_interface = name_in(attribute(attributes, FRA_OIFNAME));
  return rule;
}

/// A kernel without policy routing has no rules, and uses these tables.
std::vector<RouteRule> rules_of(uint8_t family) {
  const auto dump = netlink_dump(RTM_GETRULE, family);
  if (dump) return rules_in(*dump, family);
  std::vector<RouteRule> out = usual_rules();
  std::erase_if(out, [&](const RouteRule& rule) { return rule.is_v4 != (family == AF_INET); });
  return out;
}

/// Puts a rule for the table of each VRF in place of the one that stands for them all.
void name_tables_of_vrfs(std::vector<RouteRule>& rules) {
  std::vector<RouteRule> named;
  std::vector<uint32_t> tables;
  for (const RouteRule& rule : rules) {
    if (rule.table != kTablesOfVrfs) continue;
    if (tables.empty()) tables = vrf_tables_in(netlink_dump(RTM_GETLINK, AF_UNSPEC).value_or(""));
    for (const uint32_t table : tables) {
      named.push_back(rule);
      named.back().table = table;
    }
  }
  std::erase_if(rules, [](const RouteRule& rule) { return rule.table == kTablesOfVrfs; });
  rules.insert(rules.end(), named.begin(), named.end());
}

}  // namespace

void add_routes(std::string_view dump, uint8_t family, InterfaceNames& names, KernelRouting& out) {
  for (const NetlinkPart& message : messages_in(dump)) {
    if (message.type == RTM_NEWROUTE) add_route(message.value, family, names, out);
  }
}

std::vector<RouteRule> rules_in(std::string_view dump, uint8_t family) {
  std::vector<RouteRule> out;
  for (const NetlinkPart& message : messages_in(dump)) {
    const auto header = from_bytes<fib_rule_hdr>(message.value);
    if (message.type != RTM_NEWRULE || header.family != family) continue;
    if (header.action != FR_ACT_TO_TBL) continue;
    const auto attributes = attributes_in(message.value.substr(sizeof header));
    const uint32_t table = table_of(attribute(attributes, FRA_TABLE), header.table);
    if (table != RT_TABLE_LOCAL) out.push_back(rule_with(header, table, attributes));
  }
  return out;
}

std::vector<uint32_t> vrf_tables_in(std::string_view dump) {
  constexpr std::string_view kKind = "vrf";
  std::vector<uint32_t> out;
  for (const NetlinkPart& message : messages_in(dump)) {
    if (message.type != RTM_NEWLINK || message.value.size() < sizeof(ifinfomsg)) continue;
    const auto attributes = attributes_in(message.value.substr(sizeof(ifinfomsg)));
    const auto info = attributes_in(attribute(attributes, IFLA_LINKINFO));
    if (name_in(attribute(info, IFLA_INFO_KIND)) != kKind) continue;
    const auto data = attributes_in(attribute(info, IFLA_INFO_DATA));
    out.push_back(from_bytes<uint32_t>(attribute(data, IFLA_VRF_TABLE)));
  }
  return out;
}

std::optional<KernelRouting> kernel_routing() {
  KernelRouting out;
  InterfaceNames names;
  for (const uint8_t family : {uint8_t{AF_INET}, uint8_t{AF_INET6}}) {
    const auto dump = netlink_dump(RTM_GETROUTE, family);
    if (!dump && family == AF_INET) return std::nullopt;
    if (!dump) is_whole(out, family) = false;
    add_routes(dump.value_or(""), family, names, out);
    for (RouteRule& rule : rules_of(family)) out.routing.rules.push_back(rule);
  }
  name_tables_of_vrfs(out.routing.rules);
  return out;
}

void add_files(const Roots& roots, KernelRouting& out) {
  if (!out.is_whole_v4) add_routes_of_file(roots, true, out.routing.routes);
  if (!out.is_whole_v6) add_routes_of_file(roots, false, out.routing.routes);
}

}  // namespace lyre::machine
