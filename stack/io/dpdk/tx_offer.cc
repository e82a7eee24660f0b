#include "stack/io/dpdk/tx_offer.h"

#include <algorithm>

#include "stack/io/dpdk/sent_marks.h"

namespace lyre::io::dpdk {

/// vmxnet3_dev_tx_queue_setup() rounds the ring down to a multiple of 32, and
/// vmxnet3_cmd_ring_desc_avail() leaves one descriptor of it free.
void TxOffer::set_ring(uint32_t descriptors) {
  constexpr uint32_t kMultiple = 32;
  const uint32_t ring = descriptors - descriptors % kMultiple;
  room_ = ring == 0 ? 0 : ring - 1;
}

size_t TxOffer::fitting(std::span<rte_mbuf* const> packets, const SentMarks& marks) {
  // Each burst leaves a mark: without one the driver has freed everything.
  const uint64_t in_use = marks.empty() ? 0 : sent_ - marks.freed_descriptors();
  const uint64_t left = room_ - std::min<uint64_t>(room_, in_use);
  size_t count = 0;
  offered_ = 0;
  for (; count < packets.size(); ++count) {
    if (offered_ + packets[count]->nb_segs > left) break;
    offered_ += packets[count]->nb_segs;
  }
  return count;
}

}  // namespace lyre::io::dpdk
