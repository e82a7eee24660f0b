#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace lyre::client {

/// A buddy allocator for the blocks of a context's arena, with power-of-two sizes. Its state lies
/// in private memory, where the daemon cannot write. Units: bytes; blocks are named by their offset
/// in the arena. Thread: one.
class Arena {
 public:
  static constexpr uint64_t kBlockBytesMin = 4096;
  static constexpr uint32_t kOrders = 11;
  static constexpr uint64_t kBlockBytesMax = kBlockBytesMin << (kOrders - 1);
  static constexpr uint64_t kNone = UINT64_MAX;

  Arena() = default;
  /// Manages the whole 4 KiB pages of an arena of `bytes`.
  explicit Arena(uint64_t bytes);

  /// A block of at least `bytes`, or kNone when no free block is large enough or `bytes` is 0 or
  /// more than largest_block_bytes().
  uint64_t alloc(uint64_t bytes);
  /// Fails: false when no block that is handed out begins at `offset`.
  bool free(uint64_t offset);
  /// Size of the block handed out at `offset`; 0 when there is none.
  uint64_t block_bytes(uint64_t offset) const;
  uint64_t free_bytes() const { return free_bytes_; }
  /// Size of the arena, in whole blocks of the smallest size.
  uint64_t bytes() const { return uint64_t{pages_} * kBlockBytesMin; }
  /// The largest block that there is when everything is free: a larger one never is.
  uint64_t largest_block_bytes() const;
  /// Size of the block that alloc(bytes) hands out. REQUIRES: `bytes` is not 0.
  static uint64_t block_bytes_for(uint64_t bytes);

 private:
  static constexpr uint32_t kNoPage = UINT32_MAX;
  /// What a page is: 0 inside of a block, else 1 + order at a block's first page, and kFreeBit.
  static constexpr uint8_t kFreeBit = 0x80;

  void put(uint32_t page, uint32_t order);
  void take_out(uint32_t page, uint32_t order);

  uint32_t pages_ = 0;
  uint64_t free_bytes_ = 0;
  std::array<uint32_t, kOrders> first_{};
  std::vector<uint8_t> kind_;
  std::vector<uint32_t> next_;
  std::vector<uint32_t> previous_;
};

}  // namespace lyre::client
