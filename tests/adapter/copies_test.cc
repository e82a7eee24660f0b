// How often a processor copies the payload of NCCL's messages.
#include <gtest/gtest.h>

#include <vector>

#include "nccl_adapter/limits.h"
#include "tests/adapter/direct_memory.h"
#include "tests/adapter/link.h"
#include "tests/support/worker_counters.h"

namespace lyre::test {
namespace {

using channel::WorkerStats;

constexpr int kAbi = 11;
constexpr size_t kBytes = 4 << 20;
constexpr uint64_t kMessages = 8;
constexpr uint64_t kTotalBytes = kMessages * kBytes;
/// The plugin's own frames are small, and copied: on a slow machine a ping of 32 bytes a second.
constexpr uint64_t kWordsBytesMax = 1024;
/// What the worker copies on the way in: a segment of at most half a slot whose predecessor is
/// unread (segment_input.cc, is_small()), once. A full-sized one is larger. A frame ends in a short
/// segment when the sender has no more yet, and its header may leave before its payload.
constexpr uint64_t kFrames = kMessages * (kBytes / nccl_adapter::kChunkBytesMax + 1);
constexpr uint64_t kShortSegmentBytesMax = 1024;
constexpr uint64_t kShortBytesMax = 2 * kFrames * kShortSegmentBytesMax;
static_assert(kShortBytesMax < kTotalBytes / 100);

/// The bytes copied on a host since construction.
class Copies {
 public:
  explicit Copies(int host) : counters_(daemons().socket(host)), before_(read()) {}

  uint64_t by_worker_out() const { return read().worker_out - before_.worker_out; }
  /// What TCP sent again is a copy: the first packet may still be read by its driver.
  uint64_t sent_again() const { return read().sent_again - before_.sent_again; }
  uint64_t by_worker_in() const { return read().worker_in - before_.worker_in; }
  uint64_t by_client_out() const { return read().client_out - before_.client_out; }
  uint64_t by_client_in() const { return read().client_in - before_.client_in; }

 private:
  struct Figures {
    uint64_t worker_out, worker_in, client_out, client_in, sent_again;
  };
  Figures read() const {
    return {counters_[&WorkerStats::copied_tx_bytes], counters_[&WorkerStats::copied_rx_bytes],
            counters_[&WorkerStats::client_copied_tx_bytes],
            counters_[&WorkerStats::client_copied_rx_bytes],
            counters_[&WorkerStats::tcp_payload_retransmitted]};
  }

  WorkerCounters counters_;
  Figures before_;
};

/// All receives are posted before the first send, so no message waits for its receive.
void move_messages(Rank& rank, Link& link, uint8_t* memory, void* mhandle) {
  std::vector<void*> requests;
  if (rank.index() == 0) rank.barrier();
  for (uint64_t number = 0; number < kMessages; ++number) {
    requests.push_back(rank.index() == 0 ? link.isend(memory, kBytes, mhandle)
                                         : link.irecv(memory, kBytes));
  }
  if (rank.index() == 1) rank.barrier();
  for (void* request : requests) EXPECT_EQ(link.finish(request), static_cast<int>(kBytes));
}

/// The client reports its copies when it releases slots, so the counters follow a little later.
void expect_one_copy(const Copies& copies) {
  EXPECT_TRUE(until([&] { return copies.by_client_in() >= kTotalBytes; })) << copies.by_client_in();
  EXPECT_EQ(copies.by_client_in(), kTotalBytes);
  EXPECT_LE(copies.by_worker_in(), kShortBytesMax);
}

TEST(RegisteredMemory, IsSentWithoutACopyAndReceivedWithOne) {
  const RankBody body = [](Rank& rank) {
    const SharedPages memory(kBytes);
    Link link(rank, kAbi);
    void* mhandle = nullptr;
    ASSERT_EQ(
        link.plugin().reg_mr(link.comm(), memory.data(), kBytes, nccl_abi::kPtrHost, &mhandle),
        Result::kSuccess);
    const Copies copies(rank.index());
    move_messages(rank, link, memory.data(), mhandle);
    if (rank.index() == 1) expect_one_copy(copies);
    if (rank.index() == 0) {
      EXPECT_LT(copies.by_client_out(), kWordsBytesMax);
      EXPECT_LE(copies.by_worker_out(), copies.sent_again());
    }
    EXPECT_EQ(link.plugin().dereg_mr(link.comm(), mhandle), Result::kSuccess);
    link.close();
  };
  if (!is_direct(daemons().socket(0), SharedPages(kBytes))) {
    GTEST_SKIP() << "the daemon lacks CAP_CHECKPOINT_RESTORE";
  }
  expect_ranks({body, body});
}

TEST(OtherMemory, IsCopiedOnceEachWay) {
  const RankBody body = [](Rank& rank) {
    Link link(rank, kAbi);
    std::vector<uint8_t> memory(kBytes);
    const Copies copies(rank.index());
    move_messages(rank, link, memory.data(), nullptr);
    if (rank.index() == 1) expect_one_copy(copies);
    if (rank.index() == 0) {
      EXPECT_GE(copies.by_client_out(), kTotalBytes);
      EXPECT_LT(copies.by_client_out(), kTotalBytes + kWordsBytesMax);
      EXPECT_LE(copies.by_worker_out(), copies.sent_again());
    }
    link.close();
  };
  daemons();
  expect_ranks({body, body});
}

}  // namespace
}  // namespace lyre::test
