#pragma once

#include <cstdint>

#include "stack/base/slab.h"

namespace lyre::tcp {

/// Finds items of a list that is sorted by sequence number. It is a binary tree by sequence, and a
/// heap by a priority that a peer cannot know. Its expected depth is therefore logarithmic,
/// whatever the peer sends. It owns left, right and parent of its items.
template <typename Item>
class SequenceTreap {
 public:
  static constexpr uint32_t kNone = Slab<Item>::kNone;

  /// `root` is kept with the list, `seed` is a secret of the engine.
  SequenceTreap(Slab<Item>& items, uint32_t& root, uint64_t seed)
      : items_(items), root_(root), seed_(seed) {}

  /// The first item for which `is_after` is true; kNone when there is none. REQUIRES: it is then
  /// true for every later one.
  template <typename IsAfter>
  uint32_t find_first(IsAfter is_after) const {
    uint32_t found = kNone;
    for (uint32_t index = root_; index != kNone;) {
      const Item& item = items_[index];
      if (is_after(item)) found = index;
      index = found == index ? item.left : item.right;
    }
    return found;
  }

  /// Adds `index`, whose predecessor in the tree is `left`; kNone: it comes before all others.
  void insert_after(uint32_t left, uint32_t index) {
    Item& item = items_[index];
    item.left = item.right = kNone;
    uint32_t parent = left;
    uint32_t* link = left == kNone ? &root_ : &items_[left].right;
    while (*link != kNone) {
      parent = *link;
      link = &items_[parent].left;
    }
    *link = index;
    item.parent = parent;
    while (item.parent != kNone && priority(item.parent) < priority(index)) rotate_up(index);
  }

  /// REQUIRES: `index` is in the tree.
  void erase(uint32_t index) {
    const Item& item = items_[index];
    while (item.left != kNone || item.right != kNone) {
      const bool takes_left =
          item.right == kNone || (item.left != kNone && priority(item.left) > priority(item.right));
      rotate_up(takes_left ? item.left : item.right);
    }
    link_to(index) = kNone;
  }

 private:
  uint32_t priority(uint32_t index) const {
    // The finalizer of MurmurHash3: neighbouring indices get unrelated priorities.
    uint64_t x = seed_ ^ index;
    x = (x ^ (x >> 33)) * 0xff51afd7ed558ccd;
    x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53;
    return static_cast<uint32_t>(x >> 32);
  }

  uint32_t& link_to(uint32_t index) {
    const uint32_t parent = items_[index].parent;
    if (parent == kNone) return root_;
    Item& above = items_[parent];
    return above.left == index ? above.left : above.right;
  }

  void rotate_up(uint32_t child) {
    const uint32_t parent = items_[child].parent;
    link_to(parent) = child;
    Item& up = items_[child];
    Item& down = items_[parent];
    up.parent = down.parent;
    down.parent = child;
    uint32_t& taken = down.left == child ? down.left : down.right;
    uint32_t& given = down.left == child ? up.right : up.left;
    taken = given;
    given = parent;
    if (taken != kNone) items_[taken].parent = parent;
  }

  Slab<Item>& items_;
  uint32_t& root_;
  uint64_t seed_;
};

}  // namespace lyre::tcp
