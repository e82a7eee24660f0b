#include "stack/io/dpdk/packet_sockets.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "stack/io/dpdk/kernel_interface.h"

namespace lyre::io::dpdk {
namespace {

/// A group has one mode, and fanout_add() refuses a socket that wants another one. net_af_packet
/// uses PACKET_FANOUT_HASH. An abstract unix socket could stand for the group as well, but every
/// user may have its name; groups need CAP_NET_RAW.
bool is_taken(uint16_t group) {
  // No packet has this protocol, so the socket receives none.
  const int fd = ::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_802_EX1));
  if (fd < 0) return false;  // nor can the driver open one, which says why
  const int mode_and_group = PACKET_FANOUT_CPU << 16 | group;
  const bool is_refused =
      ::setsockopt(fd, SOL_PACKET, PACKET_FANOUT, &mode_and_group, sizeof mode_and_group) != 0 &&
      errno == EINVAL;
  ::close(fd);
  return is_refused;
}

}  // namespace

/// An interface that was down leaves ENETDOWN in the socket for the first sendto() after it is up.
/// A second ENETDOWN means that it is down now: then TCP sends again when it is up.
void LeftFrames::send_again() {
  is_any_ = ::sendto(socket_, nullptr, 0, MSG_DONTWAIT, nullptr, 0) < 0 && is_refusal(errno);
}

/// The kernel begins at zero again with each call.
uint64_t take_lost_packets(int socket) {
  tpacket_stats stats = {};
  socklen_t bytes = sizeof stats;
  const int rc = ::getsockopt(socket, SOL_PACKET, PACKET_STATISTICS, &stats, &bytes);
  return rc == 0 ? stats.tp_drops : 0;
}

uint16_t fanout_group(pid_t pid, uint32_t interface_index) {
  return static_cast<uint16_t>(static_cast<uint32_t>(pid) ^ interface_index);
}

Status check_fanout_group(const DeviceArgs& args) {
  if (args.driver() != "net_af_packet") return Ok{};
  const std::string interface(args.value_of("iface"));
  const uint16_t group = fanout_group(::getpid(), interface_index(interface));
  if (!is_taken(group)) return Ok{};
  return Error{EEXIST, args.name() + ": fanout group " + std::to_string(group) +
                           " is taken by another socket of this network namespace: give each "
                           "daemon another PID than " +
                           std::to_string(::getpid()) + ", and " + interface +
                           " one port of a daemon"};
}

}  // namespace lyre::io::dpdk
