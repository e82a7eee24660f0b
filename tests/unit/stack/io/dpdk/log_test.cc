#include "stack/io/dpdk/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rte_log.h>

namespace lyre::io::dpdk {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

struct LogTest : ::testing::Test {
  std::vector<std::pair<LogPriority, std::string>> lines;

  LogTest() {
    redirect_log([this](LogPriority priority, std::string_view line) {
      lines.emplace_back(priority, line);
    });
  }
  ~LogTest() override { redirect_log({}); }
};

TEST_F(LogTest, ALineWrittenInPartsIsOneLine) {
  rte_log(RTE_LOG_ERR, RTE_LOGTYPE_EAL, "one ");
  rte_log(RTE_LOG_ERR, RTE_LOGTYPE_EAL, "line\ntwo\n");
  EXPECT_THAT(lines,
              ElementsAre(Pair(LogPriority::kError, "one line"), Pair(LogPriority::kError, "two")));
}

TEST_F(LogTest, WhatSucceedsIsLoggedAsItCame) {
  {
    LogQuote said;
    rte_log(RTE_LOG_WARNING, RTE_LOGTYPE_EAL, "slow\n");
    EXPECT_TRUE(lines.empty());
  }
  EXPECT_THAT(lines, ElementsAre(Pair(LogPriority::kWarning, "slow")));
}

/// One error of a port is one line, whatever its driver says.
TEST_F(LogTest, TheFirstErrorIsTheCauseAndTheOthersAreDetails) {
  {
    LogQuote said;
    rte_log(RTE_LOG_WARNING, RTE_LOGTYPE_EAL, "odd\n");
    rte_log(RTE_LOG_ERR, RTE_LOGTYPE_EAL, "probe(): no socket\n");
    rte_log(RTE_LOG_ERR, RTE_LOGTYPE_EAL, "EAL: cannot attach\n");
    EXPECT_EQ(said.cause("unknown"), "no socket");
  }
  EXPECT_THAT(lines, ElementsAre(Pair(LogPriority::kDebug, "odd"),
                                 Pair(LogPriority::kDebug, "probe(): no socket"),
                                 Pair(LogPriority::kDebug, "EAL: cannot attach")));
}

TEST_F(LogTest, WithoutALineTheFallbackIsTheCause) {
  LogQuote said;
  EXPECT_EQ(said.cause("Operation not permitted"), "Operation not permitted");
}

TEST_F(LogTest, ALineOfThisProgramIsGivenToTheSink) {
  log_line(LogPriority::kWarning, "busy");
  EXPECT_THAT(lines, ElementsAre(Pair(LogPriority::kWarning, "busy")));
}

TEST_F(LogTest, TheFirstErrorOfWhatSucceedsIsKnown) {
  {
    LogQuote said;
    EXPECT_EQ(said.first_error(), "");
    rte_log(RTE_LOG_WARNING, RTE_LOGTYPE_EAL, "odd\n");
    rte_log(RTE_LOG_ERR, RTE_LOGTYPE_EAL, "probe(): no device\n");
    EXPECT_EQ(said.first_error(), "no device");
  }
  EXPECT_THAT(lines, ElementsAre(Pair(LogPriority::kWarning, "odd"),
                                 Pair(LogPriority::kError, "probe(): no device")));
}

TEST(WithoutOrigin, CutsTheFunctionAndTheLibrary) {
  EXPECT_EQ(without_origin("EAL: no device"), "no device");
  EXPECT_EQ(without_origin("open_it(): no device"), "no device");
  EXPECT_EQ(without_origin("call open_it(): no device"), "call open_it(): no device");
}

}  // namespace
}  // namespace lyre::io::dpdk
