#include "libclient/waiter.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <future>
#include <thread>

#include "libclient/clock.h"
#include "libclient/include/lyre/lyre.h"
#include "stack/base/time_slice.h"
#include "tests/support/time_slice_of_thread.h"
#include "tests/unit/libclient/fake_daemon.h"

namespace lyre::client {
namespace {

constexpr int64_t kLongTimeNs = 60'000'000'000;

bool nothing_waits() { return false; }
bool something_waits() { return true; }

class WaiterTest : public ::testing::Test {
 protected:
  WaiterTest() {
    std::array<int, 2> pair{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair.data()), 0);
    control = UniqueFd(pair[0]);
    daemon = UniqueFd(pair[1]);
    bell = ::eventfd(0, 0);  // blocking: adopt() must change that
    EXPECT_EQ(waiter.adopt(UniqueFd(bell), control.get(), sleeps), 0);
  }
  void ring() { ASSERT_EQ(::eventfd_write(bell, 1), 0); }
  bool is_readable() {
    pollfd entry{waiter.poll_fd(), POLLIN, 0};
    return ::poll(&entry, 1, 0) == 1;
  }

  /// A timer that has expired takes a moment until it is an event.
  bool becomes_readable() {
    pollfd entry{waiter.poll_fd(), POLLIN, 0};
    return ::poll(&entry, 1, 60000) == 1;
  }

