#include "stack/io/dpdk/interface_groups.h"

#include <linux/if_packet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

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
  leave();
  fd_ = fd;
  return Ok{};
}

void InterfaceGroups::leave() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

}  // namespace lyre::io::dpdk
