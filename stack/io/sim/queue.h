#pragma once

#include <cstdint>
#include <vector>

#include "stack/io/sim/link.h"

namespace lyre::io::sim {

/// One queue pair of a simulated port.
class Queue final : public PacketIo {
 public:
  Queue(Link& link, int end, Memory& memory, uint8_t port_index, const MacAddress& mac);

  size_t rx_burst(std::span<PacketBuf*> out) override;
  size_t tx_burst(std::span<PacketBuf* const> in) override;
  void reclaim() override;

  const IoCapabilities& capabilities() const override { return capabilities_; }
  IoCounters counters() const override { return counters_; }
  bool is_link_up() const override { return link_.is_up(); }
  int wait_fd() const override { return -1; }

  /// A frame has arrived for this queue.
  void append(uint32_t frame);

 private:
  enum class Taken : uint8_t { kYes, kNoRoom };
  Taken transmit(PacketBuf& packet);
  bool names_known_regions(const PacketBuf& packet) const;
  bool is_refused(const PacketBuf& packet) const;
  uint32_t cut_count(const PacketBuf& packet) const;
  void send_cuts(const PacketBuf& packet, uint32_t count);
  void gather(const PacketBuf& packet);
  void complete_checksums(std::span<uint8_t> frame, const PacketBuf& packet);
  void hold_pieces(const PacketBuf& packet);
  bool receive(uint32_t frame, PacketBuf*& out);
  void judge(PacketBuf& packet) const;

  Link& link_;
  const int end_;
  Memory& memory_;
  const uint8_t port_index_;
  IoCapabilities capabilities_;
  IoCounters counters_;
  uint32_t head_ = Link::kNone;  ///< arrived frames, as a list through the link's frames
  uint32_t tail_ = Link::kNone;
  std::vector<uint32_t> held_regions_;
  std::vector<uint8_t> gathered_;  ///< the packet being sent, whole
};

}  // namespace lyre::io::sim
