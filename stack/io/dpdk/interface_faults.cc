#include "stack/io/dpdk/interface_faults.h"

#include <algorithm>
#include <fstream>
#include <optional>

namespace lyre::io::dpdk {
namespace {

bool is_on(const std::string& path) {
  int value = 0;
  return std::ifstream(path) >> value && value != 0;
}

}  // namespace

std::string changed_interface(const std::string& interface, const MacAddress& mac,
                              uint32_t mtu_bytes, const InterfaceSocket& by) {
  const std::optional<MacAddress> mac_now = interface_mac(interface, by);
  if (!mac_now) return "";
  if (*mac_now != mac) {
    return interface + " has another address now, " + mac_text(mac_now->bytes) +
           ", and nothing arrives: restart the daemon, or ip link set " + interface + " address " +
           mac_text(mac.bytes);
  }
  const uint32_t mtu_now = interface_mtu(interface, by);
  if (mtu_now == 0 || mtu_now >= mtu_bytes) return "";
  return interface + " carries packets of " + std::to_string(mtu_now) +
         " bytes now, and larger ones are dropped: ip link set " + interface + " mtu " +
         std::to_string(mtu_bytes);
}

std::string oversized_merging(const std::string& interface, uint32_t interface_index) {
  constexpr uint32_t kMergedBytesMax = 65536;
  const MergeLimits limits = merge_limits(interface_index);
  std::string cure;
  if (limits.ipv6_bytes > kMergedBytesMax) cure += " gro_max_size 65536";
  if (limits.ipv4_bytes > kMergedBytesMax) cure += " gro_ipv4_max_size 65536";
  if (cure.empty()) return cure;
  return "the kernel merges packets that " + interface +
         " receives to more than 64 KiB, and those are dropped: ip link set " + interface + cure;
}

/// Of IPv4 the interface's own setting counts, and of IPv6 that of all.
std::string forwarding_kernel(const std::string& interface, std::span<const IpAddress> own,
                              const std::string& proc) {
  const auto is_v6 = [](const IpAddress& address) { return !address.is_v4(); };
  const bool has_v6 = std::any_of(own.begin(), own.end(), is_v6);
  const bool has_v4 = own.empty() || !std::all_of(own.begin(), own.end(), is_v6);
  const std::string v4 = proc + "/sys/net/ipv4/conf/" + interface + "/forwarding";
  const std::string v6 = proc + "/sys/net/ipv6/conf/all/forwarding";
  const std::string what = "the kernel forwards what " + interface +
                           " receives, sends copies on, and may tell peers that this host is "
                           "unreachable: ";
  if (has_v4 && is_on(v4)) return what + "echo 0 > " + v4;
  if (has_v6 && is_on(v6)) {
    return what + "drop the port's addresses at the ingress of " + interface +
           " (nft), or, where nothing else needs it, echo 0 > " + v6;
  }
  return "";
}

}  // namespace lyre::io::dpdk
