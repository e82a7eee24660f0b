#include "daemon/control/client_log.h"

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include "tests/unit/daemon/captured_log.h"

namespace lyre {
namespace {

constexpr uint32_t kUid = 1000;

uint32_t count_written(ClientLog& log, spdlog::level::level_enum level, uint32_t uid, int asked,
                       Nanos now) {
  uint32_t written = 0;
  for (int i = 0; i < asked; ++i) written += log.may_write(level, uid, now) ? 1 : 0;
  return written;
}

uint32_t count_warnings(ClientLog& log, uint32_t uid, int asked, Nanos now) {
  return count_written(log, spdlog::level::warn, uid, asked, now);
}

uint32_t count_infos(ClientLog& log, uint32_t uid, int asked, Nanos now) {
  return count_written(log, spdlog::level::info, uid, asked, now);
}

TEST(ClientLog, GivesEachUidItsLinesOfEachMinute) {
  const CapturedLog captured;
  ClientLog log(5);
  EXPECT_EQ(count_warnings(log, kUid, 100, seconds(10)), 5u);
  EXPECT_EQ(count_warnings(log, kUid + 1, 3, seconds(10)), 3u);
  EXPECT_EQ(count_warnings(log, kUid, 100, seconds(69)), 0u);
  EXPECT_EQ(count_warnings(log, kUid, 100, seconds(70)), 5u);
}

// A user namespace gives one user thousands of uids.
TEST(ClientLog, KeepsABoundedNumberOfUids) {
  const CapturedLog captured;
  ClientLog log(1);
  uint32_t written = 0;
  for (uint32_t uid = 0; uid < 100'000; ++uid) written += count_warnings(log, uid, 1, seconds(1));
  EXPECT_LT(written, 2000u);
  EXPECT_EQ(count_warnings(log, 200'000, 1, seconds(62)), 1u);
}

// A job that crashed and started again hid why one of its clients was disconnected.
TEST(ClientLog, KeepsAQuarterForWarnings) {
  const CapturedLog captured;
  ClientLog log(240);
  EXPECT_EQ(count_infos(log, kUid, 384, seconds(1)), 180u);
  EXPECT_EQ(count_warnings(log, kUid, 100, seconds(2)), 60u);
  EXPECT_EQ(captured.count("180 lines within a minute, further ones of level info are left out"),
            1u);
  EXPECT_EQ(captured.count("240 lines within a minute, further ones are left out"), 1u);
  EXPECT_EQ(count_infos(log, kUid, 1, seconds(61)), 1u);
  EXPECT_TRUE(captured.has("244 lines were left out, 40 of them warnings")) << captured.text();
}

TEST(ClientLog, WarningsMayUseAllLines) {
  const CapturedLog captured;
  ClientLog log(240);
  EXPECT_EQ(count_warnings(log, kUid, 300, seconds(1)), 240u);
  EXPECT_EQ(count_infos(log, kUid, 300, seconds(1)), 0u);
  EXPECT_EQ(captured.count("lines within a minute"), 1u) << captured.text();
}

TEST(ClientLog, DoesNotCountWhatTheLevelLeavesOut) {
  const CapturedLog captured;
  spdlog::default_logger()->set_level(spdlog::level::warn);
  ClientLog log(240);
  EXPECT_EQ(count_infos(log, kUid, 1000, seconds(1)), 0u);
  EXPECT_EQ(captured.text(), "");
  EXPECT_EQ(count_warnings(log, kUid, 300, seconds(1)), 240u);
}

}  // namespace
}  // namespace lyre
