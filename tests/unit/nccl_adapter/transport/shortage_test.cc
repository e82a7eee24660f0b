#include "nccl_adapter/transport/shortage.h"

#include <gtest/gtest.h>

#include "nccl_adapter/limits.h"

namespace lyre::nccl_adapter {
namespace {

TEST(Shortage, IsDeclaredAgainWhenWhatWasGivenBackCouldShow) {
  Shortage shortage;
  EXPECT_EQ(shortage.declared(), 0u);
  EXPECT_TRUE(shortage.declare(0));
  EXPECT_FALSE(shortage.declare(kRedialNsMax - 1)) << "another comm of the process";
  EXPECT_EQ(shortage.declared(), 1u);
  EXPECT_TRUE(shortage.declare(kRedialNsMax));
  EXPECT_EQ(shortage.declared(), 2u);
}

TEST(Shortage, AHostIsReachedForAsLongAsCommsNoteIt) {
  Shortage shortage;
  EXPECT_FALSE(shortage.is_reached("a", 0));
  shortage.note_reached("a", 5);
  EXPECT_TRUE(shortage.is_reached("a", 5 + Shortage::kReachedNs));
  EXPECT_FALSE(shortage.is_reached("a", 6 + Shortage::kReachedNs));
  EXPECT_FALSE(shortage.is_reached("b", 5));
}

}  // namespace
}  // namespace lyre::nccl_adapter
