#include "stack/io/dpdk/packet_port/socket.h"

#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "stack/io/dpdk/packet_port/steering.h"

namespace lyre::io::dpdk {
namespace {

/// Of packets that wait, as the kernel counts them: with its own structures, some 2.3 KiB for a
/// packet of 1500 bytes.
constexpr int kReceiveBytes = 16 << 20;
constexpr int kSendBytes = 4 << 20;

/// PACKET_FANOUT_FLAG_IGNORE_OUTGOING: the group receives nothing that this machine sends. It does
/// not heed PACKET_IGNORE_OUTGOING of its sockets.
constexpr uint32_t kIgnoreOutgoing = 0x4000;

Error socket_error(const std::string& what) {
  const int error = errno;
  return Error{error, what + ": " + std::strerror(error)};
}

template <typename Value>
bool set(int fd, int level, int name, const Value& value) {
  return setsockopt(fd, level, name, &value, sizeof(value)) == 0;
}

bool set_filter(int fd, std::span<const sock_filter> instructions) {
  const sock_fprog program{.len = static_cast<unsigned short>(instructions.size()),
                           .filter = const_cast<sock_filter*>(instructions.data())};
  return set(fd, SOL_SOCKET, SO_ATTACH_FILTER, program);
}

/// Without CAP_NET_ADMIN the kernel gives no more than net.core.rmem_max and wmem_max.
void set_buffers(int fd) {
  if (!set(fd, SOL_SOCKET, SO_RCVBUFFORCE, kReceiveBytes)) {
    set(fd, SOL_SOCKET, SO_RCVBUF, kReceiveBytes);
  }
  if (!set(fd, SOL_SOCKET, SO_SNDBUFFORCE, kSendBytes)) {
    set(fd, SOL_SOCKET, SO_SNDBUF, kSendBytes);
  }
}

}  // namespace

PacketSocket::PacketSocket(PacketSocket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

PacketSocket& PacketSocket::operator=(PacketSocket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

PacketSocket::~PacketSocket() {
  if (fd_ >= 0) close(fd_);
}

bool PacketSocket::is_bound() const {
  sockaddr_ll address = {};
  socklen_t bytes = sizeof(address);
  return getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &bytes) == 0 &&
         address.sll_ifindex > 0;
}

uint64_t PacketSocket::take_lost() const {
  tpacket_stats stats = {};  // reading resets them
  socklen_t bytes = sizeof(stats);
  const bool is_read = getsockopt(fd_, SOL_PACKET, PACKET_STATISTICS, &stats, &bytes) == 0;
  return is_read ? stats.tp_drops : 0;
}

/// It receives nothing until receive_all(): a socket that has not joined its group yet would get
/// every packet of the interface.
Status PacketSocket::open(uint32_t interface_index) {
  static constexpr sock_filter kNothing[] = {{BPF_RET | BPF_K, 0, 0, 0}};
  fd_ = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd_ < 0) return socket_error("a packet socket");
  if (!set(fd_, SOL_PACKET, PACKET_VNET_HDR, 1)) return socket_error("PACKET_VNET_HDR");
  if (!set(fd_, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1))
    return socket_error("PACKET_IGNORE_OUTGOING");
  if (!set_filter(fd_, kNothing)) return socket_error("a packet filter");
  set_buffers(fd_);
  sockaddr_ll address = {};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(interface_index);
  if (bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return socket_error("the packets of the interface");
  }
  return Ok{};
}

/// The kernel chooses the number of the group, so that no other process has the same.
Status PacketSocket::join_group(uint16_t& group, bool is_first) {
  const uint32_t type =
      PACKET_FANOUT_CBPF | kIgnoreOutgoing | (is_first ? PACKET_FANOUT_FLAG_UNIQUEID : 0);
  if (!set(fd_, SOL_PACKET, PACKET_FANOUT, type << 16 | group)) {
    return socket_error("PACKET_FANOUT, which before Linux 6.13 needs the interface to be up");
  }
  if (!is_first) return Ok{};
  uint32_t joined = 0;
  socklen_t bytes = sizeof(joined);
  if (getsockopt(fd_, SOL_PACKET, PACKET_FANOUT, &joined, &bytes) != 0) {
    return socket_error("PACKET_FANOUT");
  }
  group = static_cast<uint16_t>(joined);
  const auto steering = steering_program();
  const sock_fprog program{.len = static_cast<unsigned short>(steering.size()),
                           .filter = const_cast<sock_filter*>(steering.data())};
  if (!set(fd_, SOL_PACKET, PACKET_FANOUT_DATA, program)) return socket_error("PACKET_FANOUT_DATA");
  return Ok{};
}

/// The kernel takes a VLAN's tag out of the packet: without this filter a packet of a VLAN would
/// look like one of the interface's own network. What this machine sends is filtered as well,
/// because a group of an older kernel gets it.
Status PacketSocket::receive_all() {
  constexpr auto kDirection = static_cast<uint32_t>(SKF_AD_OFF + SKF_AD_PKTTYPE);
  constexpr auto kHasTag = static_cast<uint32_t>(SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT);
  constexpr auto kTag = static_cast<uint32_t>(SKF_AD_OFF + SKF_AD_VLAN_TAG);
  constexpr uint32_t kVlanId = 0x0fff;  // 0 names no VLAN: see wire::is_priority_tagged()
  static constexpr sock_filter kOurs[] = {
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, kDirection},
      {BPF_JMP | BPF_JEQ | BPF_K, 5, 0, PACKET_OUTGOING},
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, kHasTag},
      {BPF_JMP | BPF_JEQ | BPF_K, 2, 0, 0},
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, kTag},
      {BPF_JMP | BPF_JSET | BPF_K, 1, 0, kVlanId},
      {BPF_RET | BPF_K, 0, 0, UINT32_MAX},
      {BPF_RET | BPF_K, 0, 0, 0},
  };
  if (!set_filter(fd_, kOurs)) return socket_error("a packet filter");
  return Ok{};
}

Result<std::vector<PacketSocket>> open_packet_sockets(uint32_t interface_index, uint32_t count) {
  std::vector<PacketSocket> sockets(count);
  uint16_t group = 0;
  for (PacketSocket& one : sockets) {
    if (Status done = one.open(interface_index); !done) return done.error();
    if (count == 1) break;
    if (Status done = one.join_group(group, &one == sockets.data()); !done) return done.error();
  }
  for (PacketSocket& one : sockets) {
    if (Status done = one.receive_all(); !done) return done.error();
  }
  return sockets;
}

}  // namespace lyre::io::dpdk
