#include "stack/session/send_queue.h"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "stack/base/rng.h"

namespace lyre::session {
namespace {

TEST(SendQueue, GatherNamesTheBytesAcrossPieces) {
  SendPieces pieces(8);
  SendQueue queue;
  ASSERT_TRUE(pieces.try_append(queue, {.region = 3, .length = 100, .offset = 1000}));
  ASSERT_TRUE(pieces.try_append(queue, {.region = 3, .length = 50, .offset = 5000}));
  BufRef out[4];
  ASSERT_EQ(pieces.gather(queue, 90, 30, out), 2u);
  EXPECT_EQ(out[0].offset, 1090u);
  EXPECT_EQ(out[0].length, 10u);
  EXPECT_EQ(out[1].offset, 5000u);
  EXPECT_EQ(out[1].length, 20u);
}

TEST(SendQueue, GatherRefusesWhenThereAreMorePiecesThanPlaces) {
  SendPieces pieces(8);
  SendQueue queue;
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(pieces.try_append(queue, {.region = 0, .length = 1, .offset = i * 10}));
  }
  BufRef out[2];
  EXPECT_EQ(pieces.gather(queue, 0, 3, out), 0u);
}

TEST(SendQueue, APieceIsFinishedWhenItsLastByteIsAcknowledged) {
  SendPieces pieces(8);
  SendQueue queue;
  pieces.try_append(queue, {.region = 0, .length = 100, .offset = 0});
  pieces.try_append(queue, {.region = 0, .length = 100, .offset = 200});
  EXPECT_EQ(pieces.on_acked(queue, 99), 0u);
  EXPECT_EQ(pieces.on_acked(queue, 1), 1u);
  EXPECT_EQ(pieces.on_acked(queue, 100), 1u);
  EXPECT_EQ(queue.finished_count, 2u);
  EXPECT_EQ(pieces.room(), 8u);
}

// With what was acknowledged of the first one: a client that knows of more bytes than are told next
// takes the daemon for broken.
TEST(SendQueue, PiecesThatAreDroppedAreFinished) {
  SendPieces pieces(8);
  SendQueue queue;
  for (uint64_t i = 0; i < 3; ++i) {
    pieces.try_append(queue, {.region = 0, .length = 100, .offset = i * 200});
  }
  pieces.on_acked(queue, 150);
  EXPECT_EQ(pieces.clear(queue), 2u);
  EXPECT_EQ(queue.finished_count, 3u);
  EXPECT_EQ(queue.head_acked_bytes, 0u);
  EXPECT_EQ(queue.piece_count, 0u);
  EXPECT_EQ(pieces.room(), 8u);
}

TEST(SendQueue, FullPoolRefusesAndLeavesTheQueueAlone) {
  SendPieces pieces(1);
  SendQueue queue;
  EXPECT_TRUE(pieces.try_append(queue, {.region = 0, .length = 1, .offset = 0}));
  EXPECT_FALSE(pieces.try_append(queue, {.region = 0, .length = 1, .offset = 1}));
  EXPECT_EQ(queue.piece_count, 1u);
}

// Compared with a plain list of bytes, for any order of appending, acknowledging and gathering.
TEST(SendQueue, AgreesWithAListOfBytes) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Rng rng(seed);
    SendPieces pieces(64);
    SendQueue queue;
    std::deque<uint64_t> bytes;  // the position of every queued byte
    uint64_t next_place = 0;
    for (int step = 0; step < 500; ++step) {
      const uint64_t choice = rng.below(3);
      if (choice == 0 && pieces.room() > 0) {
        const auto length = static_cast<uint32_t>(1 + rng.below(40));
        pieces.try_append(queue, {.region = 1, .length = length, .offset = next_place});
        for (uint32_t i = 0; i < length; ++i) bytes.push_back(next_place + i);
        next_place += length + 7;
      } else if (choice == 1 && !bytes.empty()) {
        const auto acked = static_cast<uint32_t>(rng.below(bytes.size() + 1));
        pieces.on_acked(queue, acked);
        bytes.erase(bytes.begin(), bytes.begin() + acked);
      } else if (!bytes.empty()) {
        const auto offset = static_cast<uint32_t>(rng.below(bytes.size()));
        const auto length = static_cast<uint32_t>(1 + rng.below(bytes.size() - offset));
        std::vector<BufRef> out(64);
        const uint32_t count = pieces.gather(queue, offset, length, out);
        ASSERT_GT(count, 0u);
        uint32_t at = offset;
        for (uint32_t i = 0; i < count; ++i) {
          for (uint32_t b = 0; b < out[i].length; ++b) ASSERT_EQ(out[i].offset + b, bytes[at++]);
        }
        ASSERT_EQ(at, offset + length) << "seed " << seed;
      }
    }
  }
}

}  // namespace
}  // namespace lyre::session
