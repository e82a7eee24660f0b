#include "libclient/unforked_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <semaphore>
#include <string>
#include <thread>
#include <utility>

namespace lyre::client {
namespace {

bool is_number_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

UnforkedFd open_unforked() {
  return UnforkedFd::of([] { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); });
}

/// The exit status of a child that runs `body`.
template <typename Body>
int in_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(UnforkedFdTest, IsClosedInAChildAndOpenInItsParent) {
  const UnforkedFd first = open_unforked();
  const UnforkedFd second = open_unforked();
  const int numbers[] = {first.get(), second.get()};
  EXPECT_EQ(0, in_child([&] {
              for (const int number : numbers) {
                if (is_number_open(number)) return 1;
              }
              return first.is_open() || second.is_open() ? 2 : 0;
            }));
  for (const int number : numbers) EXPECT_TRUE(is_number_open(number));
}

// The child's own file had that number by then.
TEST(UnforkedFdTest, TheCopyOfAChildDoesNotCloseWhatHasItsNumberThere) {
  std::optional<UnforkedFd> fd(open_unforked());
  const int number = fd->get();
  EXPECT_EQ(0, in_child([&] {
              if (::dup2(STDERR_FILENO, number) != number) return 1;
              fd.reset();
              if (!is_number_open(number)) return 2;
              return in_child([&] { return is_number_open(number) ? 0 : 1; }) == 0 ? 0 : 3;
            }));
}

TEST(UnforkedFdTest, AChildHasItsOwn) {
  const UnforkedFd inherited = open_unforked();
  EXPECT_EQ(0, in_child([] {
              UnforkedFd own = open_unforked();
              if (!is_number_open(own.get())) return 1;
              const int number = own.get();
              own = {};
              return is_number_open(number) ? 2 : 0;
            }));
}

TEST(UnforkedFdTest, OneThatWasClosedOrMovedLeavesTheOthers) {
  UnforkedFd first = open_unforked();
  UnforkedFd second = open_unforked();
  UnforkedFd third = open_unforked();
  const int number = second.get();
  second = {};
  EXPECT_FALSE(is_number_open(number));
  UnforkedFd moved = std::move(first);
  const int numbers[] = {moved.get(), third.get()};
  EXPECT_EQ(0, in_child([&] {
              return is_number_open(numbers[0]) || is_number_open(numbers[1]) ? 1 : 0;
            }));
  EXPECT_TRUE(is_number_open(moved.get()));
}

TEST(UnforkedFdTest, OfNothingTellsWhy) {
  const UnforkedFd fd = UnforkedFd::of([] { return ::open("/nonexistent", O_RDONLY); });
  EXPECT_EQ(ENOENT, errno);
  EXPECT_FALSE(fd.is_open());
  EXPECT_EQ(-1, UnforkedFd().get());
}

// A file system that does not answer kept every fork() of the process.
TEST(UnforkedFdTest, AForkDoesNotWaitForAnOpenThatBlocks) {
  std::binary_semaphore is_opening{0};
  std::binary_semaphore may_open{0};
  std::thread other([&] {
    UnforkedFd::of([&] {
      is_opening.release();
      may_open.acquire();
      return -1;
    });
  });
  is_opening.acquire();
  EXPECT_EQ(0, in_child([] { return 0; }));
  may_open.release();
  other.join();
}

// Such a child would keep the lock of the file.
TEST(UnforkedFdTest, AChildOfAForkBesideAnOpenDoesNotShareTheFile) {
  char path[] = "/tmp/lyre-unforked-XXXXXX";
  const int made = ::mkstemp(path);
  ASSERT_GE(made, 0);
  ::close(made);
  pid_t child = -1;
  int opens = 0;
  UnforkedFd fd = UnforkedFd::of([&] {
    const int opened = ::open(path, O_RDWR | O_CLOEXEC);
    if (++opens > 1) return opened;
    child = ::fork();
    if (child == 0) {
      ::pause();
      ::_exit(0);
    }
    return opened;
  });
  EXPECT_EQ(opens, 2);
  ASSERT_EQ(::flock(fd.get(), LOCK_EX | LOCK_NB), 0);
  fd = {};
  const int again = ::open(path, O_RDWR | O_CLOEXEC);
  EXPECT_EQ(::flock(again, LOCK_EX | LOCK_NB), 0);
  ::close(again);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::unlink(path);
}

TEST(UnforkedFdTest, WhereEachOpenMeetsAForkTheLastOneIsTaken) {
  int opens = 0;
  const UnforkedFd fd = UnforkedFd::of([&] {
    ++opens;
    EXPECT_EQ(0, in_child([] { return 0; }));
    return ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  });
  EXPECT_EQ(opens, UnforkedFd::kOpensMax);
  EXPECT_TRUE(is_number_open(fd.get()));
}

TEST(UnforkedFdTest, AForkBesideAThreadThatOpensLeavesTheChildAbleToOpen) {
  std::atomic<bool> is_over{false};
  std::thread other([&] {
    while (!is_over.load()) open_unforked();
  });
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(0, in_child([] {
                ::alarm(30);  // a lock that nobody gives back
                return open_unforked().is_open() ? 0 : 1;
              }));
  }
  is_over.store(true);
  other.join();
}

}  // namespace
}  // namespace lyre::client
