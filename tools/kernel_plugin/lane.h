#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tools/kernel_plugin/socket.h"

namespace lyre::kernel_plugin {

enum class Direction { kSend, kReceive };

/// Set once, by the first thread of a comm that fails: an errno value, or kPeerClosed.
struct Failure {
  static constexpr int kPeerClosed = -1;
  std::atomic<int> code{0};
  void set(int value) {
    int none = 0;
    code.compare_exchange_strong(none, value, std::memory_order_relaxed);
  }
};

/// A contiguous part of one message, carried by one socket.
struct Piece {
  uint8_t* data;
  size_t bytes;
  std::atomic<int>* pieces_left;  // decremented (release) when this piece is complete
};

/// One data socket and the pieces that wait for it, in order.
/// Thread: push from the comm's thread, the rest from the helper that owns the lane.
class Lane {
 public:
  static constexpr size_t kPiecesMax = 64;  // > requests of a comm, each has one piece a lane

  explicit Lane(Fd fd) : fd_(std::move(fd)) {}
  void push(const Piece& piece);
  bool has_work() const;
  int fd() const { return fd_.get(); }

  /// Sends or receives without blocking. Returns the number of bytes.
  size_t progress(Direction direction, Failure* failure);

 private:
  Fd fd_;
  std::array<Piece, kPiecesMax> pieces_{};
  std::atomic<uint32_t> head_{0};  // written by the helper
  std::atomic<uint32_t> tail_{0};  // written by the comm's thread
  size_t offset_ = 0;              // in the piece at head_
};

/// A thread that serves several lanes, and sleeps when they have no pieces.
/// Owner: borrows the lanes until destruction, which joins the thread.
class Helper {
 public:
  Helper(std::vector<Lane*> lanes, Direction direction, Failure* failure);
  ~Helper();
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  /// Call after Lane::push.
  void wake();

 private:
  void run();
  size_t progress_all();
  void sleep_until_ready();

  std::vector<Lane*> lanes_;
  Direction direction_;
  Failure* failure_;
  Fd wake_fd_;
  std::atomic<bool> asleep_{false};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace lyre::kernel_plugin
