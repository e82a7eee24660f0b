#include "stack/io/dpdk/kernel_interface.h"

#include <dirent.h>
#include <linux/ethtool.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

namespace lyre::io::dpdk {
namespace {

std::string real_path(const std::string& path) {
  char resolved[PATH_MAX];
  return realpath(path.c_str(), resolved) == nullptr ? std::string() : std::string(resolved);
}

std::string last_part(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// Makes an ioctl for an interface. Returns 0, or an errno: ENODEV when no interface has that name.
int error_of(const std::string& interface, unsigned long request, ifreq& answer,
             const InterfaceSocket& by) {
  if (interface.empty() || interface.size() >= IFNAMSIZ) return ENODEV;
  std::memcpy(answer.ifr_name, interface.c_str(), interface.size() + 1);
  return ioctl(by.fd(), request, &answer) == 0 ? 0 : errno;
}

bool ask(const std::string& interface, unsigned long request, ifreq& answer,
         const InterfaceSocket& by) {
  return error_of(interface, request, answer, by) == 0;
}

/// Every other error leaves open whether there is such an interface.
bool says_gone(int error) { return error == ENODEV || error == ENXIO; }

/// Only a listener's socket has a name: the peer of a client's socket is named, that of an accepted
/// socket is not.
bool has_named_peer(int fd) {
  sockaddr_un peer = {};
  socklen_t bytes = sizeof(peer);
  return getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &bytes) == 0 &&
         bytes > offsetof(sockaddr_un, sun_path);
}

template <typename Condition>
std::optional<std::vector<int>> open_descriptors(const Condition& is_wanted) {
  std::vector<int> found;
  DIR* directory = opendir("/proc/self/fd");
  if (directory == nullptr) return std::nullopt;
  while (const dirent* entry = readdir(directory)) {
    // "." and ".." are no numbers, and 0 is never one of ours.
    const int fd = std::atoi(entry->d_name);
    if (fd > 0 && is_wanted(fd)) found.push_back(fd);
  }
  closedir(directory);
  std::sort(found.begin(), found.end());
  return found;
}

/// The attribute `type` of a message, or of the attribute that contains it; null if it has none.
const rtattr* attribute_in(const void* attributes, size_t bytes, int type) {
  auto* attribute = static_cast<const rtattr*>(attributes);
  for (; RTA_OK(attribute, bytes); attribute = RTA_NEXT(attribute, bytes)) {
    if ((attribute->rta_type & NLA_TYPE_MASK) == type) return attribute;
  }
  return nullptr;
}

uint32_t attribute_number(const rtattr* attribute) {
  uint32_t number = 0;
  if (attribute != nullptr && RTA_PAYLOAD(attribute) >= sizeof number) {
    std::memcpy(&number, RTA_DATA(attribute), sizeof number);
  }
  return number;
}

/// What the kernel says of an interface, and how many bytes that has; 0: nothing.
struct LinkMessage {
  explicit LinkMessage(uint32_t interface_index);
  const rtattr* attribute(int type) const;

  alignas(nlmsghdr) std::array<char, 32768> reply;
  size_t bytes = 0;
};

LinkMessage::LinkMessage(uint32_t interface_index) {
  struct {
    nlmsghdr header;
    ifinfomsg link;
  } request = {};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = RTM_GETLINK;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.link.ifi_index = static_cast<int>(interface_index);
  const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (fd < 0) return;
  // The kernel has answered when send() returns.
  const bool is_sent = send(fd, &request, sizeof request, 0) == sizeof request;
  const ssize_t got = is_sent ? recv(fd, reply.data(), reply.size(), MSG_DONTWAIT) : -1;
  close(fd);
  if (got > 0) bytes = static_cast<size_t>(got);
}

const rtattr* LinkMessage::attribute(int type) const {
  constexpr size_t kAttributesAt = NLMSG_SPACE(sizeof(ifinfomsg));
  nlmsghdr header = {};
  if (bytes < kAttributesAt) return nullptr;
  std::memcpy(&header, reply.data(), sizeof header);
  if (header.nlmsg_type != RTM_NEWLINK) return nullptr;
  return attribute_in(reply.data() + kAttributesAt, bytes - kAttributesAt, type);
}

}  // namespace

InterfaceSocket::InterfaceSocket()
    : fd_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)), status_(Ok{}) {
  const int error = errno;
  if (fd_ < 0) status_ = Error{error, std::string("no socket: ") + std::strerror(error)};
}

InterfaceSocket::~InterfaceSocket() {
  if (fd_ >= 0) close(fd_);
}

std::optional<std::vector<int>> sockets_of(int domain) {
  return open_descriptors([domain](int fd) {
    int value = 0;
    socklen_t bytes = sizeof(value);
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &value, &bytes) == 0 && value == domain;
  });
}

std::vector<int> descriptors_named(std::string_view prefix) {
  auto found = open_descriptors([prefix](int fd) {
    char link[PATH_MAX];
    const ssize_t length =
        readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), link, sizeof(link));
    return length > 0 && std::string_view(link, static_cast<size_t>(length)).starts_with(prefix);
  });
  return found ? std::move(*found) : std::vector<int>();
}

