#include "stack/io/dpdk/sent_marks.h"

#include <rte_mbuf.h>

#include <algorithm>

namespace lyre::io::dpdk {

SentMarks::~SentMarks() { forget(); }

void SentMarks::forget() {
  for (; head_ != tail_; ++head_) {
    release(at(head_).segment);
    freed_descriptors_ = at(head_).descriptors;
  }
}

rte_mbuf* SentMarks::hold(rte_mbuf* packet) {
  rte_mbuf* segment = rte_pktmbuf_lastseg(packet);
  rte_mbuf_refcnt_update(segment, 1);
  return segment;
}

void SentMarks::release(rte_mbuf* segment) { rte_pktmbuf_free_seg(segment); }

/// Drops the marks of packets that were freed before an earlier one. Their counts go to the mark
/// before them: when the driver has freed that packet, it has freed theirs.
void SentMarks::drop_freed() {
  size_t kept = head_;
  for (size_t i = head_; i != tail_; ++i) {
    const Mark mark = at(i);
    if (kept != head_ && rte_mbuf_refcnt_read(mark.segment) == 1) {
      release(mark.segment);
      Mark& before = at(kept - 1);
      before.count = std::max(before.count, mark.count);
      before.descriptors = std::max(before.descriptors, mark.descriptors);
    } else {
      at(kept++) = mark;
    }
  }
  tail_ = kept;
}

void SentMarks::add(rte_mbuf* segment, uint64_t count, uint64_t descriptors) {
  if (tail_ - head_ == kMarksMax) drop_freed();
  if (tail_ - head_ == kMarksMax) release(at(--tail_).segment);
  at(tail_++) = {segment, count, descriptors};
}

uint64_t SentMarks::freed() {
  for (; head_ != tail_ && rte_mbuf_refcnt_read(at(head_).segment) == 1; ++head_) {
    release(at(head_).segment);
    freed_ = std::max(freed_, at(head_).count);
    freed_descriptors_ = at(head_).descriptors;
  }
  return freed_;
}

}  // namespace lyre::io::dpdk
