#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace lyre::perf {

/// Memory for sends with MSG_ZEROCOPY: the kernel reads a block until it says, on the socket's
/// error queue, that it has done so. Owner: borrows the socket. Thread: one.
class ZeroCopyBlocks {
 public:
  /// Fails: false when the kernel offers no such sends on this socket.
  static bool turn_on(int fd);

  explicit ZeroCopyBlocks(int fd) : fd_(fd) {}

  /// A block that the kernel has let go of, of at least `bytes`; empty when it holds them all.
  std::span<uint8_t> take(size_t bytes);
  /// One send with MSG_ZEROCOPY has named the block taken last.
  void on_sent();

 private:
  struct Block {
    std::vector<uint8_t> bytes;
    uint32_t reads = 0;  ///< sends of which the kernel has not spoken yet
  };
  struct Send {
    Block* block = nullptr;
    bool is_over = false;
  };
  static constexpr size_t kBlocksMax = 32;

  /// What the kernel has said since the last time.
  void listen();
  void on_over(uint32_t first, uint32_t last);

  int fd_;
  std::vector<std::unique_ptr<Block>> blocks_;
  Block* taken_ = nullptr;
  /// Sends not over yet, in order, the first of them being number `first_send_`.
  std::vector<Send> sends_;
  uint32_t first_send_ = 0;
};

}  // namespace lyre::perf
