#include <gtest/gtest.h>

#include "tests/unit/libclient/fake_daemon.h"

// Slots that the daemon takes back while a client reads from them; session_test.cc has the rest.
namespace lyre::client {
namespace {

constexpr channel::SessionName kName{.index = 7, .generation = 3};

class ReceiveTest : public ::testing::Test {
 protected:
  ~ReceiveTest() override { lyre_context_close(context_); }

  FakeDaemon daemon_;
  lyre_context* context_ = daemon_.attach();
};

/// As a worker does before slots that the client holds are used for other packets.
void revoke_slots(FakeDaemon& daemon) {
  reinterpret_cast<channel::ContextHeader*>(daemon.memory())->revoked.store(1);
}

TEST_F(ReceiveTest, NoBytesAreNotTheEnd) {
  lyre_session* session = open_session(daemon_, context_, kName);
  char out[1];
  EXPECT_EQ(LYRE_E_INVALID, lyre_recv(session, out, 0));
}

// The peer may wait for the room, and no completion ends the wait.
TEST_F(ReceiveTest, SlotsThatWereReadGoBackBeforeAWait) {
  lyre_session* session = open_session(daemon_, context_, kName);
  daemon_.tell(data(kName, {{.slot = 5, .bytes = 4, .offset = 0},
                            {.slot = 6, .bytes = 4, .offset = 4},
                            {.slot = 7, .bytes = 4, .offset = 8}}));
  EXPECT_EQ(1, lyre_poll(context_, 0));
  EXPECT_EQ(LYRE_EVENT_DATA, next_event(context_).happened);
  char out[10];
  EXPECT_EQ(10, lyre_recv(session, out, sizeof out));
  EXPECT_FALSE(daemon_.try_take());
  EXPECT_EQ(0, lyre_arm(context_));
  const channel::Submission entry = daemon_.take();
  EXPECT_EQ(channel::Op::kRelease, entry.op);
  EXPECT_EQ(2, entry.count);
}

TEST_F(ReceiveTest, ACopyFromSlotsThatWereTakenBackIsAnError) {
  lyre_session* session = open_session(daemon_, context_, kName);
  daemon_.tell(data(kName, {{.slot = 5, .bytes = 5, .offset = 0}}));
  EXPECT_EQ(1, lyre_poll(context_, 0));
  EXPECT_EQ(0, lyre_poll(context_, 0));  // it has just looked at the control socket
  daemon_.say_goodbye("keeps receive slots");
  revoke_slots(daemon_);
  char out[5];
  EXPECT_EQ(LYRE_E_EXPELLED, lyre_recv(session, out, sizeof out));
  EXPECT_STREQ("keeps receive slots", lyre_last_error());
  EXPECT_EQ(LYRE_E_EXPELLED, lyre_session_error(session));
}

TEST_F(ReceiveTest, AReaderOfSlicesIsToldThatTheyWereTakenBack) {
  lyre_session* session = open_session(daemon_, context_, kName);
  daemon_.tell(data(kName, {{.slot = 5, .bytes = 5, .offset = 0}}));
  daemon_.tell(data(kName, {{.slot = 6, .bytes = 5, .offset = 5}}));
  EXPECT_EQ(1, lyre_poll(context_, 0));
  lyre_slice slice;
  ASSERT_EQ(1, lyre_recv_slices(session, &slice, 1));
  EXPECT_EQ(0, lyre_check_slices(session));
  revoke_slots(daemon_);
  EXPECT_EQ(LYRE_E_EXPELLED, lyre_check_slices(session));
  EXPECT_EQ(LYRE_E_EXPELLED, lyre_recv_slices(session, &slice, 1));
  EXPECT_EQ(LYRE_E_INVALID, lyre_check_slices(nullptr));
}

TEST_F(ReceiveTest, SlicesThatWereTakenBackAreNotGivenOut) {
  lyre_session* session = open_session(daemon_, context_, kName);
  daemon_.tell(data(kName, {{.slot = 5, .bytes = 5, .offset = 0}}));
  EXPECT_EQ(1, lyre_poll(context_, 0));
  revoke_slots(daemon_);
  lyre_slice slice;
  EXPECT_EQ(LYRE_E_EXPELLED, lyre_recv_slices(session, &slice, 1));
}

}  // namespace
}  // namespace lyre::client
