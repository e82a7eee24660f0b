#include "stack/worker/routing/inter_worker_rings.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "stack/worker/routing/connection_router.h"

namespace lyre::worker {
namespace {

// Packets go from thread to thread as between workers, and all come back. For TSan.
TEST(InterWorkerRings, PacketsThatAreSentOnComeBack) {
  constexpr uint32_t kWorkers = 3;
  constexpr uint32_t kRounds = 20'000;
  InterWorkerRings rings(kWorkers);
  std::vector<io::PacketBuf> packets(kWorkers * kPacketsAwayMax);
  std::atomic<uint32_t> finished{0};
  const auto work = [&](uint32_t self) {
    std::vector<io::PacketBuf*> free;
    for (uint32_t i = 0; i < kPacketsAwayMax; ++i) {
      free.push_back(&packets[self * kPacketsAwayMax + i]);
    }
    uint32_t sent = 0;
    uint32_t back = 0;
    bool is_counted = false;
    while (finished.load(std::memory_order_acquire) < kWorkers) {
      if (sent < kRounds && !free.empty()) {
        io::PacketBuf* packet = free.back();
        packet->length = sent;
        const uint32_t to = (self + 1 + sent % (kWorkers - 1)) % kWorkers;
        if (rings.ring(self, to).try_post({.kind = WorkerMessage::Kind::kDeliver,
                                           .receiver = static_cast<uint8_t>(self),
                                           .packet = packet})) {
          free.pop_back();
          ++sent;
        }
      }
      WorkerMessage message;
      for (uint32_t from = 0; from < kWorkers; ++from) {
        while (rings.ring(from, self).try_take(message)) {
          if (message.kind == WorkerMessage::Kind::kRelease) {
            EXPECT_EQ(message.packet->tailroom, 7u);
            free.push_back(message.packet);
            ++back;
            continue;
          }
          message.packet->tailroom = 7;
          message.kind = WorkerMessage::Kind::kRelease;
          EXPECT_TRUE(rings.ring(self, message.receiver).try_post(message));
        }
      }
      if (back == kRounds && !is_counted) {
        is_counted = true;
        finished.fetch_add(1, std::memory_order_release);
      }
    }
    EXPECT_EQ(free.size(), kPacketsAwayMax);
  };
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kWorkers; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace lyre::worker
