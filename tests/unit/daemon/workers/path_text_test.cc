#include "daemon/workers/path_text.h"

#include <gtest/gtest.h>

#include <vector>

namespace lyre {
namespace {

TEST(PathText, IsFetchedInPiecesFromTheFirstByteToTheLastAndAgain) {
  const std::vector<std::byte> bytes(2 * PathText::kBytesAtOnce + 100);
  PathText text(bytes);
  for (int round = 0; round < 3; ++round) {
    size_t fetched = 0;
    while (fetched < bytes.size()) {
      const std::span<const std::byte> piece = text.next();
      ASSERT_FALSE(piece.empty());
      EXPECT_LE(piece.size(), PathText::kBytesAtOnce);
      EXPECT_EQ(piece.data(), bytes.data() + fetched);
      fetched += piece.size();
      text.fetch_some();
    }
    EXPECT_EQ(fetched, bytes.size());
  }
}

TEST(PathText, NothingIsFetchedOfAProgramWithoutIt) {
  PathText text({});
  text.fetch_some();
  EXPECT_TRUE(text.next().empty());
}

}  // namespace
}  // namespace lyre