std::optional<std::vector<uint64_t>> unix_connections() {
  const auto sockets = sockets_of(AF_UNIX);
  if (!sockets) return std::nullopt;
  std::vector<uint64_t> found;
  for (const int fd : *sockets) {
    struct stat status = {};
    if (has_named_peer(fd) && fstat(fd, &status) == 0) found.push_back(status.st_ino);
  }
  return found;
}

uint32_t interface_mtu(const std::string& interface, const InterfaceSocket& by) {
  ifreq answer = {};
  return ask(interface, SIOCGIFMTU, answer, by) ? static_cast<uint32_t>(answer.ifr_mtu) : 0;
}

bool has_ethernet_frames(const std::string& interface, const InterfaceSocket& by) {
  ifreq answer = {};
  if (!ask(interface, SIOCGIFHWADDR, answer, by)) return false;
  const int type = answer.ifr_hwaddr.sa_family;
  return type == ARPHRD_ETHER || type == ARPHRD_LOOPBACK;
}

std::optional<MacAddress> interface_mac(const std::string& interface, const InterfaceSocket& by) {
  ifreq answer = {};
  if (!ask(interface, SIOCGIFHWADDR, answer, by)) return std::nullopt;
  MacAddress mac;
  std::memcpy(mac.bytes.data(), answer.ifr_hwaddr.sa_data, mac.bytes.size());
  return mac;
}

bool set_interface_mac(const std::string& interface, const MacAddress& mac,
                       const InterfaceSocket& by) {
  ifreq request = {};
  request.ifr_hwaddr.sa_family = ARPHRD_ETHER;
  std::memcpy(request.ifr_hwaddr.sa_data, mac.bytes.data(), mac.bytes.size());
  return ask(interface, SIOCSIFHWADDR, request, by);
}

uint32_t interface_index(const std::string& interface, const InterfaceSocket& by) {
  ifreq answer = {};
  return ask(interface, SIOCGIFINDEX, answer, by) ? static_cast<uint32_t>(answer.ifr_ifindex) : 0;
}

bool is_interface_gone(const std::string& interface, uint32_t index, const InterfaceSocket& by) {
  ifreq answer = {};
  const int error = error_of(interface, SIOCGIFINDEX, answer, by);
  return error == 0 ? static_cast<uint32_t>(answer.ifr_ifindex) != index : says_gone(error);
}

bool is_index_gone(uint32_t index) {
  const InterfaceSocket by;
  ifreq request = {};
  request.ifr_ifindex = static_cast<int>(index);
  return ioctl(by.fd(), SIOCGIFNAME, &request) != 0 && says_gone(errno);
}

uint32_t xdp_program_of(uint32_t interface_index) {
  if (interface_index == 0) return 0;
  const LinkMessage message(interface_index);
  const rtattr* const xdp = message.attribute(IFLA_XDP);
  if (xdp == nullptr) return 0;
  const auto id = [xdp](int type) {
    return attribute_number(attribute_in(RTA_DATA(xdp), RTA_PAYLOAD(xdp), type));
  };
  const uint32_t of_driver = id(IFLA_XDP_DRV_PROG_ID);
  return of_driver != 0 ? of_driver : id(IFLA_XDP_SKB_PROG_ID);
}

MergeLimits merge_limits(uint32_t interface_index) {
  constexpr int kGroIpv4MaxSize = 64;  // IFLA_GRO_IPV4_MAX_SIZE: Linux 6.3
  const LinkMessage message(interface_index);
  return {.ipv4_bytes = attribute_number(message.attribute(kGroIpv4MaxSize)),
          .ipv6_bytes = attribute_number(message.attribute(IFLA_GRO_MAX_SIZE))};
}

bool is_interface_running(const std::string& interface, const InterfaceSocket& by) {
  constexpr int kRunning = IFF_UP | IFF_RUNNING;
  ifreq answer = {};
  return ask(interface, SIOCGIFFLAGS, answer, by) && (answer.ifr_flags & kRunning) == kRunning;
}

std::string pci_path_of_interface(const std::string& interface, const std::string& sys) {
  const std::string path = real_path(sys + "/class/net/" + interface + "/device");
  return path.find("/pci") == std::string::npos ? std::string() : path;
}

std::string device_path(const std::string& folder) { return real_path(folder); }

std::string kernel_driver_of(const std::string& folder) {
  return last_part(real_path(folder + "/driver"));
}

std::string pci_function_with(const std::string& mac, const std::string& sys) {
  const std::string interfaces = sys + "/class/net";
  std::string function;
  DIR* directory = opendir(interfaces.c_str());
  if (directory == nullptr) return function;
  while (const dirent* entry = readdir(directory)) {
    const std::string name = entry->d_name;
    std::string address;
    std::ifstream(interfaces + "/" + name + "/address") >> address;
    if (strcasecmp(address.c_str(), mac.c_str()) != 0) continue;
    // Of the interfaces with this address, only the virtual function's is on the PCI bus.
    if (const std::string path = pci_path_of_interface(name, sys); !path.empty()) {
      function = last_part(path);
    }
  }
  closedir(directory);
  return function;
}

}  // namespace lyre::io::dpdk
