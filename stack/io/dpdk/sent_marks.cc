#include "stack/io/dpdk/sent_marks.h"

#include <rte_mbuf.h>

namespace lyre::io::dpdk {

SentMarks::~SentMarks() { forget(); }

void SentMarks::forget() {
  for (; head_ != tail_; ++head_) release(at(head_).packet);
}

void SentMarks::hold(rte_mbuf* packet) { rte_mbuf_refcnt_update(packet, 1); }

/// Only the first segment: the driver frees the others, and their links may be stale by now.
void SentMarks::release(rte_mbuf* packet) { rte_pktmbuf_free_seg(packet); }

void SentMarks::add(rte_mbuf* packet, uint64_t count) {
  if (tail_ - head_ == kMarksMax) release(at(--tail_).packet);
  at(tail_++) = {packet, count};
}

uint64_t SentMarks::freed() {
  for (; head_ != tail_ && rte_mbuf_refcnt_read(at(head_).packet) == 1; ++head_) {
    release(at(head_).packet);
    freed_ = at(head_).count;
  }
  return freed_;
}

}  // namespace lyre::io::dpdk
