#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lyre::nccl_adapter {

/// Which bytes of a message have come. Streams fill a message from several places, so the list is
/// short: neighbours are merged.
class Ranges {
 public:
  /// [from, to). An empty range is covered.
  bool covers(uint64_t from, uint64_t to) const;
  bool overlaps(uint64_t from, uint64_t to) const;
  /// REQUIRES: from < to, and !overlaps(from, to).
  void add(uint64_t from, uint64_t to);
  uint64_t bytes() const { return bytes_; }
  size_t pieces() const { return list_.size(); }
  void clear() {
    list_.clear();
    bytes_ = 0;
  }

 private:
  struct Range {
    uint64_t from;
    uint64_t to;
  };
  /// Index of the first range that ends after `at`.
  size_t after(uint64_t at) const;

  std::vector<Range> list_;  ///< in order, apart from each other
  uint64_t bytes_ = 0;
};

}  // namespace lyre::nccl_adapter
