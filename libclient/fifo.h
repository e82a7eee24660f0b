#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace lyre::client {

/// A queue in a ring of 2^n places that grows as needed and never shrinks. An empty one that was
/// never used has no memory.
template <typename T>
class Fifo {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  bool is_empty() const { return head_ == tail_; }
  size_t size() const { return tail_ - head_; }

  void push(const T& item) {
    if (size() == items_.size()) grow();
    items_[tail_++ & mask()] = item;
  }
  T& front() { return items_[head_ & mask()]; }
  const T& front() const { return items_[head_ & mask()]; }
  /// The item behind `before` others. REQUIRES: before < size().
  const T& operator[](size_t before) const { return items_[(head_ + before) & mask()]; }
  /// REQUIRES: !is_empty().
  T pop() { return items_[head_++ & mask()]; }
  void clear() { head_ = tail_; }

  /// Takes out one item equal to `item`; false when there is none. The time is proportional to the
  /// distance from the nearer end.
  bool remove(const T& item) {
    for (size_t i = 0; i < (size() + 1) / 2; ++i) {
      if (at(head_ + i) == item) {
        for (; i > 0; --i) at(head_ + i) = at(head_ + i - 1);
        ++head_;
        return true;
      }
      if (at(tail_ - 1 - i) == item) {
        for (; i > 0; --i) at(tail_ - 1 - i) = at(tail_ - i);
        --tail_;
        return true;
      }
    }
    return false;
  }

 private:
  static constexpr size_t kFirstItems = 16;

  size_t mask() const { return items_.size() - 1; }
  T& at(size_t place) { return items_[place & mask()]; }
  void grow() {
    std::vector<T> bigger(items_.empty() ? kFirstItems : items_.size() * 2);
    const size_t count = size();
    for (size_t i = 0; i < count; ++i) bigger[i] = items_[(head_ + i) & mask()];
    items_.swap(bigger);
    head_ = 0;
    tail_ = count;
  }

  std::vector<T> items_;
  size_t head_ = 0;
  size_t tail_ = 0;
};

}  // namespace lyre::client
