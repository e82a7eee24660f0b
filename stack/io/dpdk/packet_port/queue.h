#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "stack/io/dpdk/memory.h"
#include "stack/io/dpdk/packet_port/virtio_header.h"
#include "stack/io/packet_io.h"

namespace lyre::io::dpdk {

class InterfaceSocket;

/// The queue pair of one packet socket. The kernel copies what is sent during the call, straight
/// from client memory, and what was received straight into slots of the receive pool.
/// Thread: its worker.
class PacketQueue final : public PacketIo {
 public:
  static constexpr size_t kPacketSlotsMax = 5;
  struct Setup {
    int fd = -1;  ///< of a PacketSocket. Owner: the port
    uint8_t index = 0;
    uint32_t queue_count = 1;
    uint32_t packet_slots = 1;           ///< that a packet fills at most, up to kPacketSlotsMax
    uint32_t rx_slots_max = UINT32_MAX;  ///< for the packets that are received next
    IoCapabilities capabilities;
    std::string interface;
    const InterfaceSocket* interface_socket = nullptr;  ///< to ask about it. Owner: the port
    bool is_rx_trusted = false;                         ///< received checksums count as correct
  };
  PacketQueue(const Setup& setup, Memory& memory);
  ~PacketQueue() override;
  PacketQueue(const PacketQueue&) = delete;
  PacketQueue& operator=(const PacketQueue&) = delete;

  size_t rx_burst(std::span<PacketBuf*> out) override;
  size_t tx_burst(std::span<PacketBuf* const> in) override;
  void reclaim() override {}
  size_t tx_held() const override { return 0; }
  const IoCapabilities& capabilities() const override { return setup_.capabilities; }
  IoCounters counters() const override { return counters_; }
  bool is_link_up() const override;
  std::optional<uint32_t> receive_queue_of(const FourTuple& tuple) const override;
  int wait_fd() const override { return setup_.fd; }
  Arming arm() override { return Arming::kArmed; }  // readable as long as packets wait

  /// A queue that is not running receives nothing and drops what it is given.
  /// Thread: the control thread, while the worker does not poll.
  void start(int fd);
  void suspend();

 private:
  static constexpr size_t kBurstMax = 32;
  static constexpr uint32_t kRefusalsMax = 64;
  /// A header of virtio, the packet's own bytes, and its pieces.
  static constexpr size_t kSendParts = 2 + kTxPiecesMax;

  int receive(unsigned wanted);
  size_t fill_window(size_t wanted);
  PacketBuf* take_out(size_t at, uint32_t bytes);
  void describe_slots(size_t at, uint32_t bytes);
  size_t send_some(std::span<PacketBuf* const> in);
  bool lay_out(PacketBuf& packet, size_t at);
  void describe_offload(const PacketBuf& packet, VirtioHeader& header) const;
  void release(std::span<PacketBuf* const> packets, bool is_sent);

  Setup setup_;
  Memory& memory_;
  const size_t burst_max_;  ///< packets that are received at a time
  bool is_running_ = false;
  uint32_t refusals_ = 0;  ///< ENOBUFS in a row for the first packet
  /// Slots into which the kernel writes the next packets, `packet_slots` for each; nullptr: none.
  std::array<std::array<PacketBuf*, kPacketSlotsMax>, kBurstMax> window_{};
  std::array<VirtioHeader, kBurstMax> rx_headers_{};
  std::array<std::array<iovec, 1 + kPacketSlotsMax>, kBurstMax> rx_parts_{};
  std::array<mmsghdr, kBurstMax> rx_messages_{};
  std::array<VirtioHeader, kBurstMax> tx_headers_{};
  std::array<std::array<iovec, kSendParts>, kBurstMax> tx_parts_{};
  std::array<mmsghdr, kBurstMax> tx_messages_{};
  IoCounters counters_;
};

}  // namespace lyre::io::dpdk
