#include "daemon/memory/foreign_closer.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <system_error>
#include <thread>
#include <utility>

#include "tests/support/deadline.h"

namespace lyre {
namespace {

constexpr uint64_t kFirstUser = 100;
constexpr uint64_t kSecondUser = 200;

/// A system that gives a thread only while `has_threads`.
class ForeignCloserTest : public ::testing::Test {
 protected:
  void close_one(uint64_t user) { closer_.close(OwnedFd(::eventfd(0, EFD_CLOEXEC)), user); }
  bool becomes_closed() {
    const test::Deadline deadline;
    while (waiting() > 0 && !deadline.is_over()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return waiting() == 0;
  }
  size_t waiting() const {
    return closer_.waiting_count(kFirstUser) + closer_.waiting_count(kSecondUser);
  }

  bool has_threads_ = false;
  ForeignCloser closer_{[this](std::function<void()> run) {
    if (!has_threads_) throw std::system_error(EAGAIN, std::generic_category());
    std::thread(std::move(run)).detach();
  }};
};

// The user was refused for as long as the daemon ran.
TEST_F(ForeignCloserTest, AUserHasRoomAgainAfterAShortageOfThreads) {
  for (size_t i = 0; i < ForeignCloser::kWaitingPerUserMax; ++i) close_one(kFirstUser);
  EXPECT_FALSE(closer_.has_room(kFirstUser));
  EXPECT_EQ(closer_.waiting_count(kFirstUser), ForeignCloser::kWaitingPerUserMax);
  has_threads_ = true;
  EXPECT_FALSE(closer_.has_room(kFirstUser));
  ASSERT_TRUE(becomes_closed());
  EXPECT_TRUE(closer_.has_room(kFirstUser));
}

TEST_F(ForeignCloserTest, AfterAShortageAllUsersHaveThreads) {
  close_one(kFirstUser);
  has_threads_ = true;
  close_one(kSecondUser);
  EXPECT_TRUE(becomes_closed());
}

}  // namespace
}  // namespace lyre
