#include "nccl_adapter/protocol/queue_pair_terms.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace lyre::nccl_adapter {
namespace {

QueuePairTerms good_terms() {
  return {.number = 0x123456,
          .first_psn = 0xffffff,
          .gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 1},
          .mtu_bytes = 1024,
          .slots = 16,
          .slot_bytes = 65536,
          .modes = kModeSend | kModeWrite};
}

std::vector<uint8_t> encoded_terms(const QueuePairTerms& terms) {
  std::vector<uint8_t> bytes(kQueuePairTermsBytes);
  encode(terms, std::span<uint8_t, kQueuePairTermsBytes>(bytes.data(), bytes.size()));
  return bytes;
}

bool are_taken(const QueuePairTerms& terms) {
  QueuePairTerms out;
  return decode(encoded_terms(terms), &out) && out == terms;
}

TEST(QueuePairTerms, SurviveTheWire) { EXPECT_TRUE(are_taken(good_terms())); }

TEST(QueuePairTerms, OfALaterVersionMayBeLonger) {
  std::vector<uint8_t> bytes = encoded_terms(good_terms());
  bytes.resize(bytes.size() + 16, 0xff);
  QueuePairTerms out;
  EXPECT_TRUE(decode(bytes, &out));
  EXPECT_EQ(out, good_terms());
  QueuePairTerms newer = good_terms();
  newer.modes = kModeSend | 1u << 31;
  EXPECT_TRUE(are_taken(newer));
}

TEST(QueuePairTerms, ThatAreTooShortAreRefused) {
  const std::vector<uint8_t> bytes = encoded_terms(good_terms());
  QueuePairTerms out;
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(decode(std::span(bytes).first(length), &out)) << length;
  }
}

TEST(QueuePairTerms, OutsideOfTheirRangesAreRefused) {
  const auto is_taken_with = [](auto member, auto value) {
    QueuePairTerms terms = good_terms();
    terms.*member = value;
    return are_taken(terms);
  };
  for (const uint32_t number : {0u, 1u << 24, UINT32_MAX}) {
    EXPECT_FALSE(is_taken_with(&QueuePairTerms::number, number)) << number;
  }
  EXPECT_FALSE(is_taken_with(&QueuePairTerms::first_psn, 1u << 24));
  EXPECT_FALSE(is_taken_with(&QueuePairTerms::gid, Address{}));
  EXPECT_FALSE(is_taken_with(&QueuePairTerms::gid, Address{0xff, 0x02}));
  for (const uint32_t mtu : {0u, 128u, 1500u, 8192u}) {
    EXPECT_FALSE(is_taken_with(&QueuePairTerms::mtu_bytes, mtu)) << mtu;
  }
  for (const uint32_t slots : {0u, kSlotsMin - 1, kSlotsMax + 1, UINT32_MAX}) {
    EXPECT_FALSE(is_taken_with(&QueuePairTerms::slots, slots)) << slots;
  }
  for (const uint32_t bytes : {0u, kSlotBytesMin - 1, kSlotBytesMax + 1, UINT32_MAX}) {
    EXPECT_FALSE(is_taken_with(&QueuePairTerms::slot_bytes, bytes)) << bytes;
  }
  EXPECT_FALSE(is_taken_with(&QueuePairTerms::modes, uint32_t{kModeWrite}));
  EXPECT_TRUE(is_taken_with(&QueuePairTerms::slots, kSlotsMin));
  EXPECT_TRUE(is_taken_with(&QueuePairTerms::slot_bytes, kSlotBytesMax));
}

}  // namespace
}  // namespace lyre::nccl_adapter
