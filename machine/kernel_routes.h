#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "machine/netlink.h"
#include "machine/routes.h"

namespace lyre::machine {

/// What the kernel says of its routes by rtnetlink(7).
struct KernelRouting {
  Routing routing;
  /// False: of a route of the family the next hops were not told, as of a nexthop object with the
  /// sysctl net.ipv4.nexthop_compat_mode=0, or the family was refused.
  bool is_whole_v4 = true;
  bool is_whole_v6 = true;
};

/// All of this machine. None where the process may not ask (AF_NETLINK). Where the kernel refuses
/// the list of interfaces only (RTM_GETLINK), the rule of VRFs leads to no table.
std::optional<KernelRouting> kernel_routing();
/// Adds what /proc says of each family that is not whole. The flags stay.
void add_files(const Roots& roots, KernelRouting& out);

/// Adds the unicast routes of `family` of a dump for RTM_GETROUTE, one for each next hop, without
/// those of the table "local" and those over an interface that went since.
void add_routes(std::string_view dump, uint8_t family, InterfaceNames& names, KernelRouting& out);
/// The rules of `family` of a dump for RTM_GETRULE that lead to a table other than "local". The
/// rule of VRFs has the table 0.
std::vector<RouteRule> rules_in(std::string_view dump, uint8_t family);
/// Of the VRFs among the interfaces of a dump for RTM_GETLINK.
std::vector<uint32_t> vrf_tables_in(std::string_view dump);

}  // namespace lyre::machine
