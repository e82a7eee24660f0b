#include "stack/base/checksum.h"

#include <gtest/gtest.h>

#include <vector>

#include "stack/base/rng.h"

namespace lyre {
namespace {

/// RFC 1071 1, word by word as in the text: an independent implementation.
uint16_t slow_sum_host_order(const std::vector<uint8_t>& bytes) {
  uint64_t sum = 0;
  for (size_t at = 0; at < bytes.size(); at += 2) {
    const unsigned low = at + 1 < bytes.size() ? bytes[at + 1] : 0u;
    sum += (unsigned{bytes[at]} << 8) | low;
  }
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(sum);
}

uint16_t to_host_order(uint16_t memory_order) {
  uint8_t bytes[2];
  std::memcpy(bytes, &memory_order, 2);
  return static_cast<uint16_t>((bytes[0] << 8) | bytes[1]);
}

std::vector<uint8_t> random_bytes(Rng& rng, size_t count) {
  std::vector<uint8_t> out(count);
  for (uint8_t& byte : out) byte = static_cast<uint8_t>(rng.next());
  return out;
}

TEST(ChecksumSum, ExampleOfRfc1071Section3) {
  const std::vector<uint8_t> bytes = {0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7};
  ChecksumSum sum;
  sum.add(bytes);
  EXPECT_EQ(to_host_order(sum.fold()), 0xddf2);
  EXPECT_EQ(to_host_order(sum.finish()), 0x220d);
}

TEST(ChecksumSum, EveryLengthAgreesWithTheSlowWay) {
  Rng rng(1);
  for (size_t count = 0; count < 100; ++count) {
    const std::vector<uint8_t> bytes = random_bytes(rng, count);
    ChecksumSum sum;
    sum.add(bytes);
    EXPECT_EQ(to_host_order(sum.fold()), slow_sum_host_order(bytes)) << count << " bytes";
  }
}

TEST(ChecksumSum, PiecesOfAnyLengthSumLikeTheWhole) {
  // RFC 1071 2.B: what follows an odd number of bytes is added byte-swapped.
  Rng rng(2);
  for (int round = 0; round < 200; ++round) {
    const std::vector<uint8_t> bytes = random_bytes(rng, rng.below(300));
    ChecksumSum whole;
    whole.add(bytes);
    ChecksumSum pieces;
    std::span<const uint8_t> rest = bytes;
    while (!rest.empty()) {
      const size_t count = 1 + rng.below(rest.size());
      pieces.add(rest.first(count));
      rest = rest.subspan(count);
    }
    EXPECT_EQ(pieces.fold(), whole.fold()) << "round " << round;
  }
}

TEST(ChecksumSum, ALongRunOfOnesDoesNotOverflow) {
  const std::vector<uint8_t> bytes(1 << 20, 0xff);
  ChecksumSum sum;
  sum.add(bytes);
  EXPECT_EQ(sum.fold(), 0xffff);
  EXPECT_EQ(sum.finish(), 0);
}

TEST(ChecksumSum, SixteenBitValuesAreAddedInNetworkOrder) {
  ChecksumSum by_value;
  by_value.add_u16(0x1234);
  const std::vector<uint8_t> bytes = {0x12, 0x34};
  ChecksumSum by_bytes;
  by_bytes.add(bytes);
  EXPECT_EQ(by_value.fold(), by_bytes.fold());
}

}  // namespace
}  // namespace lyre
