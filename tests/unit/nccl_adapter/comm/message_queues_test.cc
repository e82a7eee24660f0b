// The two halves of a comm against each other, with no stream between them but a byte buffer.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "nccl_adapter/transport/environment.h"
#include "tests/unit/nccl_adapter/support/queues.h"

namespace lyre::nccl_adapter {
namespace {

// NCCL may deregister memory while a message without bytes, which needs none of it, waits.
TEST(SendQueue, AMessageWithoutBytesNamesNoRegion) {
  SendQueue queue(nullptr);
  const std::vector<uint8_t> data(8);
  auto memory = std::make_unique<Memory>();
  Request* request = queue.post(data.data(), 0);
  request->memory = memory.get();
  memory.reset();
  Chunk chunk;
  ASSERT_TRUE(queue.next_chunk(1, kChunkBytesMax, &chunk));
  EXPECT_EQ(chunk.region, nullptr);
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
  const std::vector<uint8_t> data(kChunkBytesMax + 2);
  queue.post(data.data(), data.size());
  Chunk chunk;
  ASSERT_TRUE(queue.next_chunk(1, kChunkBytesMax, &chunk));
  EXPECT_EQ(chunk.header.bytes, kChunkCutBytesMax / 2 + 64) << "at a multiple of 128 bytes";
}

TEST(SendQueue, CutsAtMultiplesOf128Bytes) {
  SendQueue queue(nullptr);
  const std::vector<uint8_t> data(3 * kChunkBytesMax + 77);
  queue.post(data.data(), 100);
  queue.post(data.data(), data.size());
  Chunk chunk;
  uint64_t bytes = 0;
  while (queue.next_chunk(3, kChunkBytesMax, &chunk)) {
    bytes += chunk.header.bytes;
    EXPECT_EQ(chunk.header.offset % kCutBytes, 0u);
    EXPECT_LE(chunk.header.bytes, kChunkBytesMax);
    queue.chunk_sent(chunk);
    queue.on_grant(0, bytes > kEagerBytes - kCutBytes ? 2 : 0);
  }
  EXPECT_EQ(bytes, data.size() + 100);
}

TEST(SendQueue, LargeMessagesAreCutForTheStreamsAndSmallOnesAreNot) {
  SendQueue queue(nullptr);
  ASSERT_TRUE(queue.on_grant(0, 2));
  const std::vector<uint8_t> data(4 * kStripeBytesMin);
  queue.post(data.data(), data.size());
  queue.post(data.data(), kStripeBytesMin);
  Chunk chunk;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(queue.next_chunk(8, kChunkBytesMax, &chunk));
    EXPECT_EQ(chunk.header.bytes, kStripeBytesMin);
    EXPECT_EQ(chunk.header.message, 0u);
    queue.chunk_sent(chunk);
  }
  ASSERT_TRUE(queue.next_chunk(8, kChunkBytesMax, &chunk));
  EXPECT_EQ(chunk.header.bytes, kStripeBytesMin);
  EXPECT_EQ(chunk.header.message, 1u);
}

TEST(SendQueue, PiecesForSlowStreamsAreShortAndSmallMessagesStayWhole) {
  constexpr uint64_t kSlow = kStripeBytesMin / 2;
  SendQueue queue(nullptr);
  ASSERT_TRUE(queue.on_grant(0, 2));
  const std::vector<uint8_t> data(kStripeBytesMin + 100);
  queue.post(data.data(), data.size());
  queue.post(data.data(), kStripeBytesMin);
  Chunk chunk;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(queue.next_chunk(8, kSlow, &chunk));
    EXPECT_EQ(chunk.header.message, 0u);
    EXPECT_LE(chunk.header.bytes, kSlow);
    queue.chunk_sent(chunk);
  }
  ASSERT_TRUE(queue.next_chunk(8, kSlow, &chunk));
  EXPECT_EQ(chunk.header.message, 1u);
  EXPECT_EQ(chunk.header.bytes, kStripeBytesMin);
}

TEST(SendQueue, WhatNoStreamTookWaitsForRoom) {
  SendQueue queue(nullptr);
  const std::vector<uint8_t> data(kStripeBytesMin);
  queue.post(data.data(), data.size());
  EXPECT_FALSE(queue.waits_for_room()) << "the receiver has to grant first";
  ASSERT_TRUE(queue.on_grant(0, 1));
  EXPECT_TRUE(queue.waits_for_room());
  Chunk chunk;
  ASSERT_TRUE(queue.next_chunk(1, kChunkBytesMax, &chunk));
  queue.chunk_sent(chunk);
  EXPECT_FALSE(queue.waits_for_room());
  queue.send_again({0, 0, 100});
  EXPECT_TRUE(queue.waits_for_room());
}

