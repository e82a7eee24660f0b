#include "nccl_adapter/comm/ranges.h"

namespace lyre::nccl_adapter {

// Nearly always the last one, or none: a search from the end is the short way.
size_t Ranges::after(uint64_t at) const {
  size_t i = list_.size();
  while (i > 0 && list_[i - 1].to > at) --i;
  return i;
}

bool Ranges::covers(uint64_t from, uint64_t to) const {
  if (from >= to) return true;
  const size_t i = after(from);
  return i < list_.size() && list_[i].from <= from && to <= list_[i].to;
}

bool Ranges::overlaps(uint64_t from, uint64_t to) const {
  if (from >= to) return false;
  const size_t i = after(from);
  return i < list_.size() && list_[i].from < to;
}

void Ranges::add(uint64_t from, uint64_t to) {
  bytes_ += to - from;
  const size_t i = after(from);
  const bool joins_left = i > 0 && list_[i - 1].to == from;
  const bool joins_right = i < list_.size() && list_[i].from == to;
  if (joins_left && joins_right) {
    list_[i - 1].to = list_[i].to;
    list_.erase(list_.begin() + static_cast<ptrdiff_t>(i));
  } else if (joins_left) {
    list_[i - 1].to = to;
  } else if (joins_right) {
    list_[i].from = from;
  } else {
    list_.insert(list_.begin() + static_cast<ptrdiff_t>(i), {from, to});
  }
}

}  // namespace lyre::nccl_adapter
