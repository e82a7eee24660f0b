#include "nccl_adapter/transport/stream.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "nccl_adapter/protocol/frame.h"
#include "tests/sim/adapter/lyre_api.h"
#include "tests/unit/nccl_adapter/support/connected_hosts.h"

namespace lyre::nccl_adapter {
namespace {

using StreamBytes = std::vector<uint8_t>;

StreamBytes counted_bytes(size_t count) {
  StreamBytes bytes(count);
  std::iota(bytes.begin(), bytes.end(), uint8_t{1});
  return bytes;
}

class StreamTest : public ConnectedHosts {
 protected:
  explicit StreamTest(const adapter_sim::NetworkSettings& settings = {.hosts = 2, .rails = 2})
      : ConnectedHosts(settings), near_(connect()) {}

  /// Takes all that the other end has received; what the last peek() said goes to `end`.
  StreamBytes take_all(Io* end = nullptr) {
    StreamBytes taken;
    std::span<const uint8_t> bytes;
    Io io = far_.peek(&bytes);
    for (; io == Io::kOk; io = far_.peek(&bytes)) {
      taken.insert(taken.end(), bytes.begin(), bytes.end());
      far_.consume(bytes.size());
    }
    far_.release();
    if (end != nullptr) *end = io;
    return taken;
  }
  StreamBytes receive(size_t count) {
    StreamBytes received;
    until([&] {
      (void)near_.flush();
      const StreamBytes more = take_all();
      received.insert(received.end(), more.begin(), more.end());
      return received.size() >= count;
    });
    return received;
  }
  static Chunk frame(const StreamBytes& payload, lyre_region* region = nullptr) {
    return {.header = {.type = FrameType::kData,
                       .bytes = static_cast<uint32_t>(payload.size()),
                       .message_bytes = payload.size()},
            .data = payload.data(),
            .region = region};
  }

  Stream near_;
};

TEST_F(StreamTest, SmallSendsArriveInOrderAndAreCounted) {
  EXPECT_EQ(near_.send_small(StreamBytes{1, 2}), Io::kOk);
  EXPECT_EQ(near_.send_small(StreamBytes{3}), Io::kOk);
  EXPECT_EQ(receive(3), (StreamBytes{1, 2, 3}));
  EXPECT_EQ(near_.sent_bytes(), 3u);
  EXPECT_TRUE(until([&] { return near_.unacked_bytes() == 0; }));
}

TEST_F(StreamTest, AFrameIsItsHeaderAndThePayloadBehindIt) {
  const StreamBytes payload = counted_bytes(100);
  const uint64_t copied_before = adapter_sim::copied_tx_bytes();
  ASSERT_EQ(near_.send_chunk(frame(payload)), Io::kOk);
  const StreamBytes received = receive(kFrameHeaderBytes + payload.size());
  FrameHeader header;
  ASSERT_TRUE(decode(
      std::span<const uint8_t, kFrameHeaderBytes>(received.data(), kFrameHeaderBytes), &header));
  EXPECT_EQ(header, frame(payload).header);
  EXPECT_EQ(StreamBytes(received.begin() + kFrameHeaderBytes, received.end()), payload);
  EXPECT_EQ(adapter_sim::copied_tx_bytes() - copied_before, payload.size());
}

TEST_F(StreamTest, PayloadInARegionIsNotCopied) {
  const StreamBytes payload = counted_bytes(kZeroCopyBytesMin);
  lyre_region* region = nullptr;
  ASSERT_EQ(lyre_register(here().context(), payload.data(), payload.size(), &region), 0);
  const uint64_t copied_before = adapter_sim::copied_tx_bytes();
  ASSERT_EQ(near_.send_chunk(frame(payload, region)), Io::kOk);
  const StreamBytes received = receive(kFrameHeaderBytes + payload.size());
  EXPECT_EQ(StreamBytes(received.begin() + kFrameHeaderBytes, received.end()), payload);
  EXPECT_EQ(adapter_sim::copied_tx_bytes(), copied_before);
  near_.abort();
  lyre_deregister(region);
}

TEST_F(StreamTest, WhatTheSessionHasNoRoomForGoesWhenThereIsRoom) {
  const StreamBytes payload = counted_bytes(64 << 10);
  size_t frames = 0;
  while (near_.send_chunk(frame(payload)) == Io::kOk) ++frames;
  ASSERT_GT(frames, 0u);
  const StreamBytes received = receive(frames * (kFrameHeaderBytes + payload.size()));
  EXPECT_EQ(received.size(), frames * (kFrameHeaderBytes + payload.size()));
  EXPECT_FALSE(near_.is_blocked());
  EXPECT_EQ(near_.send_chunk(frame(payload)), Io::kOk);
}

TEST_F(StreamTest, ACloseLetsThePeerTakeEverythingBeforeTheEnd) {
  near_.send_small(StreamBytes{1, 2, 3});
  near_.close();
  EXPECT_FALSE(near_.is_open());
  StreamBytes received;
  Io end = Io::kAgain;
  ASSERT_TRUE(until([&] {
    const StreamBytes more = take_all(&end);
    received.insert(received.end(), more.begin(), more.end());
    return end == Io::kFinished;
  }));
  EXPECT_EQ(received, (StreamBytes{1, 2, 3}));
  EXPECT_EQ(far_.error(), 0);
}

TEST_F(StreamTest, AnAbortIsAnErrorAtThePeer) {
  near_.abort();
  Io end = Io::kAgain;
  ASSERT_TRUE(until([&] { return take_all(&end), end != Io::kAgain; }));
  EXPECT_EQ(end, Io::kFailed);
  EXPECT_EQ(far_.error(), LYRE_E_RESET);
}

TEST_F(StreamTest, AMovedStreamTakesTheSessionAlong) {
  Stream moved(std::move(near_));
  EXPECT_FALSE(near_.is_open());
  ASSERT_TRUE(moved.is_open());
  EXPECT_EQ(moved.send_small(StreamBytes{9}), Io::kOk);
  ASSERT_TRUE(until([&] { return take_all() == StreamBytes{9}; }));
}

}  // namespace
}  // namespace lyre::nccl_adapter
