#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace lyre::worker {

/// The places of a mailbox, in itself.
template <typename T, uint32_t kEntries>
struct alignas(64) OwnPlaces {
  T& operator[](uint32_t i) { return items[i]; }
  std::array<T, kEntries> items{};
};

/// Places that something else owns: *borrowed* for the life of the mailbox.
template <typename T>
struct LentPlaces {
  T& operator[](uint32_t i) { return items[i]; }
  T* items = nullptr;
};

/// A bounded queue with one producing and one consuming thread.
template <typename T, uint32_t kEntries, typename Places = OwnPlaces<T, kEntries>>
class Mailbox {
  static_assert((kEntries & (kEntries - 1)) == 0);

 public:
  static constexpr uint32_t kCapacity = kEntries;

  /// To lend it some, before either thread uses it.
  Places& places() { return places_; }

  /// Thread: the producer. False when full.
  bool try_post(const T& item) {
    const uint32_t tail = tail_.load(std::memory_order_relaxed);
    // Acquire: pairs with the release in try_take(); the slot is read before it is written again.
    if (tail - head_.load(std::memory_order_acquire) == kEntries) return false;
    places_[tail & (kEntries - 1)] = item;
    tail_.store(tail + 1, std::memory_order_release);  // pairs with the acquire in try_take()
    return true;
  }
  /// Thread: the consumer. False when empty.
  bool try_take(T& out) {
    const uint32_t head = head_.load(std::memory_order_relaxed);
    if (head == tail_.load(std::memory_order_acquire)) return false;  // pairs with try_post()
    out = places_[head & (kEntries - 1)];
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
  Places places_;  ///< lent ones: in the line of `tail_`, which both threads read
};

}  // namespace lyre::worker
