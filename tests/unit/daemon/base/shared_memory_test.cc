#include "daemon/base/shared_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "tests/unit/core_dump.h"

namespace lyre {
namespace {

// A crash wrote the arenas of all clients to the disk.
TEST(SharedMemory, ACoreHasWhatOthersReadAndNotWhatClientsWrite) {
  if (!tells_what_a_core_has()) GTEST_SKIP() << "needs VmFlags of /proc/self/smaps";
  constexpr uint64_t kBytes = 3 << 20;  // more than a hugepage
  auto clients = SharedMemory::create("lyre-test", kBytes, SharedWith::kWriters);
  ASSERT_TRUE(clients.ok()) << clients.error().text;
  EXPECT_TRUE(is_left_out_of_core(clients->data()));
  EXPECT_TRUE(is_left_out_of_core(clients->data() + kBytes - 1));
  auto adopted = SharedMemory::adopt(OwnedFd(::fcntl(clients->fd(), F_DUPFD_CLOEXEC, 0)), kBytes);
  ASSERT_TRUE(adopted.ok()) << adopted.error().text;
  EXPECT_TRUE(is_left_out_of_core(adopted->data()));
  auto own = SharedMemory::create("lyre-test", kBytes, SharedWith::kReaders);
  ASSERT_TRUE(own.ok()) << own.error().text;
  EXPECT_FALSE(is_left_out_of_core(own->data()));
}

}  // namespace
}  // namespace lyre
