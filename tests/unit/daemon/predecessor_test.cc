#include "daemon/predecessor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/base/watch.h"
#include "daemon/handover_versions.h"
#include "daemon/upgrade/offer.h"
#include "tests/unit/daemon/daemon_fixture.h"
#include "tests/unit/daemon/failing_call.h"

namespace lyre {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// A command that sends kPrepared, of a program that reads these versions.
std::string prepared_command(const KindVersions& newest) {
  record::Writer record;
  write_prepared(newest, record);
  std::string out = "printf '\\002\\000\\000\\000";
  for (const uint8_t byte : record.bytes()) {
    char octal[8];
    std::snprintf(octal, sizeof octal, "\\%03o", unsigned{byte});
    out += octal;
  }
  return out + "' >&3\n";
}

/// A program that sends kPrepared, and kFailed when the file `enough` is there.
std::string failing_script(const std::string& enough) {
  return prepared_command(handover_versions()) + "until [ -e " + enough +
         " ]; do sleep 0.01; done\n"
         "printf '\\007\\000\\000\\000no room' >&3\n";
}

/// A daemon that serves, with a simulated port, and a program that cannot go on in its place.
class PredecessorTest : public DaemonTest {
 protected:
  PredecessorTest() : config_(config()) {}

  void SetUp() override {
    ASSERT_TRUE(replies_.open().ok());
    auto parts = Assembly::make(config_, std::make_unique<SimBackend>(states_),
                                {.io = io_, .mappings = mappings_}, replies_.bell_fd());
    ASSERT_TRUE(parts.ok()) << parts.error().text;
    parts_ = std::move(*parts);
    ASSERT_TRUE(parts_->open().ok());
    ASSERT_TRUE(parts_->start().ok());
    replies_.begin(parts_->registry(), parts_->control(), [] { return false; });
    predecessor_ = std::make_unique<Predecessor>(
        io_, Predecessor::Parts{.config = config_,
                                .assembly = *parts_,
                                .replies = replies_,
                                .mappings = mappings_,
                                .program = program_with(failing_script(enough())),
                                .keep_alive = [this] { on_sign(); },
                                .on_replaced = [](pid_t) { ADD_FAILURE() << "was replaced"; },
                                .pause_max = pause_max_});
  }
  void TearDown() override {
    predecessor_.reset();
    parts_.reset();
  }

  /// The program, which a test may write anew.
  std::string program_with(const std::string& script) const {
    const std::string path = directory_ + "/lyred";
    std::ofstream(path) << "#!/bin/sh\n" << script;
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }
  /// Of an upgrade to a program that ends at once.
  std::string reason_with(const std::string& script) {
    program_with(script);
    std::optional<UpgradeResult> result;
    predecessor_->begin([&](const UpgradeResult& answer) { result = answer; });
    EXPECT_TRUE(run_until([&] { return result.has_value(); }));
    return result && !result->status.ok() ? result->status.error().text : "";
  }
  std::string enough() const { return directory_ + "/enough"; }

  /// The service manager hears that the daemon is alive.
  void on_sign() {
    if (std::exchange(lacks_memory_, false)) throw std::bad_alloc();
    signs_.push_back(states_[0]->steps);
    if (count_of(kClosed) == 1) std::this_thread::sleep_for(closing_);
    if (count_of(kClosed) == 1 + kSignsOfTheWait) std::ofstream(enough()) << "waited";
  }
  /// Signs when the port had done these steps.
  int64_t count_of(const std::string& steps) const {
    return std::count(signs_.begin(), signs_.end(), steps);
  }

