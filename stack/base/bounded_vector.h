#pragma once

#include <array>
#include <cstddef>

#include "stack/base/check.h"

namespace lyre {

/// A vector with room for N elements and no heap memory. clear() resets the count; it does not
/// destroy the elements.
template <typename T, size_t N>
class BoundedVector {
 public:
  static constexpr size_t capacity() { return N; }
  size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  bool full() const { return count_ == N; }
  size_t room() const { return N - count_; }
  void clear() { count_ = 0; }

  /// Returns false and changes nothing when the vector is full.
  bool try_push(const T& item) {
    if (count_ == N) return false;
    items_[count_++] = item;
    return true;
  }
  /// REQUIRES: not full.
  void push(const T& item) {
    LYRE_CHECK(count_ < N);
    items_[count_++] = item;
  }
  T& operator[](size_t index) { return items_[index]; }
  const T& operator[](size_t index) const { return items_[index]; }
  T& back() { return items_[count_ - 1]; }
  void pop_back() { --count_; }
  T* begin() { return items_.data(); }
  T* end() { return items_.data() + count_; }
  const T* begin() const { return items_.data(); }
  const T* end() const { return items_.data() + count_; }

 private:
  size_t count_ = 0;
  std::array<T, N> items_{};
};

}  // namespace lyre
