#include "stack/worker/routing/inter_worker_rings.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "stack/worker/routing/connection_router.h"

namespace lyre::worker {
namespace {

constexpr uint32_t kWorkers = 3;
constexpr uint32_t kRounds = 20'000;
constexpr uint32_t kMark = 7;

/// One worker that delivers its own packets to the others, and releases theirs with a mark.
class Exchange {
 public:
  Exchange(InterWorkerRings& rings, std::vector<io::PacketBuf>& packets, uint32_t self)
      : rings_(rings), self_(self) {
    for (uint32_t i = 0; i < kPacketsAwayMax; ++i) {
      free_.push_back(&packets[self * kPacketsAwayMax + i]);
    }
  }

  bool is_complete() const { return back_ == kRounds; }

  void deliver_one() {
    if (sent_ == kRounds || free_.empty()) return;
    io::PacketBuf* packet = free_.back();
    packet->length = sent_;
    const uint32_t to = (self_ + 1 + sent_ % (kWorkers - 1)) % kWorkers;
    if (!rings_.ring(self_, to).try_post({.kind = WorkerMessage::Kind::kDeliver,
                                          .receiver = static_cast<uint8_t>(self_),
                                          .packet = packet})) {
      return;
    }
    free_.pop_back();
    ++sent_;
  }

  void take_all() {
    WorkerMessage message;
    for (uint32_t from = 0; from < kWorkers; ++from) {
      while (rings_.ring(from, self_).try_take(message)) take(message);
    }
  }

  ~Exchange() { EXPECT_EQ(free_.size(), kPacketsAwayMax); }

 private:
  void take(WorkerMessage message) {
    if (message.kind == WorkerMessage::Kind::kRelease) {
      EXPECT_EQ(message.packet->tailroom, kMark);
      free_.push_back(message.packet);
      ++back_;
      return;
    }
    message.packet->tailroom = kMark;
    message.kind = WorkerMessage::Kind::kRelease;
    EXPECT_TRUE(rings_.ring(self_, message.receiver).try_post(message));
  }

  InterWorkerRings& rings_;
  const uint32_t self_;
  std::vector<io::PacketBuf*> free_;
  uint32_t sent_ = 0;
  uint32_t back_ = 0;
};

// Packets go from thread to thread as between workers, and all come back. For TSan.
TEST(InterWorkerRings, PacketsThatAreSentOnComeBack) {
  InterWorkerRings rings(kWorkers);
  std::vector<io::PacketBuf> packets(kWorkers * kPacketsAwayMax);
  std::atomic<uint32_t> finished{0};
  const auto work = [&](uint32_t self) {
    Exchange exchange(rings, packets, self);
    bool is_counted = false;
    while (finished.load(std::memory_order_acquire) < kWorkers) {
      exchange.deliver_one();
      exchange.take_all();
      if (exchange.is_complete() && !is_counted) {
        is_counted = true;
        finished.fetch_add(1, std::memory_order_release);
      }
    }
  };
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kWorkers; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace lyre::worker
