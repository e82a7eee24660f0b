#include "machine/scheduling.h"

#include <gtest/gtest.h>

namespace lyre::machine {
namespace {

TEST(RunnableThreads, AreTheFirstNumberOfTheFourthWord) {
  EXPECT_EQ(runnable_threads("1.03 2.56 2.62 3/75 23485\n"), 3u);
  EXPECT_EQ(runnable_threads("0.00 0.01 0.05 17/1024 9"), 17u);
}

TEST(RunnableThreads, OfAnotherTextAreNotKnown) {
  for (const char* text :
       {"", "1.03 2.56 2.62", "1.03 2.56 2.62 3", "1.03 2.56 2.62 x/75 1", "a b c -1/2"}) {
    EXPECT_FALSE(runnable_threads(text)) << text;
  }
}

}  // namespace
}  // namespace lyre::machine
