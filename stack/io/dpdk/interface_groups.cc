#include "stack/io/dpdk/interface_groups.h"

#include <linux/if_packet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "stack/base/ipv6_address.h"
#include "stack/io/dpdk/kernel_interface.h"

namespace lyre::io::dpdk {
namespace {

/// Returns 0, or an errno.
int add_group(int fd, uint32_t interface, const MacAddress& group) {
  packet_mreq wanted = {};
  wanted.mr_ifindex = static_cast<int>(interface);
  wanted.mr_type = PACKET_MR_MULTICAST;
  wanted.mr_alen = static_cast<unsigned short>(group.bytes.size());
  std::copy(group.bytes.begin(), group.bytes.end(), wanted.mr_address);
  const int rc = ::setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &wanted, sizeof wanted);
  return rc == 0 ? 0 : errno;
}

/// Of the groups that ports join, kAllNodes has another MAC address, and the kernel is in it.
bool is_solicited_node(const MacAddress& group) {
  return group.bytes[0] == 0x33 && group.bytes[1] == 0x33 && group.bytes[2] == 0xff;
}

void add_ipv6_group(int fd, uint32_t interface, const MacAddress& group) {
  IpAddress node{};  // any of the group
  std::copy(group.bytes.begin() + 3, group.bytes.end(), node.bytes.begin() + 13);
  const IpAddress address = solicited_node_group(node);
  ipv6_mreq wanted = {};
  wanted.ipv6mr_interface = interface;
  std::memcpy(&wanted.ipv6mr_multiaddr, address.bytes.data(), sizeof wanted.ipv6mr_multiaddr);
  // Fails where the interface has no IPv6. With disable_ipv6 the kernel takes part in the group and
  // sees no queries: a switch with MLD snooping forgets the membership then.
  static_cast<void>(::setsockopt(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &wanted, sizeof wanted));
}

/// -1 without IPv6 in the kernel.
int join_ipv6_groups(uint32_t interface, std::span<const MacAddress> groups) {
  const int fd = ::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  for (const MacAddress& group : groups) {
    if (fd >= 0 && is_solicited_node(group)) add_ipv6_group(fd, interface, group);
  }
  return fd;
}

}  // namespace

Status InterfaceGroups::join(const std::string& interface, std::span<const MacAddress> groups) {
  const uint32_t index = interface_index(interface);
  if (index == 0) return Error{ENODEV, "there is no interface " + interface};
  constexpr int kNoProtocol = 0;  // no packet comes to it
  const int fd = ::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, kNoProtocol);
  int error = fd < 0 ? errno : 0;
  for (size_t i = 0; error == 0 && i < groups.size(); ++i) error = add_group(fd, index, groups[i]);
  if (error != 0) {
    if (fd >= 0) ::close(fd);
    return Error{error, "multicast groups of " + interface + ": " + std::strerror(error)};
  }
  const int ipv6_fd = join_ipv6_groups(index, groups);
  leave();
  frames_fd_ = fd;
  ipv6_fd_ = ipv6_fd;
  return Ok{};
}

void InterfaceGroups::leave() {
  for (int* fd : {&frames_fd_, &ipv6_fd_}) {
    if (*fd >= 0) ::close(std::exchange(*fd, -1));
  }
}

}  // namespace lyre::io::dpdk
