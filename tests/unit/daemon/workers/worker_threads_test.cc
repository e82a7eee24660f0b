#include "daemon/workers/worker_threads.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/owned_fd.h"
#include "tests/support/silent_queue.h"
#include "tests/support/worker_host.h"

namespace lyre {
namespace {

/// A queue without packets, whose driver has a socket.
class SocketQueue final : public test::SilentQueue {
 public:
  explicit SocketQueue(int socket) : socket_(socket) {}
  int wait_fd() const override { return socket_; }
  io::Arming arm() override { return io::Arming::kArmed; }
  void disarm(io::Woken) override {}

 private:
  int socket_;
};

/// A socket with an error, as of an interface that was set down: nobody listens at its peer.
OwnedFd socket_with_error() {
  OwnedFd bound(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t bytes = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(::bind(bound.get(), generic, bytes), 0);
  EXPECT_EQ(::getsockname(bound.get(), generic, &bytes), 0);
  bound.reset(-1);
  OwnedFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(socket.get(), generic, bytes), 0);
  EXPECT_EQ(::send(socket.get(), "x", 1, 0), 1);
  return socket;
}

bool has_event(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, 0) == 1;
}

TEST(WorkerThreads, AnErrorOfASocketEndsOneSleepAndNotAll) {
  const OwnedFd socket = socket_with_error();
  ASSERT_TRUE(has_event(socket.get()));
  io::sim::Link link{io::sim::LinkOptions{}};
  test::WorkerHost host(link, {});
  SocketQueue queue(socket.get());
  const WorkerSeat seat{.worker = &host.worker(),
                        .stats = &host.stats(),
                        .core = static_cast<uint32_t>(::sched_getcpu()),
                        .queues = {&queue}};
  auto threads = WorkerThreads::create(
      {&seat, 1},
      {.spin = micros(1), .awake = {}, .on_start = [] { return Status(Ok{}); }, .on_end = [] {}});
  ASSERT_TRUE(threads.ok()) << threads.error().text;
  ASSERT_TRUE((*threads)->start().ok());
  for (int i = 0; i < 1000 && host.stats().sleeps.get() < 3; ++i) ::usleep(10'000);
  (*threads)->stop();
  EXPECT_GE(host.stats().sleeps.get(), 3u);
  EXPECT_FALSE(has_event(socket.get()));
}

// A daemon that takes over holds its workers until the other one has ended. It has to fail at once.
TEST(WorkerThreads, WorkersThatAreHeldEndWhenTheNextOneCannotStart) {
  io::sim::Link link{io::sim::LinkOptions{}};
  test::WorkerHost first(link, {}), second(link, {.end = 1});
  const auto core = static_cast<uint32_t>(::sched_getcpu());
  const WorkerSeat seats[] = {
      {.worker = &first.worker(), .stats = &first.stats(), .core = core, .queues = {}},
      {.worker = &second.worker(), .stats = &second.stats(), .core = core, .queues = {}}};
  int started = 0;
  const auto on_start = [&] { return ++started == 1 ? Status(Ok{}) : Status(Error{EAGAIN, "no"}); };
  auto threads = WorkerThreads::create(
      seats, {.spin = micros(1), .awake = {}, .on_start = on_start, .on_end = [] {}});
  ASSERT_TRUE(threads.ok()) << threads.error().text;
  (*threads)->hold();
  EXPECT_FALSE((*threads)->start().ok());
  EXPECT_EQ(started, 2);
  EXPECT_EQ(first.stats().polls.get(), 0u) << "it made no turn";
}

}  // namespace
}  // namespace lyre
