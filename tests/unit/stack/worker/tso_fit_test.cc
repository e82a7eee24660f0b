#include "stack/worker/tso_fit.h"

#include <gtest/gtest.h>

#include <vector>

namespace lyre::worker {
namespace {

constexpr uint32_t kPages = 0;       // a region in pages of 4 KiB
constexpr uint32_t kWhole = 1;       // one that is contiguous for ports
constexpr uint32_t kUnreadable = 2;  // one that ports cannot read
constexpr uint32_t kSegmentBytes[] = {4096, UINT32_MAX, 0};
constexpr uint32_t kMss = 1448;

BufRef piece(uint32_t region, uint64_t offset, uint32_t length) {
  return {.region = region, .length = length, .offset = offset};
}
uint32_t fits(const std::vector<BufRef>& pieces, SegmentLimits limits) {
  return tso_payload_that_fits(pieces, kSegmentBytes, kMss, limits);
}

TEST(TsoFit, WithoutLimitsEverythingFits) {
  EXPECT_EQ(fits({piece(kPages, 100, 65'000)}, {}), 65'000u);
  EXPECT_EQ(fits({}, {}), 0u);
}

TEST(TsoFit, APieceTakesASegmentForEachPageItTouches) {
  // Headers, and 15 pages.
  EXPECT_EQ(fits({piece(kPages, 0, 15 * 4096)}, {.packet_max = 16}), 15u * 4096);
  EXPECT_EQ(fits({piece(kPages, 0, 15 * 4096 + 1)}, {.packet_max = 16}), 15 * 4096 / kMss * kMss);
  EXPECT_EQ(fits({piece(kPages, 4095, 14 * 4096)}, {.packet_max = 16}), 14u * 4096);
  EXPECT_EQ(fits({piece(kPages, 4095, 15 * 4096)}, {.packet_max = 16}),
            (1 + 14 * 4096) / kMss * kMss);
}

TEST(TsoFit, ContiguousMemoryIsOneSegmentAPiece) {
  const std::vector<BufRef> three(3, piece(kWhole, 5, 20'000));
  EXPECT_EQ(fits(three, {.packet_max = 4}), 60'000u);
  EXPECT_EQ(fits(three, {.packet_max = 3}), 40'000 / kMss * kMss);
}

TEST(TsoFit, EachCutHasALimitOfItsOwn) {
  // The second cut consists of seven pieces, and has headers.
  std::vector<BufRef> pieces{piece(kWhole, 0, kMss)};
  for (int i = 0; i < 7; ++i) pieces.push_back(piece(kWhole, 0, 200));
  pieces.push_back(piece(kWhole, 0, 10'000));
  EXPECT_EQ(fits(pieces, {.cut_max = 9}), kMss + 7 * 200 + 10'000);
  EXPECT_EQ(fits(pieces, {.cut_max = 8}), kMss);
}

TEST(TsoFit, NothingFitsWhereTheFirstCutDoesNot) {
  const std::vector<BufRef> small(6, piece(kWhole, 0, 100));
  EXPECT_EQ(fits(small, {.cut_max = 4}), 0u);
  EXPECT_EQ(fits({piece(kUnreadable, 0, 60'000)}, {}), 0u);
  EXPECT_EQ(fits({piece(kWhole, 0, 2000), piece(kUnreadable, 0, 60'000)}, {}), kMss);
}

TEST(TsoFit, PiecesAreShortened) {
  std::vector<BufRef> pieces(3, piece(kWhole, 7, 100));
  EXPECT_EQ(shorten_pieces(pieces, 300), 3u);
  EXPECT_EQ(shorten_pieces(pieces, 200), 2u);
  EXPECT_EQ(shorten_pieces(pieces, 101), 2u);
  EXPECT_EQ(pieces[1].length, 1u);
  EXPECT_EQ(shorten_pieces(pieces, 0), 0u);
}

}  // namespace
}  // namespace lyre::worker
