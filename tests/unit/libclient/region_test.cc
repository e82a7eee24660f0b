#include "libclient/region.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <future>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/base/daemon_limits.h"
#include "tests/unit/libclient/fake_daemon.h"

namespace lyre::client {
namespace {

constexpr size_t kRegionBytes = 1 << 16;

/// Memory that a daemon can map, and a session beside it.
class Registration : public ::testing::Test {
 protected:
  Registration() {
    EXPECT_EQ(0, ::ftruncate(file_.get(), kRegionBytes));
    EXPECT_TRUE(memory_.map(file_.get(), kRegionBytes, PROT_READ | PROT_WRITE));
  }
  ~Registration() override { lyre_context_close(context_); }

  FakeDaemon daemon_;
  lyre_context* context_ = daemon_.attach();
  lyre_session* session_ = open_session(daemon_, context_, {1, 1});
  UniqueFd file_{::memfd_create("region", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  Mapping memory_;
  lyre_region* region_ = nullptr;
};

// Longer than a daemon may take for an attach: an upgrade pauses it for as long as a NIC's driver
// takes. Its sessions go on.
TEST_F(Registration, WaitsForADaemonThatIsUpgraded) {
  auto upgrade = std::async(std::launch::async, [this] {
    daemon_.take_registration();
    std::this_thread::sleep_for(std::chrono::milliseconds(2500));
    daemon_.answer_registration(7);
  });
  EXPECT_EQ(0, lyre_register(context_, memory_.data(), kRegionBytes, &region_))
      << lyre_last_error();
  EXPECT_EQ(1, lyre_region_is_direct(region_, nullptr));
  EXPECT_EQ(LYRE_OPEN, lyre_state(session_));
  EXPECT_EQ(0, lyre_poll(context_, 0));
  upgrade.get();
}

// The kernel tells nothing of a mapping whose name is longer than the place for it: such memory was
// copied at each send.
TEST_F(Registration, OfAFileWithALongNameIsDirect) {
  const UniqueFd file(::memfd_create(std::string(200, 'n').c_str(), MFD_CLOEXEC));
  ASSERT_EQ(0, ::ftruncate(file.get(), kRegionBytes));
  Mapping memory;
  ASSERT_TRUE(memory.map(file.get(), kRegionBytes, PROT_READ | PROT_WRITE));
  auto answer = std::async(std::launch::async, [this] {
    daemon_.take_registration();
    daemon_.answer_registration(7);
  });
  EXPECT_EQ(0, lyre_register(context_, memory.data(), kRegionBytes, &region_));
  const char* why = nullptr;
  EXPECT_EQ(1, lyre_region_is_direct(region_, &why)) << why;
  answer.get();
}

// The daemon's limits, and a daemon that is being replaced. Memory that it never takes is not worth
// another request, and one that a stopped memory helper leaves unanswered is not, either.
TEST_F(Registration, RefusedForAReasonThatPassesIsRefusedForNow) {
  const auto is_refused_for_now = [this](int error) {
    auto answer = std::async(std::launch::async, [this, error] {
      daemon_.take_registration();
      daemon_.answer_registration(error == 0 ? 7 : 0, error);
    });
    EXPECT_EQ(0, lyre_register(context_, memory_.data(), kRegionBytes, &region_));
    answer.get();
    EXPECT_EQ(error == 0 ? 1 : 0, lyre_region_is_direct(region_, nullptr));
    return lyre_region_is_refused_for_now(region_) != 0;
  };
  for (const int error : {EAGAIN, EBUSY, EDQUOT, ENOMEM, ENOSPC}) {
    EXPECT_TRUE(is_refused_for_now(error)) << error;
  }
  for (const int error : {0, EINVAL, EPERM, EPIPE, EMFILE, ETIMEDOUT}) {
    EXPECT_FALSE(is_refused_for_now(error)) << error;
  }
  EXPECT_EQ(0, lyre_region_is_refused_for_now(nullptr));
}

TEST_F(Registration, OfPrivateMemoryIsNotRefusedForNow) {
  const std::vector<uint8_t> own(kRegionBytes);
  EXPECT_EQ(0, lyre_register(context_, own.data(), own.size(), &region_));
  EXPECT_EQ(0, lyre_region_is_direct(region_, nullptr));
  EXPECT_EQ(0, lyre_region_is_refused_for_now(region_));
}

/// A direct region, from which a session sends.
class Unsent : public Registration {
 protected:
  static constexpr uint32_t kName = 7;
  static constexpr uint32_t kOtherName = 8;

  Unsent() {
    region_ = add_region(kName);
    send_from(region_, session_);
  }
  /// A region of the memory that the daemon gives this name.
  lyre_region* add_region(uint32_t name) {
    auto answer = std::async(std::launch::async, [this, name] {
      daemon_.take_registration();
      daemon_.answer_registration(name);
    });
    lyre_region* region = nullptr;
    EXPECT_EQ(0, lyre_register(context_, memory_.data(), kRegionBytes, &region));
    return region;
  }
  void send_from(lyre_region* region, lyre_session* session) {
    EXPECT_EQ(0, lyre_send_region(session, region, memory_.data(), kRegionBytes, 0));
    EXPECT_EQ(channel::Op::kSend, daemon_.take().op);
  }
  void close(lyre_session* session) {
    lyre_close(session);
    EXPECT_EQ(channel::Op::kClose, daemon_.take().op);
  }
  /// What the daemon is asked while the context is closed, before it sees the hang-up.
  channel::DeregisterRequest close_context() {
    auto daemon = std::async(std::launch::async, [this] {
      const channel::DeregisterRequest request = daemon_.take_deregistration();
      daemon_.answer_deregistration(request.region);
      return request;
    });
    lyre_context_close(std::exchange(context_, nullptr));
    return daemon.get();
  }
};

TEST_F(Unsent, KeepsItsRegionInUseUntilItIsDone) {
  lyre_region* other_region = add_region(kOtherName);
  EXPECT_EQ(1, lyre_region_is_in_use(region_));
  EXPECT_EQ(0, lyre_region_is_in_use(other_region));
  EXPECT_EQ(0, lyre_region_is_in_use(nullptr));
  daemon_.tell(send_done({1, 1}, 1));
  EXPECT_EQ(1, lyre_region_is_in_use(region_)) << "nobody has polled";
  lyre_poll(context_, 0);
  EXPECT_EQ(0, lyre_region_is_in_use(region_));
}

// A closed session goes on sending; an aborted one has nothing to lose.
TEST_F(Unsent, KeepsItsRegionInUseWhereItsSessionIsClosedAndNotAborted) {
  lyre_session* aborted = open_session(daemon_, context_, {2, 1});
  lyre_region* other_region = add_region(kOtherName);
  send_from(other_region, aborted);
  close(session_);
  EXPECT_EQ(1, lyre_region_is_in_use(region_));
  EXPECT_EQ(1, lyre_region_is_in_use(other_region));
  lyre_abort(aborted);
  EXPECT_EQ(channel::Op::kAbort, daemon_.take().op);
  EXPECT_EQ(0, lyre_region_is_in_use(other_region));
  for (const uint32_t index : {1u, 2u}) daemon_.tell(send_done({index, 1}, 1));
  lyre_poll(context_, 0);
  EXPECT_EQ(0, lyre_region_is_in_use(region_));
}

// No completion tells of the send any more.
TEST_F(Unsent, KeepsNoRegionInUseWhereTheDaemonIsGone) {
  daemon_.hang_up();
  int code = 0;
  while (code >= 0) code = lyre_poll(context_, 100);
  EXPECT_EQ(LYRE_ENDED, lyre_state(session_));
  EXPECT_EQ(0, lyre_region_is_in_use(region_));
}

// Its owner may change the memory after the close, and the daemon sends for a second more.
TEST_F(Unsent, IsDeregisteredBeforeTheContextEnds) {
  EXPECT_EQ(kName, close_context().region);
  EXPECT_EQ(channel::Op::kAbort, daemon_.take().op);
  EXPECT_TRUE(daemon_.sees_the_end());
}

TEST_F(Unsent, IsDeregisteredAlsoWhereItsSessionIsClosed) {
  close(session_);
  EXPECT_EQ(kName, close_context().region);
  EXPECT_FALSE(daemon_.try_take()) << "a closed session is not named again";
}

TEST_F(Unsent, ThatIsAcknowledgedMeanwhileNeedsNoDeregistration) {
  daemon_.tell(send_done({1, 1}, 1));
  lyre_context_close(std::exchange(context_, nullptr));
  EXPECT_EQ(channel::Op::kClose, daemon_.take().op);
}

// More completions than one turn takes were before it: the peer got a reset in place of a FIN.
TEST_F(Unsent, ThatIsAcknowledgedBehindManyCompletionsNeedsNoDeregistration) {
  constexpr channel::SessionName kGone{.index = 99, .generation = 1};
  for (int i = 0; i < 600; ++i) daemon_.tell(peer_finished(kGone));
  daemon_.tell(send_done({1, 1}, 1));
  lyre_context_close(std::exchange(context_, nullptr));
  EXPECT_EQ(channel::Op::kClose, daemon_.take().op);
}

TEST_F(Unsent, ThatIsAcknowledgedWhileItIsDeregisteredNeedsNoReset) {
  auto daemon = std::async(std::launch::async, [this] {
    daemon_.take_deregistration();
    daemon_.tell(send_done({1, 1}, 1));
    daemon_.answer_deregistration(kName);
  });
  lyre_context_close(std::exchange(context_, nullptr));
  EXPECT_EQ(channel::Op::kClose, daemon_.take().op);
}

// A port held packets of the first region for a second. The others were not asked for, and closed
// sessions went on sending from them.
static_assert(kDeregisterUnsentNs > kRegionTimeout.value + 10 * kNextRegionTimeout.value);

TEST_F(Unsent, IsDeregisteredBehindARegionThatAPortHolds) {
  lyre_session* other = open_session(daemon_, context_, {2, 1});
  send_from(add_region(kOtherName), other);
  close(session_);
  close(other);
  auto daemon = std::async(std::launch::async, [&] {
    std::set<uint32_t> asked = {daemon_.take_deregistration().region};
    daemon_.answer_deregistration(*asked.begin(), ETIMEDOUT);
    const uint32_t second = daemon_.take_deregistration().region;
    daemon_.answer_deregistration(second);
    asked.insert(second);
    return asked;
  });
  lyre_context_close(std::exchange(context_, nullptr));
  EXPECT_EQ((std::set<uint32_t>{kName, kOtherName}), daemon.get());
}

// Time may not suffice for all. An abort follows for sessions that are not closed.
TEST_F(Unsent, OfClosedSessionsIsDeregisteredFirstAndOnce) {
  lyre_session* closed = open_session(daemon_, context_, {2, 1});
  lyre_region* other_region = add_region(kOtherName);
  send_from(other_region, closed);
  send_from(other_region, session_);
  close(closed);
  auto daemon = std::async(std::launch::async, [this] {
    for (const uint32_t name : {kOtherName, kName}) {
      EXPECT_EQ(name, daemon_.take_deregistration().region);
      daemon_.answer_deregistration(name);
    }
  });
  lyre_context_close(std::exchange(context_, nullptr));
  daemon.get();
  EXPECT_EQ(channel::Op::kAbort, daemon_.take().op);
  EXPECT_TRUE(daemon_.sees_the_end());
}

// The request cannot be sent any more, and the reason is there to be read.
TEST_F(Registration, TellsAClientThatWasDisconnectedWhy) {
  daemon_.tell(ended({1, 1}, channel::EndStatus::kReset));
  daemon_.say_goodbye("its file shrank");
  daemon_.hang_up();
  EXPECT_EQ(LYRE_E_EXPELLED, lyre_register(context_, memory_.data(), kRegionBytes, &region_));
  EXPECT_STREQ("its file shrank", lyre_last_error());
  EXPECT_EQ(nullptr, region_);
  EXPECT_EQ(1, lyre_poll(context_, 0)) << "what the daemon had queued comes first";
  EXPECT_EQ(session_, next_event(context_).session);
  EXPECT_EQ(LYRE_E_RESET, lyre_session_error(session_));
  EXPECT_EQ(LYRE_E_EXPELLED, lyre_poll(context_, 0));
}

TEST_F(Unsent, TellsAClientThatWasDisconnectedWhyWhenItIsDeregistered) {
  daemon_.say_goodbye("its file shrank");
  daemon_.hang_up();
  EXPECT_EQ(LYRE_E_EXPELLED, lyre_deregister(region_));
  EXPECT_STREQ("its file shrank", lyre_last_error());
}

// Its slots are taken back before all workers have let go of its memory, and the reason comes then.
TEST_F(Unsent, LearnsTheReasonThatComesAfterTheSlotsWereTakenBack) {
  reinterpret_cast<channel::ContextHeader*>(daemon_.memory())->revoked.store(1);
  EXPECT_EQ(LYRE_E_EXPELLED, lyre_check_slices(session_));
  auto daemon = std::async(std::launch::async, [this] {
    daemon_.say_goodbye("its file shrank");
    daemon_.hang_up();
  });
  EXPECT_EQ(LYRE_E_EXPELLED, lyre_deregister(region_));
  EXPECT_STREQ("its file shrank", lyre_last_error());
  EXPECT_EQ(LYRE_E_EXPELLED, lyre_poll(context_, 0));
  EXPECT_STREQ("its file shrank", lyre_last_error());
  daemon.get();
}

TEST_F(Registration, EndsWithADaemonThatHangsUp) {
  auto death = std::async(std::launch::async, [this] {
    daemon_.take_registration();
    daemon_.hang_up();
  });
  EXPECT_EQ(LYRE_E_DAEMON, lyre_register(context_, memory_.data(), kRegionBytes, &region_));
  EXPECT_EQ(nullptr, region_);
  EXPECT_EQ(LYRE_ENDED, lyre_state(session_));
  death.get();
}

}  // namespace
}  // namespace lyre::client
