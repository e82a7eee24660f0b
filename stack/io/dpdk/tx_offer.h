#pragma once

#include <rte_mbuf_core.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace lyre::io::dpdk {

class SentMarks;

/// Chooses the packets that fit the transmit ring, for a driver that drops others and counts them
/// as sent (DriverQuirks::drops_when_full). A segment takes a descriptor, from the burst until
/// SentMarks tells that the driver has freed the packet: at least as many descriptors are free as
/// this object counts.
/// Thread: the queue's worker.
class TxOffer {
 public:
  /// Descriptors of the ring. 0: the driver drops nothing, and is offered everything. What was sent
  /// before counts as freed once its marks have left.
  void set_ring(uint32_t descriptors);
  bool is_limited() const { return room_ > 0; }

  /// How many of `packets`, from the first one on, may be given to the driver. `marks`: of the
  /// queue, with the descriptors that note_sent() returned. REQUIRES: is_limited().
  size_t fitting(std::span<rte_mbuf* const> packets, const SentMarks& marks);
  /// The driver took packets of the last fitting(). Returns the descriptors that were used so far.
  uint64_t note_sent() { return sent_ += offered_; }

 private:
  uint32_t room_ = 0;     ///< descriptors that can be in use
  uint32_t offered_ = 0;  ///< descriptors that the last fitting() allowed
  uint64_t sent_ = 0;     ///< descriptors
};

}  // namespace lyre::io::dpdk
