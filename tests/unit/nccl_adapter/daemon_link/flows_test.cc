#include "nccl_adapter/daemon_link/flows.h"

#include <gtest/gtest.h>

namespace lyre::nccl_adapter {
namespace {

TEST(Flows, FillThePort) {
  EXPECT_EQ(flows_that_fill(10'000, 0), 1u);
  EXPECT_EQ(flows_that_fill(25'000, 0), 3u);
  EXPECT_EQ(flows_that_fill(25'000, 5'000), 5u);
  EXPECT_EQ(flows_that_fill(12'000, 5'000), 3u);
  EXPECT_EQ(flows_that_fill(1'000, 5'000), 1u);
}

TEST(Flows, AreAsManyAsAreMadeWhereOnlyTheirLimitIsKnown) {
  EXPECT_EQ(flows_that_fill(0, 5'000), kStreamsAutoMax);  // ENA
  EXPECT_EQ(flows_that_fill(0, 0), 0u) << "chosen by workers";
}

}  // namespace
}  // namespace lyre::nccl_adapter
