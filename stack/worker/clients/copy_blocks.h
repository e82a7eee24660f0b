#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "stack/base/check.h"

namespace lyre::worker {

inline constexpr uint32_t kCopyBlocksMax = 256;
inline constexpr uint32_t kCopyBlockBytes = 16384;
/// One block of so many is kept for sessions that have none.
inline constexpr uint32_t kCopyBlocksPerReserved = 8;
/// In a slot number given to a client: the slot is a copy block, not one of the receive pool.
inline constexpr uint32_t kCopySlotBit = 0x8000'0000;

/// The blocks of one context's copy area on one worker: received bytes are copied there where no
/// receive slot may be lent. A block is free or given to the client, for one session.
/// Thread: the worker.
class CopyBlocks {
 public:
  /// What the client has in a block.
  struct Held {
    uint32_t session = UINT32_MAX;
    uint32_t generation = 0;    ///< of the session
    uint32_t charge_bytes = 0;  ///< goes back to the window when the client gives the block back
  };

  CopyBlocks() = default;
  /// As many blocks as `bytes` hold, at most kCopyBlocksMax.
  explicit CopyBlocks(uint64_t bytes)
      : count_(bytes / kCopyBlockBytes < kCopyBlocksMax
                   ? static_cast<uint32_t>(bytes / kCopyBlockBytes)
                   : kCopyBlocksMax),
        free_count_(count_) {}

  uint32_t count() const { return count_; }
  /// Whether a session that has `of_session` blocks may have one more. Sessions of which the client
  /// gives nothing back leave blocks for the others: each has at most as many as are free (dynamic
  /// thresholds, Choudhury and Hahne 1998), and a reserve is for those that have none.
  bool may_give(uint32_t of_session) const {
    if (of_session == 0) return free_count_ > 0;
    return of_session + count_ / kCopyBlocksPerReserved < free_count_;
  }
  /// A free block, which stays free until give(). Empty: the client has all of them.
  std::optional<uint32_t> find_free() const {
    for (uint32_t block = 0; block < count_; ++block) {
      if (!blocks_[block].is_given) return block;
    }
    return std::nullopt;
  }
  /// REQUIRES: the block is free.
  void give(uint32_t block, const Held& held) {
    LYRE_CHECK(block < count_ && !blocks_[block].is_given);
    blocks_[block] = {held, true};
    --free_count_;
  }
  /// The client gives the block back. Empty: there is no such block, or the client does not have
  /// it.
  std::optional<Held> take_back(uint32_t block) {
    if (block >= count_ || !blocks_[block].is_given) return std::nullopt;
    blocks_[block].is_given = false;
    ++free_count_;
    return blocks_[block].held;
  }
  /// Calls visit(block, Held) for all that the client has.
  template <typename Visit>
  void for_each_given(Visit visit) const {
    for (uint32_t block = 0; block < count_; ++block) {
      if (blocks_[block].is_given) visit(block, blocks_[block].held);
    }
  }
  /// False: there is no such block, or it is given already.
  bool restore(uint32_t block, const Held& held) {
    if (block >= count_ || blocks_[block].is_given) return false;
    give(block, held);
    return true;
  }

 private:
  struct Block {
    Held held;
    bool is_given = false;
  };
  uint32_t count_ = 0;
  uint32_t free_count_ = 0;
  std::array<Block, kCopyBlocksMax> blocks_{};
};

}  // namespace lyre::worker
