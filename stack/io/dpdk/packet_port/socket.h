#pragma once

#include <cstdint>
#include <vector>

#include "stack/base/result.h"

namespace lyre::io::dpdk {

/// A packet socket on a kernel interface whose packets have a virtio_net_hdr before them
/// (PACKET_VNET_HDR): the kernel takes TSO packets, and gives packets as it merged them, with its
/// verdict on their checksums. It receives neither what this machine sends nor what has a VLAN tag.
/// Thread: the control thread; fd() and what is read from it belong to the queue's worker.
class PacketSocket {
 public:
  PacketSocket() = default;  ///< none
  PacketSocket(PacketSocket&& other) noexcept;
  PacketSocket& operator=(PacketSocket&& other) noexcept;
  ~PacketSocket();

  /// -1: none.
  int fd() const { return fd_; }
  /// False: the kernel has closed it to its interface, which went.
  bool is_bound() const;
  /// Packets that were lost since the last call, because nobody read them in time.
  uint64_t take_lost() const;

 private:
  friend Result<std::vector<PacketSocket>> open_packet_sockets(uint32_t, uint32_t);
  Status open(uint32_t interface_index);
  Status join_group(uint16_t& group, bool is_first);
  Status receive_all();

  int fd_ = -1;
};

/// `count` sockets on one interface, among which the kernel divides its packets as steered_queue()
/// says. Fails: the interface is away, or the privilege CAP_NET_RAW is missing.
Result<std::vector<PacketSocket>> open_packet_sockets(uint32_t interface_index, uint32_t count);

}  // namespace lyre::io::dpdk
