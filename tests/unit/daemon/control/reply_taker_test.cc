#include "daemon/control/reply_taker.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "daemon/base/watch.h"
#include "stack/base/page_size.h"
#include "tests/unit/daemon/control_fixture.h"
#include "tests/unit/daemon/failing_call.h"

namespace lyre {
namespace {

using Answer = worker::Reply::Kind;

class ReplyTakerTest : public ControlServerTest {
 protected:
  ReplyTakerTest() {
    server_.reset();
    EXPECT_TRUE(taker_.open().ok());
    servers_.add(std::make_unique<ControlServer>(io_, mappings_, registry_, facts(), options()));
    EXPECT_TRUE(servers_.open().ok());
    taker_.begin(registry_, servers_, [this] {
      ++looks_;
      return is_due_;
    });
  }
  void attach(RawClient& client) {
    client.send(attach_request());
    run();
    ASSERT_EQ(expect_message<channel::AttachReply>(client, Control::kAttached).error, 0);
  }

  ControlServers servers_;
  ReplyTaker taker_{io_};
  int looks_ = 0;
  bool is_due_ = false;
};

// The exception ended the process without a word.
TEST(ReplyTakerWithoutWatches, IsNotOpened) {
  boost::asio::io_context io;
  ReplyTaker taker(io);
  Status opened = Ok{};
  const bool is_called = with_failing_call(SYS_epoll_ctl, ENOSPC, [&] { opened = taker.open(); });
  if (!is_called) GTEST_SKIP() << "needs filters of system calls";
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().text, kNoMoreWatches);
}

TEST_F(ReplyTakerTest, TakesAnswersWhenAWorkerRings) {
  RawClient client(path_);
  attach(client);
  workers_.answer(1, Answer::kExpelled, 0, "kSend points outside the arena");
  ::eventfd_write(taker_.bell_fd(), 1);
  run();  // only what is ready now: no timer
  workers_.answer_detaches();
  ::eventfd_write(taker_.bell_fd(), 1);
  run();
  expect_goodbye(client, "kSend points outside the arena");
  EXPECT_EQ(registry_.attached_count(), 0u);
}

TEST_F(ReplyTakerTest, TakesAnswersOfWorkersThatDidNotRing) {
  RawClient client(path_);
  attach(client);
  workers_.answer(0, Answer::kExpelled, 0, "a broken ring");
  EXPECT_TRUE(run_until([&] { return registry_.attached_count() == 0; }));
  workers_.answer_detaches();
  EXPECT_TRUE(run_until([&] { return registry_.held_count() == 0; }));
  expect_goodbye(client, "a broken ring");
}

TEST_F(ReplyTakerTest, PassesWhatBecameOfMemoryToItsClient) {
  RawClient client(path_);
  attach(client);
  const OwnedFd file(::memfd_create("lyre-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(system_page_bytes())), 0);
  auto request = make_message<channel::RegisterRequest>(Control::kRegister);
  request.source = channel::RegionSource::kDescriptor;
  request.bytes = system_page_bytes();
  client.send_with(request, {file.get()});
  run();
  for (uint32_t i = 0; i < workers_.count(); ++i) {
    const worker::Command told = workers_.posted[i].back();
    workers_.answers[i].push_back(
        {.kind = Answer::kRegionAdded, .context = told.context, .region = told.region});
  }
  ::eventfd_write(taker_.bell_fd(), 1);
  run();
  EXPECT_EQ(expect_message<channel::RegionReply>(client, Control::kRegistered).error, 0);
}

TEST_F(ReplyTakerTest, SaysAfterEachLookByTheTimerThatItLooked) {
  EXPECT_TRUE(run_until([&] { return looks_ >= 2; }));
  is_due_ = true;
  const int looks = looks_;
  EXPECT_TRUE(run_until([&] { return looks_ >= looks + 2; }));
}

}  // namespace
}  // namespace lyre
