#pragma once

#include <array>
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
  size_t tx_held() const override { return held_count_; }
  void note_wait() override { ++waits_; }
  /// How often the worker said that it waits for this queue.
  uint64_t waits() const { return waits_; }
  /// Packets that the worker gave it. A TSO packet is one.
  uint64_t taken() const { return taken_; }

  const IoCapabilities& capabilities() const override { return capabilities_; }
  IoCounters counters() const override { return counters_; }
  bool is_link_up() const override { return link_.is_up() && link_.has_device(end_); }
  int wait_fd() const override { return -1; }

  /// A frame has arrived for this queue. It is lost where the ring is full.
  void append(uint32_t frame);
  /// The driver frees what it held, and what it received is lost.
  void close();
  /// From now on frames are received into `memory`, which also has what is sent. REQUIRES: closed.
  void move_to(Memory& memory) { memory_ = &memory; }

 private:
  enum class Taken : uint8_t { kYes, kNoRoom };
  Taken transmit(PacketBuf& packet);
  bool names_known_regions(const PacketBuf& packet) const;
  bool is_refused(const PacketBuf& packet) const;
  uint32_t cut_count(const PacketBuf& packet) const;
  void send_cuts(const PacketBuf& packet, uint32_t count);
  void gather(const PacketBuf& packet);
  void complete_checksums(std::span<uint8_t> frame, const PacketBuf& packet);
  void hold(const PacketBuf& packet);
  void make_room();
  void free_oldest(size_t count);
  size_t drop(std::span<PacketBuf* const> in);
  uint32_t take_arrived();
  bool receive(uint32_t frame, PacketBuf*& out);
  PacketBuf* scatter(std::span<const uint8_t> frame);
  bool can_take(const PacketBuf& first, size_t bytes) const;
  void judge(std::span<const uint8_t> frame, PacketBuf& packet) const;

  Link& link_;
  const int end_;
  Memory* memory_;
  const uint8_t port_index_;
  IoCapabilities capabilities_;
  IoCounters counters_;
  uint32_t head_ = Link::kNone;  ///< arrived frames, as a list through the link's frames
  uint32_t tail_ = Link::kNone;
  uint32_t arrived_count_ = 0;  ///< of them
  struct Held {
    uint32_t piece_count = 0;
    std::array<uint32_t, kTxPiecesMax> regions{};  ///< of the pieces
  };
  std::vector<Held> held_;  ///< a ring of packets that were sent and not freed
  size_t held_first_ = 0;   ///< the oldest
  size_t held_count_ = 0;
  uint64_t waits_ = 0;
  uint64_t taken_ = 0;
  std::vector<uint8_t> gathered_;  ///< the packet being sent, whole
};

}  // namespace lyre::io::sim
