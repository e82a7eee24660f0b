#include "stack/tcp/receive_queue.h"

#include <algorithm>

#include "stack/base/check.h"

namespace lyre::tcp {

/// The charge goes with a payload that no reader was given.
PayloadHandle ReceiveQueue::remove_unread(uint32_t index) {
  const ReceivedRun& run = runs_[index];
  const bool is_behind_gap =
      rcv_.gap_head != kNoNode && run.start.at_or_after(runs_[rcv_.gap_head].start);
  if (is_behind_gap) RunIndex(runs_, rcv_.gap_root, seed_).erase(index);
  (run.prev == kNoNode ? rcv_.run_head : runs_[run.prev].next) = run.next;
  (run.next == kNoNode ? rcv_.run_tail : runs_[run.next].prev) = run.prev;
  if (rcv_.gap_head == index) rcv_.gap_head = run.next;
  rcv_.charged_bytes -= std::min(rcv_.charged_bytes, run.charge_bytes);
  const PayloadHandle handle = run.handle;
  runs_.give_back(index);
  return handle;
}

std::optional<PayloadHandle> ReceiveQueue::take_superseded() {
  const uint32_t index = rcv_.superseded_head;
  if (index == kNoNode) return std::nullopt;
  const PayloadHandle handle = runs_[index].handle;
  rcv_.superseded_head = runs_[index].next;
  runs_.give_back(index);
  return handle;
}

/// RFC 2018 8: what was discarded is not reported any more.
std::optional<PayloadHandle> ReceiveQueue::take_out_of_order() {
  if (rcv_.gap_head == kNoNode) return std::nullopt;
  rcv_.sack_count = 0;
  return remove_unread(rcv_.run_tail);
}

std::optional<PayloadHandle> ReceiveQueue::take_any() {
  if (const auto superseded = take_superseded()) return superseded;
  if (rcv_.run_head == kNoNode) return std::nullopt;
  return remove_unread(rcv_.run_head);
}

std::optional<PayloadSlice> ReceiveQueue::unread_tail() const {
  const uint32_t index = rcv_.gap_head == kNoNode ? rcv_.run_tail : runs_[rcv_.gap_head].prev;
  if (index == kNoNode) return std::nullopt;
  return slice_of(runs_[index]);
}

std::optional<TouchingPayloads> ReceiveQueue::find_touching(uint32_t kept_run) const {
  const ReceivedRun& run = runs_[kept_run];
  if (run.prev == kNoNode) return std::nullopt;
  const ReceivedRun& before = runs_[run.prev];
  if (before.end() != run.start) return std::nullopt;
  return TouchingPayloads{.before = slice_of(before), .run = slice_of(run)};
}

void ReceiveQueue::join(uint32_t kept_run) {
  const ReceivedRun& run = runs_[kept_run];
  runs_[run.prev].length += run.length;
  rcv_.charge_sum_bytes -= std::min(rcv_.charge_sum_bytes, run.charge_bytes);
  remove_unread(kept_run);
}

/// The index has all runs behind the first gap, each below its parent.
void ReceiveQueue::check_index() const {
  LYRE_CHECK((rcv_.gap_root == kNoNode) == (rcv_.gap_head == kNoNode));
  for (uint32_t i = rcv_.gap_head; i != kNoNode; i = runs_[i].next) {
    const ReceivedRun& run = runs_[i];
    LYRE_CHECK(run.parent == kNoNode ? rcv_.gap_root == i
                                     : runs_[run.parent].left == i || runs_[run.parent].right == i);
    for (const uint32_t child : {run.left, run.right}) {
      if (child == kNoNode) continue;
      LYRE_CHECK(runs_.is_taken(child) && runs_[child].parent == i);
      LYRE_CHECK((child == run.left) == runs_[child].start.before(run.start));
    }
  }
}

void ReceiveQueue::check_invariants(SeqNum text_end) const {
  uint64_t charged = 0;
  uint32_t prev = kNoNode;
  uint32_t first_gap = kNoNode;
  for (uint32_t i = rcv_.run_head; i != kNoNode; i = runs_[i].next) {
    LYRE_CHECK(runs_.is_taken(i));
    const ReceivedRun& run = runs_[i];
    LYRE_CHECK(run.prev == prev && run.length > 0 && !run.handle.is_none());
    if (prev != kNoNode) LYRE_CHECK(runs_[prev].end().at_or_before(run.start));
    if (first_gap == kNoNode && run.start.after(text_end)) first_gap = i;
    if (first_gap == kNoNode) LYRE_CHECK(run.end().at_or_before(text_end));
    charged += run.charge_bytes;
    prev = i;
  }
  LYRE_CHECK(rcv_.run_tail == prev);
  LYRE_CHECK(rcv_.gap_head == first_gap);
  LYRE_CHECK(charged <= rcv_.charged_bytes);
  check_index();
}

}  // namespace lyre::tcp
