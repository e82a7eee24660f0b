#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace lyre::perf {

/// Memory for sends with MSG_ZEROCOPY. The kernel reads a block until the socket's error queue
/// reports the completion of its sends. Owner: borrows the socket. Thread: one.
class ZeroCopyBlocks {
 public:
  /// Fails: returns false when the kernel does not support such sends on this socket.
  static bool turn_on(int fd);

  explicit ZeroCopyBlocks(int fd) : fd_(fd) {}

  /// Returns a block of at least `bytes` that the kernel does not read, or an empty span.
  std::span<uint8_t> take(size_t bytes);
  /// Records one send with MSG_ZEROCOPY from the block taken last.
  void on_sent();

 private:
  struct Block {
    std::vector<uint8_t> bytes;
    uint32_t reads = 0;  ///< sends that are not complete
  };
  struct Send {
    Block* block = nullptr;
    bool is_over = false;
  };
  static constexpr size_t kBlocksMax = 32;

  /// Reads the completions that the kernel has reported.
  void listen();
  void on_over(uint32_t first, uint32_t last);

  int fd_;
  std::vector<std::unique_ptr<Block>> blocks_;
  Block* taken_ = nullptr;
  /// Incomplete sends in order. The first one has number `first_send_`.
  std::vector<Send> sends_;
  uint32_t first_send_ = 0;
};

}  // namespace lyre::perf
