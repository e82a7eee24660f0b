#include "nccl_adapter/protocol/frame.h"

#include <gtest/gtest.h>

#include <vector>

#include "nccl_adapter/protocol/queue_pair_terms.h"

namespace lyre::nccl_adapter {
namespace {

using Bytes = std::array<uint8_t, kFrameHeaderBytes>;

Bytes encoded(const FrameHeader& header) {
  Bytes bytes;
  encode(header, bytes);
  return bytes;
}

bool is_taken(const FrameHeader& header) {
  FrameHeader out;
  return decode(encoded(header), &out) && out == header;
}

TEST(Frame, EveryTypeSurvivesTheWire) {
  EXPECT_TRUE(is_taken({FrameType::kData, 100, 7, 300, 200}));
  EXPECT_TRUE(is_taken({FrameType::kData, 0, 7, 0, 0}));
  EXPECT_TRUE(is_taken({FrameType::kGrant, 0, 3, 0, 9}));
  EXPECT_TRUE(is_taken({FrameType::kPing, 0, 0, 0, 0}));
  EXPECT_TRUE(is_taken({FrameType::kBye, 0, 0, 0, 0}));
  EXPECT_TRUE(is_taken({FrameType::kFail, kSmallPayloadBytesMax, 1, 0, 0}));
  for (const FrameType type : {FrameType::kOffer, FrameType::kAccept}) {
    EXPECT_TRUE(is_taken({type, kQueuePairTermsBytes, 0, 0, 1}));
    EXPECT_TRUE(is_taken({type, kSmallPayloadBytesMax, UINT16_MAX, 0, UINT32_MAX}));
  }
  EXPECT_TRUE(is_taken({FrameType::kDecline, 0, 3, 0, 9}));
  EXPECT_TRUE(is_taken({FrameType::kDecline, kSmallPayloadBytesMax, 3, 0, 9}));
  EXPECT_TRUE(is_taken({FrameType::kCredit, 0, UINT64_MAX, 0, 0}));
  EXPECT_TRUE(is_taken({FrameType::kPlace, UINT32_MAX, 7, 1, UINT64_MAX - 1}));
  EXPECT_TRUE(is_taken({FrameType::kWritten, 100, 7, 300, 200}));
}

TEST(Frame, LengthsThatLieAreRefused) {
  EXPECT_FALSE(is_taken({FrameType::kData, 101, 7, 300, 200}));
  EXPECT_FALSE(is_taken({FrameType::kData, 1, 7, 300, 301}));
  EXPECT_FALSE(is_taken({FrameType::kData, 1, 7, 300, UINT64_MAX}));
  EXPECT_FALSE(is_taken({FrameType::kData, 0, 7, 300, 100}));  // would never end
  EXPECT_FALSE(is_taken({FrameType::kData, kFrameBytesMax + 1, 7, UINT64_MAX, 0}));
  EXPECT_FALSE(is_taken({FrameType::kGrant, 1, 3, 0, 9}));
  EXPECT_FALSE(is_taken({FrameType::kGrant, 0, 9, 0, 3}));  // placed more than posted
  EXPECT_FALSE(is_taken({FrameType::kPing, 1, 0, 0, 0}));
  EXPECT_FALSE(is_taken({FrameType::kFail, kSmallPayloadBytesMax + 1, 0, 0, 0}));
  for (const FrameType type : {FrameType::kOffer, FrameType::kAccept}) {
    EXPECT_FALSE(is_taken({type, kQueuePairTermsBytes - 1, 0, 0, 1}));
    EXPECT_FALSE(is_taken({type, kSmallPayloadBytesMax + 1, 0, 0, 1}));
  }
  EXPECT_FALSE(is_taken({FrameType::kDecline, kSmallPayloadBytesMax + 1, 3, 0, 9}));
  EXPECT_FALSE(is_taken({FrameType::kCredit, 1, 3, 0, 9}));
  EXPECT_FALSE(is_taken({FrameType::kPlace, 1, 7, 0, 4096}));
  EXPECT_FALSE(is_taken({FrameType::kPlace, 1, 7, 2, UINT64_MAX - 1}));
  EXPECT_FALSE(is_taken({FrameType::kWritten, 101, 7, 300, 200}));
  EXPECT_FALSE(is_taken({FrameType::kWritten, 0, 7, 0, 0}));
  EXPECT_FALSE(is_taken({FrameType::kWritten, kFrameBytesMax + 1, 7, UINT64_MAX, 0}));
}

TEST(Frame, AQueuePairHasALaneAndAnIncarnation) {
  for (const FrameType type : {FrameType::kOffer, FrameType::kAccept, FrameType::kDecline}) {
    EXPECT_FALSE(is_taken({type, kQueuePairTermsBytes, UINT16_MAX + 1, 0, 1}));
    EXPECT_FALSE(is_taken({type, kQueuePairTermsBytes, 0, 0, 0}));
    EXPECT_FALSE(is_taken({type, kQueuePairTermsBytes, 0, 0, uint64_t{UINT32_MAX} + 1}));
  }
}

TEST(Frame, UnknownTypesAreRefused) {
  EXPECT_FALSE(is_taken({static_cast<FrameType>(0), 0, 0, 0, 0}));
  EXPECT_FALSE(is_taken({static_cast<FrameType>(99), 0, 0, 0, 0}));
  Bytes bytes = encoded({FrameType::kPing, 0, 0, 0, 0});
  bytes[2] = 1;  // the type's upper bytes
  FrameHeader out;
  EXPECT_FALSE(decode(bytes, &out));
}

TEST(FrameReader, HeaderMayComeInPieces) {
  const Bytes bytes = encoded({FrameType::kData, 3, 1, 10, 4});
  FrameReader reader;
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::span<const uint8_t> one(&bytes[i], 1);
    EXPECT_EQ(reader.take_header(&one), i + 1 == bytes.size());
    EXPECT_TRUE(one.empty());
  }
  EXPECT_EQ(reader.state(), FrameReader::State::kPayload);
  EXPECT_EQ(reader.payload_left(), 3u);
  EXPECT_EQ(reader.payload_offset(), 4u);
  reader.payload_taken(2);
  EXPECT_EQ(reader.payload_offset(), 6u);
  reader.payload_taken(1);
  reader.finish();
  EXPECT_EQ(reader.state(), FrameReader::State::kHeader);
}

TEST(FrameReader, NothingFollowsWhatIsAboutWrites) {
  for (const FrameType type : {FrameType::kPlace, FrameType::kWritten}) {
    const Bytes bytes = encoded({type, 3, 1, 10, 4});
    FrameReader reader;
    std::span<const uint8_t> in(bytes);
    EXPECT_TRUE(reader.take_header(&in));
    EXPECT_EQ(reader.payload_left(), 0u);
  }
}

TEST(FrameReader, TakesNoMoreThanTheHeader) {
  std::vector<uint8_t> bytes(kFrameHeaderBytes + 5);
  encode({.type = FrameType::kPing}, std::span<uint8_t, kFrameHeaderBytes>(bytes.data(), 32));
  FrameReader reader;
  std::span<const uint8_t> in(bytes);
  EXPECT_TRUE(reader.take_header(&in));
  EXPECT_EQ(in.size(), 5u);
}

TEST(FrameReader, StaysBroken) {
  const Bytes zeros{};
  FrameReader reader;
  std::span<const uint8_t> in(zeros);
  EXPECT_FALSE(reader.take_header(&in));
  EXPECT_EQ(reader.state(), FrameReader::State::kBroken);
}

}  // namespace
}  // namespace lyre::nccl_adapter
