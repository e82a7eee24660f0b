#include "daemon/base/shared_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

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

TEST(SharedMemory, IsTakenBackWhenNoOtherProcessHasItOpen) {
  auto memory = SharedMemory::create("lyre-test", 1 << 20, SharedWith::kWriters);
  ASSERT_TRUE(memory.ok()) << memory.error().text;
  ASSERT_TRUE(can_be_taken_back(memory->fd()));
  auto other = reopen(memory->fd());
  ASSERT_TRUE(other.ok()) << other.error().text;
  EXPECT_FALSE(take_back(memory->fd()));
  auto reader = reopen_read_only(memory->fd());
  ASSERT_TRUE(reader.ok()) << reader.error().text;
  other->reset();
  EXPECT_FALSE(take_back(memory->fd()));
  reader->reset();
  EXPECT_TRUE(take_back(memory->fd()));
  // Nobody can open it any more. Who tries does not end this process.
  const std::string path = "/proc/self/fd/" + std::to_string(memory->fd());
  EXPECT_FALSE(OwnedFd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK)).is_open());
  EXPECT_EQ(errno, EAGAIN);
  memory->data()[5000] = 1;
  free_pages(memory->fd());
  struct stat file {};
  ASSERT_EQ(::fstat(memory->fd(), &file), 0);
  EXPECT_EQ(file.st_blocks, 0);
}

// Older daemons gave their clients the open that they had themselves.
TEST(SharedMemory, OfAnOlderDaemonCannotBeTakenBack) {
  const OwnedFd old(::memfd_create("lyre-test", MFD_CLOEXEC));
  EXPECT_FALSE(can_be_taken_back(old.get()));
  EXPECT_TRUE(reopen(old.get()).ok()) << "nothing is left of the question";
}

}  // namespace
}  // namespace lyre