  std::atomic<uint32_t> sleeps{0};
  UniqueFd control, daemon;
  int bell = -1;
  Waiter waiter;
};

TEST_F(WaiterTest, ArmedItLetsTheWorkersRing) {
  EXPECT_FALSE(waiter.disarm());  // before the first arm(), and without a ring: must not block
  EXPECT_TRUE(waiter.arm(nothing_waits));
  EXPECT_EQ(sleeps.load(), 1u);
  EXPECT_FALSE(is_readable());
  ring();
  EXPECT_TRUE(is_readable());
  EXPECT_TRUE(waiter.disarm());
  EXPECT_EQ(sleeps.load(), 0u);
  EXPECT_FALSE(is_readable());  // the ring was taken
  EXPECT_FALSE(waiter.disarm());
}

TEST_F(WaiterTest, ATimerMakesItReadableUntilItIsDisarmed) {
  EXPECT_TRUE(waiter.set_timer(1));
  EXPECT_TRUE(waiter.arm(nothing_waits));
  pollfd entry{waiter.poll_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, 60'000), 1);
  EXPECT_TRUE(waiter.disarm());
  EXPECT_FALSE(is_readable());
  EXPECT_TRUE(waiter.set_timer(kLongTimeNs));
  EXPECT_TRUE(waiter.arm(nothing_waits));
  EXPECT_FALSE(is_readable());
}

// It began anew each time: a caller that armed more often than that never saw it expire.
TEST_F(WaiterTest, ATimerThatIsSetAgainExpiresAllTheSame) {
  EXPECT_TRUE(waiter.set_timer(1));
  EXPECT_TRUE(waiter.set_timer(kLongTimeNs));
  pollfd entry{waiter.poll_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, 10'000), 1);
  EXPECT_TRUE(waiter.set_timer(kLongTimeNs));
  EXPECT_TRUE(is_readable()) << "until it is disarmed";
}

// The next call took it for one that is watched.
TEST_F(WaiterTest, ATimerThatCannotBeWatchedIsMadeAgain) {
  const UniqueFd watched(::dup(waiter.poll_fd()));
  ASSERT_EQ(::dup2(bell, waiter.poll_fd()), waiter.poll_fd());  // which watches nothing
  EXPECT_FALSE(waiter.set_timer(1));
  ASSERT_EQ(::dup2(watched.get(), waiter.poll_fd()), waiter.poll_fd());
  EXPECT_TRUE(waiter.set_timer(1));
  pollfd entry{waiter.poll_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, 10'000), 1);
}

TEST_F(WaiterTest, IsNotArmedBesideWork) {
  EXPECT_FALSE(waiter.arm(something_waits));
  EXPECT_EQ(sleeps.load(), 0u);
}

TEST_F(WaiterTest, AskedForWorkOnlyAfterTheFlagIsSet) {
  uint32_t seen = 0;
  waiter.arm([&] {
    seen = sleeps.load();
    return false;
  });
  EXPECT_EQ(seen, 1u);
}

TEST_F(WaiterTest, ASleepEndsWithARing) {
  auto worker = std::async(std::launch::async, [this] {
    while (sleeps.load() == 0) continue;
    ring();
  });
  EXPECT_FALSE(waiter.sleep(kLongTimeNs, nothing_waits));
  worker.get();
  EXPECT_EQ(sleeps.load(), 0u);
  EXPECT_FALSE(is_readable());
}

TEST_F(WaiterTest, ASleepEndsWithTheControlSocket) {
  daemon = UniqueFd();
  EXPECT_TRUE(waiter.sleep(kLongTimeNs, nothing_waits));
  EXPECT_TRUE(is_readable());
}

TEST_F(WaiterTest, ASleepBesideWorkIsNone) {
  EXPECT_FALSE(waiter.sleep(kLongTimeNs, something_waits));
  EXPECT_EQ(sleeps.load(), 0u);
}

TEST_F(WaiterTest, YieldsOnlyUntilItIsIdleForLong) {
  EXPECT_FALSE(waiter.yield(now_ns(), 1'000'000));
  EXPECT_TRUE(waiter.yield(now_ns(), 0));
}

// Another thread waits for the descriptor: the sleep took its ring, and no worker rings again.
TEST_F(WaiterTest, WhoIsArmedIsWokenAfterTheSleepOfAnotherThread) {
  ASSERT_TRUE(waiter.arm(nothing_waits));
  ring();
  EXPECT_FALSE(waiter.sleep(kLongTimeNs, nothing_waits));
  EXPECT_EQ(sleeps.load(), 0u);
  EXPECT_TRUE(becomes_readable());
  EXPECT_TRUE(waiter.disarm());
  EXPECT_FALSE(is_readable());
  ASSERT_TRUE(waiter.arm(nothing_waits));
  EXPECT_FALSE(waiter.sleep(kLongTimeNs, something_waits));
  EXPECT_TRUE(becomes_readable());
}

TEST_F(WaiterTest, WhoIsArmedIsWokenAlsoWhereATimerIsSetForLater) {
  ASSERT_TRUE(waiter.set_timer(kLongTimeNs));
  ASSERT_TRUE(waiter.arm(nothing_waits));
  EXPECT_FALSE(waiter.sleep(1, nothing_waits));
  EXPECT_TRUE(becomes_readable());
}

// A worker on the same core has slices of this length. With longer ones the client would have its
// turn only after a dozen of the worker's yields.
TEST_F(WaiterTest, RestsWithTheTimeSlicesOfAWorker) {
  if (test::own_time_slice() == nanos(0)) GTEST_SKIP() << "this kernel has no slices by thread";
  std::thread([this] {
    waiter.must_rest(now_ns());
    EXPECT_EQ(test::own_time_slice(), kShortTimeSlice);
  }).join();
}

// A thread that only drains keeps its own: threads that it makes later would inherit short ones.
TEST(Waiting, WhoPollsHasTheTimeSlicesOfAWorker) {
  if (test::own_time_slice() == nanos(0)) GTEST_SKIP() << "this kernel has no slices by thread";
  FakeDaemon daemon;
  lyre_context* context = daemon.attach();
  std::thread([&] {
    const Nanos own = test::own_time_slice();
    EXPECT_EQ(0, lyre_poll(context, 0));
    EXPECT_EQ(0, lyre_drain(context, 1));
    EXPECT_EQ(own, test::own_time_slice());
    EXPECT_EQ(0, lyre_poll(context, 1));
    EXPECT_EQ(kShortTimeSlice, test::own_time_slice());
  }).join();
  lyre_context_close(context);
}

}  // namespace
}  // namespace lyre::client
