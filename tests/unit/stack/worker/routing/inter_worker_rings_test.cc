#include "stack/worker/routing/inter_worker_rings.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "stack/base/page_size.h"
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

/// Pages with memory in the places of all rings.
size_t pages_used(InterWorkerRings& rings) {
  const uint32_t last = rings.worker_count() - 1;
  WorkerMessage* const first_place = rings.ring(0, 0).places().items;
  WorkerMessage* const end = rings.ring(last, last).places().items + kWorkerMessagesMax;
  const auto bytes = static_cast<size_t>(end - first_place) * sizeof(WorkerMessage);
  std::vector<unsigned char> has_memory(bytes / system_page_bytes() + 1);
  EXPECT_EQ(::mincore(first_place, bytes, has_memory.data()), 0);
  return static_cast<size_t>(std::count(has_memory.begin(), has_memory.end(), 1));
}

// 64 workers had 353 MB of rings, all written at the start.
TEST(InterWorkerRings, TakeNoMemoryBeforeTheyAreUsed) {
  InterWorkerRings rings(16);
  EXPECT_EQ(pages_used(rings), 0u);
  ASSERT_TRUE(rings.ring(3, 5).try_post({.kind = WorkerMessage::Kind::kClaim}));
  EXPECT_GT(pages_used(rings), 0u) << "this kernel tells nothing of pages";
  WorkerMessage message;
  EXPECT_FALSE(rings.ring(5, 3).try_take(message));
  ASSERT_TRUE(rings.ring(3, 5).try_take(message));
  EXPECT_EQ(message.kind, WorkerMessage::Kind::kClaim);
}

TEST(InterWorkerRings, EachHasItsOwnPlaces) {
  constexpr uint32_t kFew = 5;
  InterWorkerRings rings(kFew);
  for (uint32_t ring = 0; ring < kFew * kFew; ++ring) {
    WorkerMessage message{.receiver = static_cast<uint8_t>(ring)};
    for (uint32_t i = 0; i < kWorkerMessagesMax; ++i) {
      ASSERT_TRUE(rings.ring(ring / kFew, ring % kFew).try_post(message));
    }
    EXPECT_FALSE(rings.ring(ring / kFew, ring % kFew).try_post(message));
  }
  for (uint32_t ring = 0; ring < kFew * kFew; ++ring) {
    WorkerMessage message;
    for (uint32_t i = 0; i < kWorkerMessagesMax; ++i) {
      ASSERT_TRUE(rings.ring(ring / kFew, ring % kFew).try_take(message));
      ASSERT_EQ(message.receiver, ring);
    }
  }
}

}  // namespace
}  // namespace lyre::worker
