#pragma once

#include <atomic>
#include <cstdint>

#include "stack/base/page_size.h"
#include "stack/channel/abi.h"

namespace lyre::channel {

/// The producing end of a single-producer single-consumer ring in shared memory.
/// Indices increase modulo 2^32. An index that the other side wrote is checked before it is used.
/// Thread: one.
template <typename Entry, uint32_t kEntries>
class RingProducer {
  static_assert((kEntries & (kEntries - 1)) == 0);

 public:
  RingProducer() = default;
  RingProducer(RingIndices* indices, Entry* entries) : indices_(indices), entries_(entries) {}
  /// Continues where another process stopped at position(), which had published everything.
  RingProducer(RingIndices* indices, Entry* entries, uint32_t position)
      : indices_(indices),
        entries_(entries),
        tail_(position),
        published_(position),
        head_seen_(position - kEntries) {}
  uint32_t position() const { return tail_; }

  /// Free entries, a lower bound: the consumer's index is read only when fewer than `wanted` are
  /// known to be free. A consumer whose index is ahead of the producer's marks the ring broken:
  /// room() is 0 from then on.
  uint32_t room(uint32_t wanted = 1) {
    if (kEntries - (tail_ - head_seen_) >= wanted) return kEntries - (tail_ - head_seen_);
    // Acquire: pairs with the release in RingConsumer::publish(). The consumer has read the slots
    // that this index frees.
    const uint32_t head = indices_->head.load(std::memory_order_acquire);
    if (tail_ - head > kEntries) {
      is_broken_ = true;
      return 0;
    }
    head_seen_ = head;
    return kEntries - (tail_ - head_seen_);
  }
  /// Whether the consumer has read every entry before `position`, an earlier position().
  bool is_read(uint32_t position) {
    (void)room(kEntries);
    return tail_ - position >= tail_ - head_seen_;
  }
  /// Writes one entry, which publish() makes visible. REQUIRES: room() > 0.
  void push(const Entry& entry) { entries_[tail_++ & (kEntries - 1)] = entry; }
  /// True when something was pushed since the last publish().
  bool has_unpublished() const { return tail_ != published_; }
  void publish() {
    // Release: pairs with the acquire in RingConsumer::available(). The entries are visible before
    // the index.
    indices_->tail.store(tail_, std::memory_order_release);
    published_ = tail_;
  }
  bool is_broken() const { return is_broken_; }

 private:
  RingIndices* indices_ = nullptr;
  Entry* entries_ = nullptr;
  uint32_t tail_ = 0;
  uint32_t published_ = 0;
  uint32_t head_seen_ = 0;
  bool is_broken_ = false;
};

/// The consuming end. Thread: one.
template <typename Entry, uint32_t kEntries>
class RingConsumer {
  static_assert((kEntries & (kEntries - 1)) == 0);

 public:
  RingConsumer() = default;
  RingConsumer(RingIndices* indices, Entry* entries) : indices_(indices), entries_(entries) {}
  /// Continues where another process stopped at position().
  RingConsumer(RingIndices* indices, Entry* entries, uint32_t position)
      : indices_(indices), entries_(entries), head_(position), tail_seen_(position) {}
  uint32_t position() const { return head_; }

  /// Entries that can be popped now. A producer whose index is more than the ring's size ahead
  /// marks the ring broken.
  uint32_t available() {
    if (tail_seen_ != head_) return tail_seen_ - head_;
    // Acquire: pairs with the release in RingProducer::publish().
    const uint32_t tail = indices_->tail.load(std::memory_order_acquire);
    if (tail - head_ > kEntries) {
      is_broken_ = true;
      return 0;
    }
    tail_seen_ = tail;
    return tail_seen_ - head_;
  }
  /// Copies the next entry out, because the other side may still write to it. REQUIRES: available()
  /// > 0.
  Entry pop() {
    Entry copy = entries_[head_ & (kEntries - 1)];
    // Keeps the compiler from reading the shared entry again later.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    ++head_;
    return copy;
  }
  /// The last entry that was popped is the next one again. REQUIRES: pop() was the last call that
  /// changed this end.
  void put_back() { --head_; }
  void publish() {
    // Release: pairs with the acquire in RingProducer::room(). The entries were read before they
    // are reused.
    indices_->head.store(head_, std::memory_order_release);
  }
  bool is_broken() const { return is_broken_; }

 private:
  RingIndices* indices_ = nullptr;
  Entry* entries_ = nullptr;
  uint32_t head_ = 0;
  uint32_t tail_seen_ = 0;
  bool is_broken_ = false;
};

using SubmissionProducer = RingProducer<Submission, kSubmissionEntries>;
using SubmissionConsumer = RingConsumer<Submission, kSubmissionEntries>;
using CompletionProducer = RingProducer<Completion, kCompletionEntries>;
using CompletionConsumer = RingConsumer<Completion, kCompletionEntries>;

/// The sleeper's half of a doorbell: sets the flag, then checks once more for work. False: there is
/// work, do not sleep. `has_work` is called after the flag is visible.
template <typename HasWork>
bool announce_sleep(std::atomic<uint32_t>& sleeps, HasWork has_work) {
  sleeps.store(1, std::memory_order_relaxed);
  // Full fence: pairs with the one in must_ring(). Either this side sees the entry or the other
  // side sees the flag.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!has_work()) return true;
  sleeps.store(0, std::memory_order_relaxed);
  return false;
}

/// The waker's half, called after publish(): whether the other side's doorbell must be rung.
inline bool must_ring(const std::atomic<uint32_t>& sleeps) {
  // Full fence: pairs with the one in announce_sleep(). It orders the published index before the
  // flag's load.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return sleeps.load(std::memory_order_relaxed) != 0;
}

/// The layout of a context's memory for `worker_count` workers and `arena_bytes`.
struct ContextLayout {
  uint64_t rings_offset;
  uint64_t arena_offset;
  uint64_t copy_offset;
  uint64_t total_bytes;

  /// Arena and copy area begin with a page, as ports are given whole pages.
  static ContextLayout of(uint32_t worker_count, uint64_t arena_bytes, uint64_t copy_bytes,
                          uint64_t page_bytes = system_page_bytes()) {
    ContextLayout layout{};
    layout.rings_offset = kHeaderBytes;
    layout.arena_offset =
        whole_pages(layout.rings_offset + worker_count * sizeof(RingPair), page_bytes);
    layout.copy_offset = layout.arena_offset + whole_pages(arena_bytes, page_bytes);
    layout.total_bytes = layout.copy_offset + whole_pages(copy_bytes, page_bytes);
    return layout;
  }
};

}  // namespace lyre::channel
