#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace lyre::worker {

/// A bounded queue with one producing and one consuming thread.
template <typename T, uint32_t kEntries>
class Mailbox {
  static_assert((kEntries & (kEntries - 1)) == 0);

 public:
  static constexpr uint32_t kCapacity = kEntries;

  /// Thread: the producer. False when full.
  bool try_post(const T& item) {
    const uint32_t tail = tail_.load(std::memory_order_relaxed);
    // Acquire: pairs with the release in try_take(); the slot is read before it is written again.
    if (tail - head_.load(std::memory_order_acquire) == kEntries) return false;
    items_[tail & (kEntries - 1)] = item;
    tail_.store(tail + 1, std::memory_order_release);  // pairs with the acquire in try_take()
    return true;
  }
  /// Thread: the consumer. False when empty.
  bool try_take(T& out) {
    const uint32_t head = head_.load(std::memory_order_relaxed);
    if (head == tail_.load(std::memory_order_acquire)) return false;  // pairs with try_post()
    out = items_[head & (kEntries - 1)];
    head_.store(head + 1, std::memory_order_release);  // pairs with the acquire in try_post()
    return true;
  }
  /// Thread: the producer. A lower bound of the free places.
  uint32_t room() const {
    // Acquire: pairs with the release in try_take().
    const uint32_t head = head_.load(std::memory_order_acquire);
    return kEntries - (tail_.load(std::memory_order_relaxed) - head);
  }
  bool is_empty() const {
    // Acquire: pairs with the release in try_post(), for the last look before a sleep.
    return head_.load(std::memory_order_relaxed) == tail_.load(std::memory_order_acquire);
  }

 private:
  alignas(64) std::atomic<uint32_t> head_{0};
  alignas(64) std::atomic<uint32_t> tail_{0};
  alignas(64) std::array<T, kEntries> items_{};
};

}  // namespace lyre::worker
