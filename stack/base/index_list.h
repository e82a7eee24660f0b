#pragma once

#include <cstdint>

#include "stack/base/check.h"

namespace lyre {

/// An element's place in an IndexList. Plain data: a table of elements can be copied as bytes.
struct IndexLink {
  static constexpr uint32_t kUnlinked = UINT32_MAX - 1;

  uint32_t next = kUnlinked;
  uint32_t previous = kUnlinked;

  bool is_linked() const { return next != kUnlinked; }
};

/// A doubly linked list of elements of a table, named by index. The links lie in the elements, in
/// the member kLink, so each operation is O(1) and takes no memory; an element is in at most one
/// list through one link. `table` is anything that gives a T& for an index.
/// Owner: refers to nothing but indices. Thread: one.
template <typename T, IndexLink T::*kLink>
class IndexList {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  bool empty() const { return head_ == kNone; }
  uint32_t size() const { return size_; }
  uint32_t front() const { return head_; }  ///< kNone when empty
  uint32_t back() const { return tail_; }   ///< kNone when empty

  /// The element after `index`; kNone when it is the last. REQUIRES: `index` is in the list.
  template <typename Table>
  static uint32_t next(const Table& table, uint32_t index) {
    return (table[index].*kLink).next;
  }

  /// REQUIRES: `index` is in no list through this link.
  template <typename Table>
  void push_back(Table& table, uint32_t index) {
    IndexLink& link = table[index].*kLink;
    LYRE_CHECK(!link.is_linked());
    link = {.next = kNone, .previous = tail_};
    (tail_ == kNone ? head_ : (table[tail_].*kLink).next) = index;
    tail_ = index;
    ++size_;
  }
  /// REQUIRES: the same.
  template <typename Table>
  void push_front(Table& table, uint32_t index) {
    IndexLink& link = table[index].*kLink;
    LYRE_CHECK(!link.is_linked());
    link = {.next = head_, .previous = kNone};
    (head_ == kNone ? tail_ : (table[head_].*kLink).previous) = index;
    head_ = index;
    ++size_;
  }
  /// REQUIRES: `index` is in this list.
  template <typename Table>
  void remove(Table& table, uint32_t index) {
    IndexLink& link = table[index].*kLink;
    LYRE_CHECK(link.is_linked());
    (link.previous == kNone ? head_ : (table[link.previous].*kLink).next) = link.next;
    (link.next == kNone ? tail_ : (table[link.next].*kLink).previous) = link.previous;
    link = IndexLink{};
    --size_;
  }

 private:
  uint32_t head_ = kNone;
  uint32_t tail_ = kNone;
  uint32_t size_ = 0;
};

}  // namespace lyre
