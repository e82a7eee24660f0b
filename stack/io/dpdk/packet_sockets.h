#pragma once

#include <sys/types.h>

#include <cerrno>
#include <cstdint>

#include "stack/base/result.h"
#include "stack/io/dpdk/device_args.h"

namespace lyre::io::dpdk {

/// The frames that net_af_packet has put into the transmit ring of a queue and that the kernel has
/// refused: the queue of the interface is full, or it has no carrier. The driver counts them as
/// sent, and offers them to the kernel again only when it sends another packet.
/// Thread: the queue's worker. Owner: *borrows* the socket.
class LeftFrames {
 public:
  /// `socket`: of the queue. -1: the queue is of another driver, and no frame is ever left.
  explicit LeftFrames(int socket) : socket_(socket) {}

  /// Makes a call of rte_eth_tx_burst(). The driver returns no error of its sendto(): errno has it.
  template <typename Burst>
  uint16_t burst(Burst&& burst) {
    if (socket_ < 0) return burst();
    errno = 0;
    const uint16_t sent = burst();
    is_any_ = is_refusal(errno) || errno == ENETDOWN;
    return sent;
  }
  bool is_any() const { return is_any_; }
  /// Offers them to the kernel again.
  void send() {
    if (is_any_) [[unlikely]]
      send_again();
  }
  void forget() { is_any_ = false; }

 private:
  static bool is_refusal(int error) { return error == ENOBUFS || error == EAGAIN; }
  void send_again();

  int socket_;
  bool is_any_ = false;
};

/// Packets that the kernel has lost since the last call, because the receive ring of this packet
/// socket was full. Other packets of the interface count as well.
uint64_t take_lost_packets(int socket);

/// The group of packet sockets among which the kernel divides the packets of an interface, as
/// net_af_packet names it. A network namespace has one set of groups; PID namespaces in it may have
/// the same `pid` in each.
uint16_t fanout_group(pid_t pid, uint32_t interface_index);

/// Whether a port can be opened without becoming a member of the group of another one, which would
/// divide the packets of both. Two processes that open their ports in the same tenth of a second
/// may miss each other.
/// Thread: the control thread; it takes some 20 ms. Fails: EEXIST, one line that says how to get
/// another group. Devices of other drivers have no group.
Status check_fanout_group(const DeviceArgs& args);

}  // namespace lyre::io::dpdk
