#include "daemon/control/client_log.h"

#include <gtest/gtest.h>

namespace lyre {
namespace {

constexpr uint32_t kUid = 1000;

uint32_t count_written(ClientLog& log, uint32_t uid, int asked, Nanos now) {
  uint32_t written = 0;
  for (int i = 0; i < asked; ++i) written += log.may_write(uid, now) ? 1 : 0;
  return written;
}

TEST(ClientLog, GivesEachUidItsLinesOfEachMinute) {
  ClientLog log(5);
  EXPECT_EQ(count_written(log, kUid, 100, seconds(10)), 5u);
  EXPECT_EQ(count_written(log, kUid + 1, 3, seconds(10)), 3u);
  EXPECT_EQ(count_written(log, kUid, 100, seconds(69)), 0u);
  EXPECT_EQ(count_written(log, kUid, 100, seconds(70)), 5u);
}

// A user namespace gives one user thousands of uids.
TEST(ClientLog, KeepsABoundedNumberOfUids) {
  ClientLog log(1);
  uint32_t written = 0;
  for (uint32_t uid = 0; uid < 100'000; ++uid) written += count_written(log, uid, 1, seconds(1));
  EXPECT_LT(written, 2000u);
  EXPECT_EQ(count_written(log, 200'000, 1, seconds(62)), 1u);
}

}  // namespace
}  // namespace lyre
