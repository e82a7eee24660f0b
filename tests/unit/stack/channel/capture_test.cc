#include "stack/channel/capture.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <thread>
#include <vector>

namespace lyre::channel {
namespace {

/// A ring between two areas that nobody may write to.
struct GuardedRing {
  std::array<uint64_t, 512> before{};
  CaptureRing ring{};
  std::array<uint64_t, 512> after{};
};

class CaptureRingTest : public testing::Test {
 protected:
  ~CaptureRingTest() override {
    for (const uint64_t word : memory->before) EXPECT_EQ(word, 0u);
    for (const uint64_t word : memory->after) EXPECT_EQ(word, 0u);
  }

  /// Writes a packet of `bytes` bytes of value `mark`.
  bool write(uint32_t bytes, uint8_t mark) {
    const CaptureRecord record{.unix_ns = mark,
                               .packet_bytes = 2 * bytes,
                               .captured_bytes = bytes,
                               .direction = CaptureDirection::kSent,
                               .reserved = 0};
    if (!producer.try_begin(record)) return false;
    const std::vector<uint8_t> content(bytes, mark);
    producer.append(std::span(content).first(bytes / 2));
    producer.append(std::span(content).subspan(bytes / 2));
    producer.end();
    return true;
  }
  bool write_and_publish(uint32_t bytes, uint8_t mark) {
    const bool is_written = write(bytes, mark);
    producer.publish(producer.position());
    return is_written;
  }
  void expect(uint32_t bytes, uint8_t mark) {
    ASSERT_TRUE(consumer.try_take(packet));
    EXPECT_EQ(packet.record.unix_ns, mark);
    EXPECT_EQ(packet.record.packet_bytes, 2 * bytes);
    EXPECT_EQ(packet.record.direction, CaptureDirection::kSent);
    EXPECT_EQ(packet.bytes, std::vector<uint8_t>(bytes, mark));
  }
  /// Packets of 60 KiB that fit.
  size_t fill() {
    size_t count = 0;
    while (write_and_publish(60 << 10, static_cast<uint8_t>(count))) ++count;
    return count;
  }

  std::unique_ptr<GuardedRing> memory = std::make_unique<GuardedRing>();
  CaptureRing& ring = memory->ring;
  CaptureProducer producer{ring};
  CaptureConsumer consumer{ring};
  CapturedPacket packet;
};

TEST_F(CaptureRingTest, KeepsPacketsOfAnyLengthInOrderThroughManyRounds) {
  uint32_t bytes = 0;
  for (uint32_t round = 0; round < 20'000; ++round) {
    bytes = (bytes * 31 + 7) % 9000;
    ASSERT_TRUE(write_and_publish(bytes, static_cast<uint8_t>(round)));
    expect(bytes, static_cast<uint8_t>(round));
  }
  EXPECT_GT(producer.position(), 4 * kCaptureRingBytes);
  EXPECT_FALSE(consumer.try_take(packet));
}

TEST_F(CaptureRingTest, AFullRingRefusesUntilThereIsRoom) {
  const size_t count = fill();
  EXPECT_EQ(count, kCaptureRingBytes / capture_bytes_of(60 << 10));
  expect(60 << 10, 0);
  EXPECT_TRUE(write_and_publish(60 << 10, 77));
  EXPECT_FALSE(write_and_publish(60 << 10, 78));
  for (size_t i = 1; i < count; ++i) expect(60 << 10, static_cast<uint8_t>(i));
  expect(60 << 10, 77);
  EXPECT_FALSE(consumer.try_take(packet));
}

TEST_F(CaptureRingTest, WhatIsNotPublishedIsNotSeenAndIsTakenBack) {
  ASSERT_TRUE(write(100, 1));
  const uint64_t behind_the_first = producer.position();
  ASSERT_TRUE(write(100, 2));
  EXPECT_FALSE(consumer.try_take(packet));
  producer.publish(behind_the_first);
  expect(100, 1);
  EXPECT_FALSE(consumer.try_take(packet));
  ASSERT_TRUE(write_and_publish(60, 3));
  expect(60, 3);
}

TEST_F(CaptureRingTest, ALyingReaderGetsNothingMoreAndMovesNothing) {
  const std::vector<uint64_t> lies = {producer.position() + 1, UINT64_MAX, UINT64_MAX - 7,
                                      kCaptureRingBytes * 1000, uint64_t{1} << 63};
  fill();
  const uint64_t full = producer.position();
  for (const uint64_t lie : lies) {
    ring.head.store(lie, std::memory_order_relaxed);
    ring.tail.store(lie * 3, std::memory_order_relaxed);  // nobody reads it
    if (lie <= full) continue;                            // a head that may be true
    EXPECT_FALSE(write_and_publish(60 << 10, 9)) << lie;
    EXPECT_EQ(producer.position(), full);
  }
  // Even a head that runs back and forth makes no write outside of the ring.
  for (uint64_t i = 0; i < 20'000; ++i) {
    ring.head.store(i * 0x9e3779b97f4a7c15, std::memory_order_relaxed);
    if (i % 3 == 0) ring.head.store(producer.position() - i % 4096, std::memory_order_relaxed);
    write(static_cast<uint32_t>(i % 2000), static_cast<uint8_t>(i));
    producer.publish(i % 5 == 0 ? producer.published() : producer.position());
  }
  EXPECT_GT(producer.position(), full);
}

TEST_F(CaptureRingTest, TheToolBelievesNoRecordThatDoesNotFit) {
  ASSERT_TRUE(write_and_publish(100, 1));
  auto* record = reinterpret_cast<CaptureRecord*>(ring.bytes);
  record->captured_bytes = 105;  // more than was published
  EXPECT_FALSE(consumer.try_take(packet));
  EXPECT_TRUE(consumer.is_broken());
  for (const uint64_t tail : {uint64_t{8}, kCaptureRingBytes + 8, UINT64_MAX}) {
    CaptureConsumer other(ring);
    ring.tail.store(tail, std::memory_order_relaxed);
    EXPECT_FALSE(other.try_take(packet));
    EXPECT_TRUE(other.is_broken()) << tail;
  }
}

TEST_F(CaptureRingTest, CountsWhatWasDropped) {
  producer.add_dropped(2);
  ring.dropped.store(0, std::memory_order_relaxed);  // the reader's lie
  producer.add_dropped(3);
  EXPECT_EQ(consumer.dropped(), 5u);
}

TEST_F(CaptureRingTest, OneThreadWritesWhileAnotherReads) {
  constexpr uint32_t kPackets = 50'000;
  std::thread writer([this] {
    for (uint32_t i = 0; i < kPackets; ++i) {
      while (!write_and_publish(i % 1500, static_cast<uint8_t>(i))) std::this_thread::yield();
    }
  });
  for (uint32_t i = 0; i < kPackets; ++i) {
    while (!consumer.try_take(packet)) std::this_thread::yield();
    ASSERT_EQ(packet.bytes, std::vector<uint8_t>(i % 1500, static_cast<uint8_t>(i)));
  }
  writer.join();
  EXPECT_FALSE(consumer.is_broken());
}

}  // namespace
}  // namespace lyre::channel
