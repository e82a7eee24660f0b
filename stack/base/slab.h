#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <type_traits>

#include "stack/base/check.h"

namespace lyre {

/// A fixed number of T, identified by index. All items are trivially copyable and refer to each
/// other by index, so a slab can be snapshot and restored as bytes.
/// Owner: the memory is allocated once, at construction; zero pages use no memory until they are
/// written.
/// Thread: one.
template <typename T>
class Slab {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  explicit Slab(uint32_t capacity)
      : capacity_(capacity),
        items_(make_zeroed<T>(capacity)),
        next_free_(make_zeroed<uint32_t>(capacity)) {}

  uint32_t capacity() const { return capacity_; }
  uint32_t used() const { return used_; }
  uint32_t room() const { return capacity_ - used_; }

  /// Index of a value-initialised item, or kNone when all items are taken.
  uint32_t take() {
    uint32_t index = free_head_;
    if (index != kNone) {
      free_head_ = next_free_[index];
    } else if (touched_ < capacity_) {
      index = touched_++;
    } else {
      return kNone;
    }
    ++used_;
    next_free_[index] = kTaken;
    items_[index] = T{};
    return index;
  }
  /// Takes the item `index`, as new. Those below it that were never taken become free. REQUIRES:
  /// touched() <= index < capacity().
  void take_at(uint32_t index) {
    LYRE_CHECK(index >= touched_ && index < capacity_);
    while (touched_ < index) {
      next_free_[touched_] = free_head_;
      free_head_ = touched_++;
    }
    ++touched_;
    ++used_;
    next_free_[index] = kTaken;
    items_[index] = T{};
  }
  /// REQUIRES: taken.
  void give_back(uint32_t index) {
    LYRE_CHECK(is_taken(index));
    next_free_[index] = free_head_;
    free_head_ = index;
    --used_;
  }
  bool is_taken(uint32_t index) const { return index < touched_ && next_free_[index] == kTaken; }

  T& operator[](uint32_t index) { return items_[index]; }
  const T& operator[](uint32_t index) const { return items_[index]; }
  /// One past the highest index that was ever taken: the bound of an iteration over all items.
  uint32_t touched() const { return touched_; }

  /// Makes this slab equal to `other`, which has the same capacity (snapshot and restore).
  void copy_from(const Slab& other) {
    LYRE_CHECK(capacity_ == other.capacity_);
    used_ = other.used_;
    touched_ = other.touched_;
    free_head_ = other.free_head_;
    for (uint32_t i = 0; i < touched_; ++i) {
      items_[i] = other.items_[i];
      next_free_[i] = other.next_free_[i];
    }
  }

 private:
  static constexpr uint32_t kTaken = UINT32_MAX - 1;
  static_assert(alignof(T) <= alignof(std::max_align_t));

  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  template <typename U>
  static std::unique_ptr<U[], Free> make_zeroed(uint32_t count) {
    void* memory = std::calloc(count, sizeof(U));  // large blocks are untouched zero pages
    LYRE_CHECK(memory != nullptr || count == 0);   // at the start: the count is configured
    return std::unique_ptr<U[], Free>(static_cast<U*>(memory));
  }
  uint32_t capacity_;
  uint32_t used_ = 0;
  uint32_t touched_ = 0;
  uint32_t free_head_ = kNone;
  std::unique_ptr<T[], Free> items_;
  std::unique_ptr<uint32_t[], Free> next_free_;
};

}  // namespace lyre