  static constexpr const char* kClosed = "sx";
  static constexpr int64_t kSignsOfTheWait = 2;
  const Config config_;
  Nanos pause_max_ = kUpgradePause;
  std::chrono::milliseconds closing_{0};  ///< how long the ports take
  bool lacks_memory_ = false;             ///< when the workers rest
  ReplyTaker replies_{io_};
  std::vector<std::string> signs_;
  std::unique_ptr<Assembly> parts_;
  std::unique_ptr<Predecessor> predecessor_;
};

// The control thread waits for the new process, and housekeeping does not run meanwhile.
TEST_F(PredecessorTest, KeepsTheWatchdogOffInEachStepThatMayTakeLong) {
  std::optional<UpgradeResult> result;
  predecessor_->begin([&](const UpgradeResult& answer) { result = answer; });
  ASSERT_TRUE(run_until([&] { return result.has_value(); }));
  ASSERT_FALSE(result->status.ok());
  EXPECT_EQ(result->status.error().text, "no room");
  EXPECT_EQ(count_of(""), 1) << "the workers rest";
  EXPECT_GE(count_of(kClosed), 1 + kSignsOfTheWait + 2)
      << "the port is closed, the new process says nothing, and its end is awaited";
  EXPECT_EQ(count_of("sxr"), 1) << "the port is open again";

  EXPECT_EQ(states_[0]->steps, "sxrc");
  const uint64_t turns = parts_->threads().turns(0);
  EXPECT_TRUE(run_until([&] { return parts_->threads().turns(0) > turns; }));
}

/// Whose ports take longer to close than the pause may last, which is longer than a sign.
class SlowPredecessorTest : public PredecessorTest {
 protected:
  SlowPredecessorTest() {
    pause_max_ = kUpgradeSign + millis(100);
    closing_ = std::chrono::milliseconds(1200);
  }
};

// The limit began anew with closed ports, and a pause could be longer than clients wait.
TEST_F(SlowPredecessorTest, CountsTheTimeInWhichPortsAreClosed) {
  std::optional<UpgradeResult> result;
  predecessor_->begin([&](const UpgradeResult& answer) { result = answer; });
  ASSERT_TRUE(run_until([&] { return result.has_value(); }));
  EXPECT_EQ(result->status.error().code, ETIMEDOUT);
  EXPECT_EQ(count_of(kClosed), 1) << "the port is closed, and no word of the new process awaited";
  EXPECT_EQ(states_[0]->steps, "sxrc");
}

// The exception ended the daemon, whose workers stood still.
TEST_F(PredecessorTest, GoesOnWhereThereIsNoMemoryToHandOver) {
  lacks_memory_ = true;
  std::optional<UpgradeResult> result;
  predecessor_->begin([&](const UpgradeResult& answer) { result = answer; });
  ASSERT_TRUE(run_until([&] { return result.has_value(); }));
  ASSERT_FALSE(result->status.ok());
  EXPECT_EQ(result->status.error().text, "no memory to hand over");
  const uint64_t turns = parts_->threads().turns(0);
  EXPECT_TRUE(run_until([&] { return parts_->threads().turns(0) > turns; }));
}

TEST_F(PredecessorTest, GoesOnWhereTheSystemWatchesNoMoreDescriptors) {
  std::optional<UpgradeResult> result;
  const bool is_called = with_failing_call(SYS_epoll_ctl, ENOSPC, [&] {
    predecessor_->begin([&](const UpgradeResult& answer) { result = answer; });
  });
  if (!is_called) GTEST_SKIP() << "needs filters of system calls";
  ASSERT_TRUE(result.has_value());
  ASSERT_FALSE(result->status.ok());
  EXPECT_EQ(result->status.error().text, kNoMoreWatches);
  EXPECT_FALSE(predecessor_->is_under_way());
}

// The out-of-memory killer leaves it no time to write.
TEST_F(PredecessorTest, SaysThatTheReasonIsInTheLogOnlyOfAProcessThatEndedItself) {
  EXPECT_EQ(reason_with("exit 3\n"),
            "the new process ended with status 3, and has written why to the log");
  EXPECT_EQ(reason_with("kill -9 $$\n"), "the new process was ended by signal 9");
}

// A release before this one: its refusal of the records closed each port, and opened it again.
TEST_F(PredecessorTest, ClosesNoPortForAProgramThatDoesNotReadItsRecords) {
  KindVersions earlier = handover_versions();
  --earlier[static_cast<size_t>(record::Kind::kConnection)];
  EXPECT_THAT(reason_with(prepared_command(earlier) + "exec sleep 60\n"),
              HasSubstr(", which does not read the records that this release "));
  EXPECT_EQ(states_[0]->steps, "");
}

// gVNIC with the queue format GQI: the other ports went on with packets that were freed twice.
TEST_F(PredecessorTest, ClosesNoPortWhoseDriverFreesPacketsTwice) {
  states_[0]->info.frees_twice_when_closed = true;
  std::optional<UpgradeResult> result;
  predecessor_->begin([&](const UpgradeResult& answer) { result = answer; });
  ASSERT_TRUE(result.has_value()) << "at once";
  EXPECT_EQ(result->status.error().code, ENOTSUP);
  EXPECT_THAT(result->status.error().text,
              AllOf(HasSubstr("'rail0'"), HasSubstr("frees packets twice when it closes"),
                    HasSubstr("restart the daemon")));
  EXPECT_FALSE(predecessor_->is_under_way());
  EXPECT_EQ(states_[0]->steps, "");
}

}  // namespace
}  // namespace lyre
