// The two halves of a comm against each other, with no stream between them but a byte buffer.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <numeric>
#include <random>
#include <vector>

#include "nccl_adapter/core/receive_queue.h"
#include "nccl_adapter/core/send_queue.h"

namespace lyre::nccl_adapter {
namespace {

using Verdict = ReceiveQueue::Verdict;

constexpr size_t kChunkBytes = 1000;

std::vector<uint8_t> frame(const FrameHeader& header, size_t payload_bytes = 0) {
  std::vector<uint8_t> bytes(kFrameHeaderBytes + payload_bytes, 0x77);
  encode(header, std::span<uint8_t, kFrameHeaderBytes>(bytes.data(), kFrameHeaderBytes));
  return bytes;
}

Verdict take(ReceiveQueue& queue, const std::vector<uint8_t>& bytes) {
  std::span<const uint8_t> in(bytes);
  return queue.take(&in);
}

std::vector<uint8_t> counted(size_t bytes, uint8_t first) {
  std::vector<uint8_t> data(bytes);
  std::iota(data.begin(), data.end(), first);
  return data;
}

// Moves everything that may leave `from` to the end of `wire`. Returns the payload bytes.
uint64_t drain(SendQueue& from, std::vector<uint8_t>* wire) {
  SendQueue::Chunk chunk;
  uint64_t payload_bytes = 0;
  while (from.next_chunk(kChunkBytes, &chunk)) {
    const std::vector<uint8_t> header = frame(chunk.header);
    wire->insert(wire->end(), header.begin(), header.end());
    if (chunk.header.bytes > 0) {
      wire->insert(wire->end(), chunk.data, chunk.data + chunk.header.bytes);
    }
    payload_bytes += chunk.header.bytes;
    from.chunk_sent(chunk);
  }
  return payload_bytes;
}

TEST(SendQueue, EagerBytesAreBounded) {
  SendQueue queue(nullptr);
  const std::vector<uint8_t> data(100'000);
  for (int i = 0; i < 4; ++i) queue.post(data.data(), data.size());
  std::vector<uint8_t> wire;
  EXPECT_EQ(drain(queue, &wire), kEagerBytes);
  ASSERT_TRUE(queue.on_grant(0, 1));
  EXPECT_EQ(drain(queue, &wire), 100'000 - kEagerBytes + kEagerBytes);  // the rest, and the next
  ASSERT_TRUE(queue.on_grant(0, 4));
  EXPECT_EQ(drain(queue, &wire), 300'000 - kEagerBytes);
}

TEST(SendQueue, AGrantAheadOfThePostsLetsThemGo) {
  SendQueue queue(nullptr);
  ASSERT_TRUE(queue.on_grant(0, 8));
  const std::vector<uint8_t> data(1'000'000);
  queue.post(data.data(), data.size());
  std::vector<uint8_t> wire;
  EXPECT_EQ(drain(queue, &wire), data.size());
}

TEST(SendQueue, SmallMessagesNeedNoGrant) {
  SendQueue queue(nullptr);
  const std::vector<uint8_t> data(8);
  for (size_t i = 0; i < kRequestsPerComm; ++i) ASSERT_NE(queue.post(data.data(), 8), nullptr);
  EXPECT_EQ(queue.post(data.data(), 8), nullptr);
  std::vector<uint8_t> wire;
  EXPECT_EQ(drain(queue, &wire), 8 * kRequestsPerComm);
}

TEST(SendQueue, PiecesAreEven) {
  SendQueue queue(nullptr);
  ASSERT_TRUE(queue.on_grant(0, 1));
  const std::vector<uint8_t> data(kChunkBytes + 2);
  queue.post(data.data(), data.size());
  SendQueue::Chunk chunk;
  ASSERT_TRUE(queue.next_chunk(kChunkBytes, &chunk));
  EXPECT_EQ(chunk.header.bytes, kChunkBytes / 2 + 1);
}

TEST(SendQueue, MessagesAreDoneWhenPlacedNotWhenSent) {
  SendQueue queue(nullptr);
  const uint8_t byte = 1;
  Request* first = queue.post(&byte, 1);
  Request* second = queue.post(&byte, 1);
  std::vector<uint8_t> wire;
  drain(queue, &wire);
  EXPECT_EQ(first->state, Request::State::kActive);
  ASSERT_TRUE(queue.on_grant(1, 1));
  EXPECT_EQ(first->state, Request::State::kDone);
  EXPECT_EQ(second->state, Request::State::kActive);
  ASSERT_TRUE(queue.on_grant(0, 1));  // old news
  ASSERT_TRUE(queue.on_grant(2, 2));
  EXPECT_EQ(second->state, Request::State::kDone);
}

TEST(SendQueue, GrantsThatLieAreRefused) {
  SendQueue queue(nullptr);
  const std::vector<uint8_t> data(100'000);
  queue.post(data.data(), data.size());
  std::vector<uint8_t> wire;
  drain(queue, &wire);                 // only the eager part went
  EXPECT_FALSE(queue.on_grant(1, 1));  // so it cannot be placed
  EXPECT_FALSE(queue.on_grant(5, 99));
  EXPECT_TRUE(queue.on_grant(0, UINT64_MAX));  // posting much is nobody's harm
}

TEST(SendQueue, KnowsWhichMemoryItStillReads) {
  SendQueue queue(nullptr);
  std::vector<uint8_t> data(100'000);
  queue.post(data.data(), data.size());
  EXPECT_TRUE(queue.reads(data.data(), data.size()));
  EXPECT_FALSE(queue.reads(data.data() + data.size(), 10));
  std::vector<uint8_t> wire;
  drain(queue, &wire);
  EXPECT_FALSE(queue.reads(data.data(), kEagerBytes));  // copied out already
  EXPECT_TRUE(queue.reads(data.data() + kEagerBytes, 1));
  ASSERT_TRUE(queue.on_grant(0, 1));
  drain(queue, &wire);
  EXPECT_FALSE(queue.reads(data.data(), data.size()));
}

TEST(ReceiveQueue, WaitsForAReceive) {
  ReceiveQueue queue(nullptr);
  const auto bytes = frame({FrameType::kData, 4, 0, 4, 0}, 4);
  std::span<const uint8_t> in(bytes);
  EXPECT_EQ(queue.take(&in), Verdict::kBlocked);
  EXPECT_EQ(in.size(), 4u);  // the payload stays with the caller
  std::vector<uint8_t> place(4);
  Request* request = queue.post(place.data(), 4);
  EXPECT_EQ(queue.take(&in), Verdict::kMore);
  EXPECT_EQ(request->state, Request::State::kDone);
  EXPECT_EQ(place, std::vector<uint8_t>(4, 0x77));
}

TEST(ReceiveQueue, ZeroBytesWaitToo) {
  ReceiveQueue queue(nullptr);
  EXPECT_EQ(take(queue, frame({FrameType::kData, 0, 0, 0, 0})), Verdict::kBlocked);
  Request* request = queue.post(nullptr, 10);
  EXPECT_EQ(take(queue, {}), Verdict::kMore);
  EXPECT_EQ(request->state, Request::State::kDone);
  EXPECT_EQ(request->bytes, 0u);
}

TEST(ReceiveQueue, RefusesMoreThanWasPosted) {
  ReceiveQueue queue(nullptr);
  std::vector<uint8_t> place(4, 1);
  queue.post(place.data(), 4);
  EXPECT_EQ(take(queue, frame({FrameType::kData, 5, 0, 5, 0}, 5)), Verdict::kTooLarge);
  EXPECT_EQ(place, std::vector<uint8_t>(4, 1));
}

TEST(ReceiveQueue, RefusesWhatDoesNotFollow) {
  const std::vector<FrameHeader> nonsense = {
      {FrameType::kData, 4, 1, 4, 0},   // not the next message
      {FrameType::kData, 4, 0, 10, 6},  // a hole
      {FrameType::kGrant, 0, 0, 0, 0},  // goes the other way
      {FrameType::kFail, 0, 0, 0, 0},
  };
  for (const FrameHeader& header : nonsense) {
    ReceiveQueue queue(nullptr);
    std::vector<uint8_t> place(100, 1);
    queue.post(place.data(), 100);
    EXPECT_EQ(take(queue, frame(header, header.bytes)), Verdict::kBroken);
    EXPECT_EQ(place, std::vector<uint8_t>(100, 1));
  }
}

TEST(ReceiveQueue, RefusesAChangeOfMindInMidMessage) {
  for (const FrameHeader& second :
       {FrameHeader{FrameType::kData, 4, 0, 90, 4}, FrameHeader{FrameType::kData, 4, 0, 10, 0},
        FrameHeader{FrameType::kData, 4, 0, 10, 5}}) {
    ReceiveQueue queue(nullptr);
    std::vector<uint8_t> place(100);
    queue.post(place.data(), 100);
    EXPECT_EQ(take(queue, frame({FrameType::kData, 4, 0, 10, 0}, 4)), Verdict::kMore);
    EXPECT_EQ(take(queue, frame(second, second.bytes)), Verdict::kBroken);
  }
}

TEST(ReceiveQueue, PingsMeanNothingAndByeEnds) {
  ReceiveQueue queue(nullptr);
  EXPECT_EQ(take(queue, frame({.type = FrameType::kPing})), Verdict::kMore);
  EXPECT_EQ(take(queue, frame({.type = FrameType::kBye})), Verdict::kBye);
}

TEST(ReceiveQueue, LargePostsAreToldAtOnceAndSmallOnesWithTheNextPlacement) {
  ReceiveQueue queue(nullptr);
  std::vector<uint8_t> place(1 << 20);
  queue.post(place.data(), 100);
  EXPECT_FALSE(queue.has_news());
  EXPECT_EQ(take(queue, frame({FrameType::kData, 4, 0, 4, 0}, 4)), Verdict::kMore);
  EXPECT_TRUE(queue.has_news());
  EXPECT_EQ(queue.make_grant(), (FrameHeader{FrameType::kGrant, 0, 1, 0, 1}));
  EXPECT_FALSE(queue.has_news());
  queue.post(place.data(), place.size());
  EXPECT_TRUE(queue.has_news());
  EXPECT_EQ(queue.make_grant(), (FrameHeader{FrameType::kGrant, 0, 1, 0, 2}));
}

TEST(ReceiveQueue, KnowsWhichMemoryItStillWrites) {
  ReceiveQueue queue(nullptr);
  std::vector<uint8_t> place(8);
  queue.post(place.data(), 8);
  EXPECT_TRUE(queue.writes(place.data() + 7, 1));
  EXPECT_FALSE(queue.writes(place.data() + 8, 1));
  take(queue, frame({FrameType::kData, 4, 0, 4, 0}, 4));
  EXPECT_FALSE(queue.writes(place.data(), 8));
}

// Any sizes, any cutting of the stream, any timing of posts: every byte lands, nothing gets stuck.
TEST(MessageQueues, AnyTimingDeliversEverything) {
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](size_t n) { return static_cast<size_t>(random()) % n; };
    SendQueue sender(nullptr);
    ReceiveQueue receiver(nullptr);
    std::vector<uint8_t> wire;
    struct Message {
      std::vector<uint8_t> data;
      Request* request;
    };
    std::deque<Message> sends;
    std::deque<Message> receives;
    std::vector<size_t> sizes(60);
    for (size_t& size : sizes) size = below(4) == 0 ? below(200'000) : below(500);
    size_t sent = 0;
    size_t posted = 0;
    size_t verified = 0;
    for (int step = 0; verified < sizes.size(); ++step) {
      ASSERT_LT(step, 100'000) << "stuck, seed " << seed;
      if (sent < sizes.size() && below(2) == 0) {
        Message message{counted(sizes[sent], static_cast<uint8_t>(sent)), nullptr};
        message.request = sender.post(message.data.data(), message.data.size());
        if (message.request != nullptr) sends.push_back(std::move(message)), ++sent;
      }
      if (posted < sizes.size() && below(3) == 0) {
        Message message{std::vector<uint8_t>(sizes[posted] + below(50)), nullptr};
        message.request = receiver.post(message.data.data(), message.data.size());
        if (message.request != nullptr) receives.push_back(std::move(message)), ++posted;
      }
      drain(sender, &wire);
      std::span<const uint8_t> in(wire.data(), below(wire.size() + 1));
      const size_t offered = in.size();
      const Verdict verdict = receiver.take(&in);
      ASSERT_TRUE(verdict == Verdict::kMore || verdict == Verdict::kBlocked);
      wire.erase(wire.begin(), wire.begin() + static_cast<ptrdiff_t>(offered - in.size()));
      if (receiver.has_news()) {
        const FrameHeader grant = receiver.make_grant();
        ASSERT_TRUE(sender.on_grant(grant.message, grant.offset));
      }
      while (!receives.empty() && receives.front().request->state == Request::State::kDone) {
        Message& message = receives.front();
        message.data.resize(message.request->bytes);
        ASSERT_EQ(message.data, counted(sizes[verified], static_cast<uint8_t>(verified)));
        receiver.release(message.request);
        receives.pop_front();
        ++verified;
      }
      while (!sends.empty() && sends.front().request->state == Request::State::kDone) {
        sender.release(sends.front().request);
        sends.pop_front();
      }
    }
    EXPECT_EQ(sender.active(), 0u);
  }
}

}  // namespace
}  // namespace lyre::nccl_adapter