TEST(SendQueue, WhatABrokenStreamCarriedGoesAgainOldestFirst) {
  SendQueue queue(nullptr);
  ASSERT_TRUE(queue.on_grant(0, 3));
  const std::vector<uint8_t> data(100);
  for (int i = 0; i < 3; ++i) queue.post(data.data(), data.size());
  std::vector<uint8_t> wire;
  drain(queue, &wire);
  ASSERT_TRUE(queue.on_grant(1, 3));
  queue.send_again({2, 0, 100});
  queue.send_again({0, 0, 100});  // placed: forgotten
  queue.send_again({1, 0, 100});
  Chunk chunk;
  for (const uint64_t message : {1u, 2u}) {
    ASSERT_TRUE(queue.next_chunk(1, kChunkBytesMax, &chunk));
    EXPECT_EQ(chunk.header.message, message);
    EXPECT_TRUE(chunk.is_again);
    queue.chunk_sent(chunk);
  }
  EXPECT_FALSE(queue.next_chunk(1, kChunkBytesMax, &chunk));
  queue.send_again({1, 0, 100});
  ASSERT_TRUE(queue.on_grant(3, 3));
  EXPECT_FALSE(queue.next_chunk(1, kChunkBytesMax, &chunk));
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
  ASSERT_TRUE(queue.on_grant(0, 1));  // an older grant
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
  EXPECT_TRUE(queue.on_grant(0, UINT64_MAX));  // a large `posted` is harmless
}

