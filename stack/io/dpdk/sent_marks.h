#pragma once

#include <rte_mbuf_core.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace lyre::io::dpdk {

/// Tells when a driver has freed packets that it was given to send. DPDK has no call for that, so
/// one packet of each burst is marked: this object holds a second reference to its last segment,
/// and the driver has freed the packet when this reference is the only one. The first segment does
/// not tell: mlx5 copies headers into the descriptor and frees their segment at once
/// (mlx5_tx_mseg_memcpy()). A marked segment of client memory holds its region until freed() or
/// forget() releases it. Most drivers free packets in the order in which they took them. For others
/// each packet is marked, and only the last one of a burst has a count.
/// Owner: takes its memory at construction; it shares marked packets with the driver.
/// Thread: the queue's worker.
class SentMarks {
 public:
  /// Marks that are kept at a time. When there is no room, those of freed packets leave. If there
  /// is none, a mark replaces the one before it, which then counts as freed with the later packet.
  static constexpr size_t kMarksMax = 2048;

  SentMarks() : marks_(new Mark[kMarksMax]) {}
  ~SentMarks();
  SentMarks(const SentMarks&) = delete;
  SentMarks& operator=(const SentMarks&) = delete;

  /// Takes the second reference to a packet before it is given to the driver. Returns the segment
  /// that is held.
  [[nodiscard]] static rte_mbuf* hold(rte_mbuf* packet);
  /// Gives back what hold() returned.
  static void release(rte_mbuf* segment);

  /// The packet of which hold() returned `segment` was sent as the last of `count` packets so far.
  /// 0: it was not the last one that the queue has taken. `descriptors`: of the ring, that were
  /// used so far; counted for TxOffer only.
  void add(rte_mbuf* segment, uint64_t count, uint64_t descriptors = 0);
  /// How many packets, as add() counted them, the driver is known to have freed.
  uint64_t freed();
  /// After freed(): of the descriptors that add() was told, those that the driver has freed for
  /// certain.
  uint64_t freed_descriptors() const { return freed_descriptors_; }
  /// The driver has closed, and reads nothing more: all packets count as freed.
  void forget();
  /// After freed(): true when the driver has freed all marked packets.
  bool empty() const { return head_ == tail_; }

 private:
  struct Mark {
    rte_mbuf* segment = nullptr;
    uint64_t count = 0;
    uint64_t descriptors = 0;
  };
  Mark& at(size_t index) { return marks_[index % kMarksMax]; }
  void drop_freed();

  std::unique_ptr<Mark[]> marks_;  ///< a ring
  size_t head_ = 0;
  size_t tail_ = 0;
  uint64_t freed_ = 0;
  uint64_t freed_descriptors_ = 0;
};

}  // namespace lyre::io::dpdk