TEST(SendQueue, ReadsMemoryUntilItIsPlaced) {
  SendQueue queue(nullptr);
  std::vector<uint8_t> data(100'000);
  queue.post(data.data(), data.size());
  EXPECT_TRUE(queue.requests().touches(data.data(), data.size()));
  EXPECT_FALSE(queue.requests().touches(data.data() + data.size(), 10));
  ASSERT_TRUE(queue.on_grant(0, 1));
  std::vector<uint8_t> wire;
  drain(queue, &wire);
  EXPECT_TRUE(queue.requests().touches(data.data(), 1));  // it may have to be sent again
  ASSERT_TRUE(queue.on_grant(1, 1));
  EXPECT_FALSE(queue.requests().touches(data.data(), data.size()));
}

TEST(ReceiveQueue, FramesAboutQueuePairsAreTheCallersInWhateverPartsTheyCome) {
  const uint8_t payload = 0x77;
  std::vector<uint8_t> bytes =
      frame({.type = FrameType::kOffer, .bytes = 60, .message = 5, .offset = 2}, 60);
  const std::vector<uint8_t> second =
      frame({.type = FrameType::kDecline, .message = 6, .offset = 1});
  bytes.insert(bytes.end(), second.begin(), second.end());
  const std::vector<uint8_t> last = frame({.type = FrameType::kPing});
  bytes.insert(bytes.end(), last.begin(), last.end());
  for (size_t part = 1; part <= bytes.size(); ++part) {
    ReceiveQueue queue(nullptr);
    FrameProgress reader;
    std::vector<FrameHeader> headers;
    for (std::span<const uint8_t> in(bytes); !in.empty();) {
      std::span<const uint8_t> piece = in.first(std::min(part, in.size()));
      in = in.subspan(piece.size());
      Verdict verdict = queue.take(&reader, &piece);
      for (; verdict == Verdict::kOther; verdict = queue.take(&reader, &piece)) {
        headers.push_back(reader.frames.header());
        EXPECT_EQ(reader.small_payload,
                  std::vector<uint8_t>(reader.frames.header().bytes, payload));
      }
      ASSERT_EQ(verdict, Verdict::kMore);
    }
    ASSERT_EQ(headers.size(), 2u);
    EXPECT_EQ(headers[0].message, 5u);
    EXPECT_EQ(headers[1].message, 6u);
  }
}

TEST(ReceiveQueue, IsToldWhatWasWritten) {
  ReceiveQueue queue(nullptr);
  std::vector<uint8_t> data(300);
  Request* request = queue.post(data.data(), 400);
  EXPECT_EQ(take(queue, frame({FrameType::kWritten, 100, 0, 300, 200}), true), Verdict::kMore);
  EXPECT_EQ(take(queue, frame({FrameType::kData, 200, 0, 300, 0}, 200)), Verdict::kMore);
  EXPECT_EQ(request->state, Request::State::kDone);
  EXPECT_EQ(queue.take_copied_bytes(), 200u);
  EXPECT_EQ(take(queue, frame({FrameType::kWritten, 100, 0, 300, 200}), true), Verdict::kMore);
}

TEST(ReceiveQueue, OnlyQueuePairsWriteAndOnlyWhatIsPosted) {
  ReceiveQueue queue(nullptr);
  std::vector<uint8_t> data(300);
  queue.post(data.data(), 300);
  EXPECT_EQ(take(queue, frame({FrameType::kWritten, 100, 0, 300, 200})), Verdict::kBroken);
  EXPECT_EQ(take(queue, frame({FrameType::kWritten, 100, 1, 300, 200}), true), Verdict::kBroken);
  EXPECT_EQ(take(queue, frame({FrameType::kWritten, 100, 0, 301, 200}), true), Verdict::kTooLarge);
  EXPECT_EQ(take(queue, frame({FrameType::kPlace, 1, 0, 300, 4096}), true), Verdict::kBroken);
}

TEST(ReceiveQueue, CreditIsTheCallers) {
  ReceiveQueue queue(nullptr);
  EXPECT_EQ(take(queue, frame({.type = FrameType::kCredit, .message = 1})), Verdict::kOther);
}

TEST(ReceiveQueue, KeepsWhatComesBeforeItsReceive) {
  ReceiveQueue queue(nullptr);
  EXPECT_EQ(take(queue, frame({FrameType::kData, 4, 1, 4, 0}, 4)), Verdict::kMore);
  EXPECT_EQ(take(queue, frame({FrameType::kData, 0, 0, 0, 0})), Verdict::kMore);
  Request* empty = queue.post(nullptr, 10);
  EXPECT_EQ(empty->state, Request::State::kDone);
  EXPECT_EQ(empty->bytes, 0u);
  std::vector<uint8_t> place(4);
  Request* request = queue.post(place.data(), 4);
  EXPECT_EQ(request->state, Request::State::kDone);
  EXPECT_EQ(place, std::vector<uint8_t>(4, 0x77));
}

TEST(ReceiveQueue, CountsEachCopyOfAByte) {
  ReceiveQueue queue(nullptr);
  EXPECT_EQ(take(queue, frame({FrameType::kData, 4, 0, 10, 0}, 4)), Verdict::kMore);
  EXPECT_EQ(queue.take_copied_bytes(), 4u);
  std::vector<uint8_t> place(10);
  queue.post(place.data(), 10);  // what came early is copied again
  EXPECT_EQ(take(queue, frame({FrameType::kData, 4, 0, 10, 0}, 4)), Verdict::kMore);  // known
  EXPECT_EQ(take(queue, frame({FrameType::kData, 6, 0, 10, 4}, 6)), Verdict::kMore);
  EXPECT_EQ(queue.take_copied_bytes(), 10u);
  EXPECT_EQ(queue.take_copied_bytes(), 0u);
}

TEST(ReceiveQueue, AReceiveMayBePostedInMidFrame) {
  ReceiveQueue queue(nullptr);
  FrameProgress reader;
  const auto bytes = frame({FrameType::kData, 4, 0, 4, 0}, 4);
  std::span<const uint8_t> in(bytes.data(), bytes.size() - 2);
  EXPECT_EQ(queue.take(&reader, &in), Verdict::kMore);
  std::vector<uint8_t> place(4);
  Request* request = queue.post(place.data(), 4);
  in = std::span(bytes).last(2);
  EXPECT_EQ(queue.take(&reader, &in), Verdict::kMore);
  EXPECT_EQ(request->state, Request::State::kDone);
  EXPECT_EQ(place, std::vector<uint8_t>(4, 0x77));
}

TEST(ReceiveQueue, KeepsNoMoreThanTheEagerBytes) {
  ReceiveQueue queue(nullptr);
  const auto half = static_cast<uint32_t>(kEagerBytes / 2);
  EXPECT_EQ(take(queue, frame({FrameType::kData, half, 0, half, 0}, half)), Verdict::kMore);
  EXPECT_EQ(take(queue, frame({FrameType::kData, half, 1, 1 << 20, 0}, half)), Verdict::kMore);
  EXPECT_EQ(take(queue, frame({FrameType::kData, 1, 2, 1, 0}, 1)), Verdict::kBroken);
  ReceiveQueue other(nullptr);
  EXPECT_EQ(take(other, frame({FrameType::kData, 1, 0, 1 << 20, half * 2}, 1)), Verdict::kBroken);
}

TEST(ReceiveQueue, FindsAnEarlyMessageTooLargeForItsReceive) {
  ReceiveQueue queue(nullptr);
  EXPECT_EQ(take(queue, frame({FrameType::kData, 4, 0, 4, 0}, 4)), Verdict::kMore);
  std::vector<uint8_t> place(4, 1);
  queue.post(place.data(), 3);
  ASSERT_TRUE(queue.refused());
  EXPECT_EQ(queue.refused()->message_bytes, 4u);
  EXPECT_EQ(place, std::vector<uint8_t>(4, 1));
}

TEST(ReceiveQueue, PiecesComeInAnyOrderAndTwice) {
  ReceiveQueue queue(nullptr);
  std::vector<uint8_t> place(12);
  Request* request = queue.post(place.data(), 12);
  const auto piece = [&](uint64_t offset) {
    return take(queue, frame({FrameType::kData, 4, 0, 12, offset}, 4));
  };
  EXPECT_EQ(piece(8), Verdict::kMore);
  EXPECT_EQ(piece(0), Verdict::kMore);
  EXPECT_EQ(piece(8), Verdict::kMore);
  EXPECT_EQ(request->state, Request::State::kActive);
  EXPECT_EQ(piece(4), Verdict::kMore);
  EXPECT_EQ(request->state, Request::State::kDone);
  place.assign(12, 0);
  EXPECT_EQ(piece(4), Verdict::kMore);  // placed before: the memory is not written
  EXPECT_EQ(place, std::vector<uint8_t>(12, 0));
}

// The second half of a frame arrives after another stream brought the whole of it.
TEST(ReceiveQueue, NothingIsWrittenOnceTheMessageIsDone) {
  ReceiveQueue queue(nullptr);
  std::vector<uint8_t> place(8);
  Request* request = queue.post(place.data(), 8);
  const auto bytes = frame({FrameType::kData, 8, 0, 8, 0}, 8);
  FrameProgress slow;
  std::span<const uint8_t> in(bytes.data(), bytes.size() - 4);
  EXPECT_EQ(queue.take(&slow, &in), Verdict::kMore);
  EXPECT_EQ(take(queue, bytes), Verdict::kMore);
  EXPECT_EQ(request->state, Request::State::kDone);
  place.assign(8, 0);
  in = std::span(bytes).last(4);
  EXPECT_EQ(queue.take(&slow, &in), Verdict::kMore);
  EXPECT_EQ(place, std::vector<uint8_t>(8, 0));
  EXPECT_EQ(queue.placed(), 1u);
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
      {FrameType::kData, 4, kRequestsPerComm, 4, 0},  // more messages than a sender can have
      {FrameType::kData, 4, UINT64_MAX, 4, 0},
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
       {FrameHeader{FrameType::kData, 4, 0, 90, 4}, FrameHeader{FrameType::kData, 4, 0, 10, 2}}) {
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
  EXPECT_TRUE(queue.requests().touches(place.data() + 7, 1));
  EXPECT_FALSE(queue.requests().touches(place.data() + 8, 1));
  take(queue, frame({FrameType::kData, 4, 0, 4, 0}, 4));
  EXPECT_FALSE(queue.requests().touches(place.data(), 8));
}

// Four streams between the halves of a comm, which break as they like.
class Streams {
 public:
  Streams(SendQueue& sender, ReceiveQueue& receiver, std::mt19937& random)
      : sender_(sender), receiver_(receiver), random_(random), streams_(4) {}

  void send() {
    Chunk chunk;
    while (sender_.next_chunk(streams_.size(), kChunkBytesMax, &chunk)) {
      Stream& stream = streams_[below(streams_.size())];
      const std::vector<uint8_t> header = frame(chunk.header);
      stream.wire.insert(stream.wire.end(), header.begin(), header.end());
      if (chunk.header.bytes > 0) {
        stream.wire.insert(stream.wire.end(), chunk.data, chunk.data + chunk.header.bytes);
      }
      stream.sent.push_back({chunk.header.message, chunk.header.offset, chunk.header.bytes});
      sender_.chunk_sent(chunk);
    }
  }

  void receive() {
    Stream& stream = streams_[below(streams_.size())];
    std::span<const uint8_t> in(stream.wire.data(), below(stream.wire.size() + 1));
    const size_t offered = in.size();
    ASSERT_EQ(receiver_.take(&stream.reader, &in), Verdict::kMore);
    ASSERT_TRUE(in.empty());
    stream.wire.erase(stream.wire.begin(), stream.wire.begin() + static_cast<ptrdiff_t>(offered));
  }

  // What is on its way is lost, and what had come may be sent again.
  void break_one() {
    Stream& stream = streams_[below(streams_.size())];
    for (const SentChunk& sent : stream.sent) sender_.send_again(sent);
    stream = {};
  }

  size_t below(size_t n) { return static_cast<size_t>(random_()) % n; }

 private:
  struct Stream {
    std::vector<uint8_t> wire;
    std::vector<SentChunk> sent;
    FrameProgress reader;
  };

  SendQueue& sender_;
  ReceiveQueue& receiver_;
  std::mt19937& random_;
  std::vector<Stream> streams_;
};

struct Message {
  std::vector<uint8_t> data;
  Request* request;
};

/// Posts messages of random sizes on both sides at random times, and verifies what arrives.
class Traffic {
 public:
  Traffic(SendQueue& sender, ReceiveQueue& receiver, Streams& streams)
      : sender_(sender), receiver_(receiver), streams_(streams), sizes_(60) {
    for (size_t& size : sizes_) size = below(4) == 0 ? below(200'000) : below(500);
  }

  bool is_complete() const { return verified_ == sizes_.size(); }

  void post() {
    if (sent_ < sizes_.size() && below(2) == 0) {
      Message message{counted(sizes_[sent_], static_cast<uint8_t>(sent_)), nullptr};
      message.request = sender_.post(message.data.data(), message.data.size());
      if (message.request != nullptr) sends_.push_back(std::move(message)), ++sent_;
    }
    if (posted_ < sizes_.size() && below(3) == 0) {
      Message message{std::vector<uint8_t>(sizes_[posted_] + below(50)), nullptr};
      message.request = receiver_.post(message.data.data(), message.data.size());
      if (message.request != nullptr) receives_.push_back(std::move(message)), ++posted_;
    }
  }

  void grant() {
    if (!receiver_.has_news()) return;
    const FrameHeader grant = receiver_.make_grant();
    ASSERT_TRUE(sender_.on_grant(grant.message, grant.offset));
  }

  void verify() {
    while (!receives_.empty() && receives_.front().request->state == Request::State::kDone) {
      Message& message = receives_.front();
      message.data.resize(message.request->bytes);
      ASSERT_EQ(message.data, counted(sizes_[verified_], static_cast<uint8_t>(verified_)));
      receiver_.requests().release(message.request);
      receives_.pop_front();
      ++verified_;
    }
    while (!sends_.empty() && sends_.front().request->state == Request::State::kDone) {
      sender_.requests().release(sends_.front().request);
      sends_.pop_front();
    }
  }

 private:
  size_t below(size_t n) { return streams_.below(n); }

  SendQueue& sender_;
  ReceiveQueue& receiver_;
  Streams& streams_;
  std::vector<size_t> sizes_;
  std::deque<Message> sends_;
  std::deque<Message> receives_;
  size_t sent_ = 0;
  size_t posted_ = 0;
  size_t verified_ = 0;
};

// Any sizes, any cutting of the streams, any timing of posts and breaks: every byte lands, nothing
// gets stuck.
TEST(MessageQueues, AnyTimingDeliversEverything) {
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    SendQueue sender(nullptr);
    ReceiveQueue receiver(nullptr);
    Streams streams(sender, receiver, random);
    Traffic traffic(sender, receiver, streams);
    for (int step = 0; !traffic.is_complete(); ++step) {
      ASSERT_LT(step, 100'000) << "stuck";
      traffic.post();
      streams.send();
      streams.receive();
      if (streams.below(20) == 0) streams.break_one();
      traffic.grant();
      traffic.verify();
      if (HasFatalFailure()) return;
    }
    EXPECT_EQ(sender.requests().active(), 0u);
  }
}

}  // namespace
}  // namespace lyre::nccl_adapter
