#include "daemon/memory/mapping_opener.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/memory/mapping_helper.h"
#include "tests/support/deadline.h"
#include "tests/unit/daemon/fake_mapping_helper.h"

namespace lyre {
namespace {

constexpr size_t kSharedBytes = 65536;

/// A daemon's listener, a client of it in this process, and a real helper process.
class MappingOpenerTest : public testing::Test {
 protected:
  void SetUp() override {
    spdlog::set_level(spdlog::level::off);
    start(open_client_mapping);
    shared_ =
        ::mmap(nullptr, kSharedBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared_, MAP_FAILED);
    connect();
  }
  void TearDown() override { ::munmap(shared_, kSharedBytes); }

  void start(MappingOpen open_mapping) {
    auto helper = MappingHelperProcess::start({}, open_mapping);
    ASSERT_TRUE(helper.ok()) << helper.error().text;
    helper_pid_ = helper->pid();
    opener_.emplace(io_, std::move(*helper));
  }
  void connect() {
    listener_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    auto* plain = reinterpret_cast<sockaddr*>(&address);
    // The kernel chooses a name: a helper of the test before may still have that one's listener.
    ASSERT_EQ(::bind(listener_.get(), plain, sizeof address.sun_family), 0);
    socklen_t bytes = sizeof address;
    ASSERT_EQ(::getsockname(listener_.get(), plain, &bytes), 0);
    ASSERT_EQ(::listen(listener_.get(), 1), 0);
    client_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(client_.get(), plain, bytes), 0);
    accepted_.reset(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    ASSERT_TRUE(accepted_.is_open());
  }
  ForeignMapping mapping() const {
    const auto begin = reinterpret_cast<uint64_t>(shared_);
    return {begin, begin + kSharedBytes};
  }
  Result<OwnedFd> open(int socket, const ForeignMapping& mapping) {
    std::optional<Result<OwnedFd>> answer;
    opener_->open(socket, ::getuid(), mapping,
                  [&](Result<OwnedFd> opened) { answer.emplace(std::move(opened)); });
    await(answer);
    if (!answer) return Error{ETIMEDOUT, "no answer"};
    return std::move(*answer);
  }
  void await(const std::optional<Result<OwnedFd>>& answer) {
    const test::Deadline deadline;
    while (!answer && !deadline.is_over()) {
      io_.restart();
      io_.run_for(std::chrono::milliseconds(5));
    }
  }

  boost::asio::io_context io_;
  std::optional<MappingOpener> opener_;
  pid_t helper_pid_ = -1;
  void* shared_ = MAP_FAILED;
  OwnedFd listener_, client_, accepted_;
};

TEST_F(MappingOpenerTest, OpensSharedAnonymousMemoryOfAClient) {
  auto opened = open(accepted_.get(), mapping());
  if (!opened.ok() && (opened.error().code == EPERM || opened.error().code == EACCES)) {
    GTEST_SKIP() << "needs CAP_CHECKPOINT_RESTORE: " << opened.error().text;
  }
  ASSERT_TRUE(opened.ok()) << opened.error().text;
  static_cast<uint8_t*>(shared_)[5] = 77;
  uint8_t byte = 0;
  EXPECT_EQ(::pread(opened->get(), &byte, 1, 5), 1);
  EXPECT_EQ(byte, 77);
}

// The credentials of such a socket are those of the listener, who asked for nothing: a daemon in
// the hands of an attacker could have the memory of any service opened to which it can connect.
TEST_F(MappingOpenerTest, RefusesAConnectionThatTheDaemonOpened) {
  const auto opened = open(client_.get(), mapping());
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().text, "not a connection of a client");
}

TEST_F(MappingOpenerTest, RefusesWhatIsNoConnection) {
  for (const OwnedFd& other : {OwnedFd(::memfd_create("lyre-test", MFD_CLOEXEC)),
                               OwnedFd(::fcntl(listener_.get(), F_DUPFD_CLOEXEC, 0))}) {
    const auto opened = open(other.get(), mapping());
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.error().text, "not a connection of a client");
  }
}

// The number of a process that has ended may mean another one.
TEST_F(MappingOpenerTest, RefusesAClientThatHungUp) {
  client_.reset();
  const auto opened = open(accepted_.get(), mapping());
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, ENOTCONN);
}

TEST_F(MappingOpenerTest, RefusesOtherMemory) {
  const OwnedFd file(::memfd_create("lyre-test", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(file.get(), kSharedBytes), 0);
  ASSERT_EQ(::mmap(shared_, kSharedBytes, PROT_READ, MAP_SHARED | MAP_FIXED, file.get(), 0),
            shared_);
  const auto opened = open(accepted_.get(), mapping());
  ASSERT_FALSE(opened.ok());
  if (opened.error().code == EPERM || opened.error().code == EACCES) {
    GTEST_SKIP() << "needs CAP_CHECKPOINT_RESTORE: " << opened.error().text;
  }
  EXPECT_EQ(opened.error().code, EINVAL);
  EXPECT_EQ(opened.error().text, "not shared anonymous memory");
  EXPECT_EQ(open(accepted_.get(), {0, 0}).error().code, ENOENT);
}

TEST_F(MappingOpenerTest, TheHelperKeepsWhatItNeedsOnly) {
  EXPECT_FALSE(open(accepted_.get(), {0, 0}).ok());  // it has started
  std::ifstream status("/proc/" + std::to_string(helper_pid_) + "/status");
  Capabilities permitted = ~Capabilities{0};
  for (std::string word; status >> word;) {
    if (word != "CapPrm:") continue;
    status >> word;
    permitted = std::stoull(word, nullptr, 16);
  }
  EXPECT_EQ(permitted & ~kMappingHelperCapabilities, 0u);
}

/// A request's process, as soon as there is one, stops behind its call of alarm().
class StoppedRequest {
 public:
  explicit StoppedRequest(pid_t helper) : helper_(helper) {
    constexpr long kOptions = PTRACE_O_TRACEFORK | PTRACE_O_TRACESYSGOOD;
    is_allowed_ = ::ptrace(PTRACE_SEIZE, helper, nullptr, kOptions) == 0;
  }
  bool is_allowed() const { return is_allowed_; }

  /// Returns when SIGALRM waits for it. REQUIRES: a request was sent.
  bool await_alarm() {
    int status = 0;
    if (!await_child()) return false;
    ::ptrace(PTRACE_CONT, helper_, nullptr, nullptr);
    do {
      if (::waitpid(child_, &status, __WALL) != child_ || !WIFSTOPPED(status)) return false;
      if (has_called_alarm()) return await_pending_alarm();
    } while (::ptrace(PTRACE_SYSCALL, child_, nullptr, nullptr) == 0);
    return false;
  }
  /// True: it reads before it calls alarm(), while the helper is stopped behind its fork().
  /// REQUIRES: a request was sent.
  bool waits_for_the_helper() {
    bool has_read = false;
    bool is_alarm = false;
    int status = 0;
    if (!await_child()) return false;
    do {
      if (::waitpid(child_, &status, __WALL) != child_ || !WIFSTOPPED(status)) return false;
      __ptrace_syscall_info info{};
      ::ptrace(static_cast<__ptrace_request>(PTRACE_GET_SYSCALL_INFO), child_, sizeof info, &info);
      const bool is_entry = info.op == PTRACE_SYSCALL_INFO_ENTRY;
      has_read = is_entry && info.entry.nr == SYS_read;
      is_alarm = is_entry && is_alarm_call(info.entry.nr);
    } while (!has_read && !is_alarm && ::ptrace(PTRACE_SYSCALL, child_, nullptr, nullptr) == 0);
    ::ptrace(PTRACE_CONT, helper_, nullptr, nullptr);
    return has_read;
  }
  /// The signal that ended it; 0: it ended otherwise.
  int go_on() {
    int status = 0;
    ::ptrace(PTRACE_CONT, child_, nullptr, nullptr);
    while (::waitpid(child_, &status, __WALL) == child_ && WIFSTOPPED(status)) {
      ::ptrace(PTRACE_CONT, child_, nullptr, static_cast<long>(WSTOPSIG(status)));
    }
    ::ptrace(PTRACE_INTERRUPT, helper_, nullptr, nullptr);
    int stopped = 0;
    ::waitpid(helper_, &stopped, __WALL);
    ::ptrace(PTRACE_DETACH, helper_, nullptr, nullptr);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }

 private:
  /// The helper is then stopped behind its fork().
  bool await_child() {
    int status = 0;
    if (::waitpid(helper_, &status, __WALL) != helper_) return false;
    unsigned long child = 0;
    ::ptrace(PTRACE_GETEVENTMSG, helper_, nullptr, &child);
    child_ = static_cast<pid_t>(child);
    return child_ > 0;
  }
  static bool is_alarm_call(uint64_t call) {
#ifdef SYS_alarm
    if (call == SYS_alarm) return true;
#endif
    return call == SYS_setitimer;
  }
  bool has_called_alarm() {
    __ptrace_syscall_info info{};
    ::ptrace(static_cast<__ptrace_request>(PTRACE_GET_SYSCALL_INFO), child_, sizeof info, &info);
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY) last_call_ = info.entry.nr;
    return is_alarm_call(last_call_) && info.op == PTRACE_SYSCALL_INFO_EXIT;
  }
  bool await_pending_alarm() const {
    const test::Deadline deadline;
    while (!deadline.is_over()) {
      std::ifstream status("/proc/" + std::to_string(child_) + "/status");
      for (std::string word; status >> word;) {
        if (word != "ShdPnd:") continue;
        status >> word;
        if ((std::stoull(word, nullptr, 16) >> (SIGALRM - 1) & 1) != 0) return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

  pid_t helper_;
  pid_t child_ = -1;
  bool is_allowed_ = false;
  uint64_t last_call_ = 0;
};

// A client can make its mappings wait for it. The process that looks at them has a second.
TEST_F(MappingOpenerTest, ARequestThatTakesTooLongIsEnded) {
  StoppedRequest request(helper_pid_);
  if (!request.is_allowed()) GTEST_SKIP() << "needs CAP_SYS_PTRACE";
  std::optional<Result<OwnedFd>> pending;
  opener_->open(accepted_.get(), ::getuid(), mapping(),
                [&](Result<OwnedFd> opened) { pending.emplace(std::move(opened)); });
  ASSERT_TRUE(request.await_alarm());
  EXPECT_EQ(request.go_on(), SIGALRM);
  const test::Deadline deadline;
  while (!pending && !deadline.is_over()) {
    io_.restart();
    io_.run_for(std::chrono::milliseconds(5));
  }
  ASSERT_TRUE(pending.has_value());
  ASSERT_FALSE(pending->ok());
  EXPECT_EQ(pending->error().code, ETIMEDOUT);
  EXPECT_EQ(pending->error().text, "the client's mappings were locked for too long");
  // The next client is served.
  const auto next = open(accepted_.get(), mapping());
  EXPECT_TRUE(next.ok() || next.error().code != ETIMEDOUT);
}

// Who closes a client's connection last may wait for ever: that must not be the helper.
TEST_F(MappingOpenerTest, ARequestBeginsWhenTheHelperHasClosedTheConnection) {
  StoppedRequest request(helper_pid_);
  if (!request.is_allowed()) GTEST_SKIP() << "needs CAP_SYS_PTRACE";
  std::optional<Result<OwnedFd>> answer;
  opener_->open(accepted_.get(), ::getuid(), {0, 0},
                [&](Result<OwnedFd> opened) { answer.emplace(std::move(opened)); });
  EXPECT_TRUE(request.waits_for_the_helper());
  EXPECT_EQ(request.go_on(), 0);
  await(answer);
  EXPECT_TRUE(answer.has_value());
}

// A daemon that stopped waited for it without a limit.
TEST_F(MappingOpenerTest, AHelperThatDoesNotEndIsKilled) {
  ASSERT_EQ(::kill(helper_pid_, SIGSTOP), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(helper_pid_, &status, WUNTRACED), helper_pid_);
  opener_.reset();
  EXPECT_EQ(::kill(helper_pid_, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

// The exception ended a daemon that took over.
TEST(MappingOpenerAtTheLimit, AHelperThatTheSystemDoesNotWatchIsRefused) {
  boost::asio::io_context io;
  MappingOpener opener(io, {});
  const Status used = opener.use(MappingHelperProcess(OwnedFd(1 << 20)));  // not open
  ASSERT_FALSE(used.ok());
  EXPECT_EQ(used.error().code, ENOSPC);
  EXPECT_EQ(opener.helper_socket(), -1);
}

TEST_F(MappingOpenerTest, ItsDeathIsAnAnswer) {
  // Stopped first, so that a request is under way when it ends. It may go on for a moment.
  ASSERT_EQ(::kill(helper_pid_, SIGSTOP), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(helper_pid_, &status, WUNTRACED), helper_pid_);
  ASSERT_TRUE(WIFSTOPPED(status));
  std::optional<Result<OwnedFd>> pending;
  opener_->open(accepted_.get(), ::getuid(), mapping(),
                [&](Result<OwnedFd> opened) { pending.emplace(std::move(opened)); });
  ASSERT_EQ(::kill(helper_pid_, SIGKILL), 0);
  await(pending);
  ASSERT_TRUE(pending.has_value());
  EXPECT_EQ(pending->error().code, EPIPE);
  const auto later = open(accepted_.get(), mapping());
  EXPECT_EQ(later.error().code, EPIPE);
  EXPECT_EQ(later.error().text, "the daemon's memory helper is not there");
}

/// Which mapping a helper never opens, and with which it opens what cannot be passed on.
constexpr uint64_t kLocked = 0x1000;
constexpr uint64_t kNotPassed = 0x2000;
constexpr int kNotOpen = 1000;

Result<OwnedFd> open_by_address(int, const ForeignMapping& mapping) {
  while (mapping.begin == kLocked) ::pause();
  if (mapping.begin == kNotPassed) return OwnedFd(kNotOpen);
  return OwnedFd(::memfd_create("lyre-test", MFD_CLOEXEC));
}

TEST_F(MappingOpenerTest, AClientThatKeepsItsMappingsLockedDelaysItselfOnly) {
  start(open_by_address);
  std::optional<Result<OwnedFd>> locked;
  opener_->open(accepted_.get(), ::getuid(), {kLocked, 0},
                [&](Result<OwnedFd> opened) { locked.emplace(std::move(opened)); });
  EXPECT_TRUE(open(accepted_.get(), {0, 0}).ok());
  EXPECT_FALSE(locked.has_value());
  while (!locked) io_.run_one();
  EXPECT_EQ(locked->error().code, ETIMEDOUT);
}

TEST_F(MappingOpenerTest, AReplyThatCannotBeSentIsAnAnswer) {
  start(open_by_address);
  const auto opened = open(accepted_.get(), {kNotPassed, 0});
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, EIO);
  EXPECT_TRUE(open(accepted_.get(), {0, 0}).ok());
}

/// Which of many requests go to the helper, and when.
class MappingOrder : public testing::Test {
 protected:
  /// One for the mapping that begins at `begin`.
  uint64_t ask(uint64_t user, uint64_t begin) {
    return opener_.open(socket_.get(), user, {begin, 0}, [](const Result<OwnedFd>&) {});
  }
  void answer(uint64_t begin) {
    helper_.answer(begin);
    io_.restart();
    io_.poll();
  }
  /// Asks for a mapping that begins at 1; the error comes to `said_`.
  void ask_for_one() {
    opener_.open(socket_.get(), 100, {1, 0},
                 [this](const Result<OwnedFd>& opened) { said_ = opened.error(); });
    EXPECT_EQ(helper_.take(), std::vector<uint64_t>{1});
  }
  void expect_error(std::span<const uint8_t> reply, const Error& error) {
    helper_.say(reply);
    io_.restart();
    io_.poll();
    ASSERT_TRUE(said_.has_value());
    EXPECT_EQ(said_->code, error.code);
    EXPECT_EQ(said_->text, error.text);
  }

  std::optional<Error> said_;
  boost::asio::io_context io_;
  OwnedFd socket_{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)};
  FakeMappingHelper helper_;
  MappingOpener opener_{io_, helper_.process()};
};

TEST_F(MappingOrder, AUserHasTwoRequestsAtTheHelper) {
  for (const uint64_t begin : {1, 2, 3, 4}) ask(100, begin);
  ask(200, 5);
  EXPECT_EQ(helper_.take(), (std::vector<uint64_t>{1, 2, 5}));
  answer(1);
  EXPECT_EQ(helper_.take(), std::vector<uint64_t>{3});
}

TEST_F(MappingOrder, AFreePlaceGoesToTheUserThatHasFewest) {
  for (uint64_t user = 0; user < kMappingRequestsMax / 2; ++user) {
    for (uint64_t i = 1; i <= 4; ++i) ask(user, 10 * user + i);
  }
  EXPECT_EQ(helper_.take().size(), kMappingRequestsMax);
  ask(1000, 1000);
  EXPECT_TRUE(helper_.take().empty());
  answer(1);
  EXPECT_EQ(helper_.take(), std::vector<uint64_t>{1000});
  answer(1000);
  EXPECT_EQ(helper_.take(), std::vector<uint64_t>{3});
}

/// A helper that has a millisecond for each request, all of which fail.
class MappingPatience : public testing::Test {
 protected:
  void ask(uint64_t user, uint64_t begin) {
    opener_.open(socket_.get(), user, {begin, 0}, [this, begin](const Result<OwnedFd>& opened) {
      EXPECT_EQ(opened.error().code, ETIMEDOUT);
      failed_.push_back(begin);
    });
  }
  void expect_failures(size_t count) {
    const test::Deadline deadline;
    while (failed_.size() < count && !deadline.is_over()) {
      io_.restart();
      io_.run_for(std::chrono::milliseconds(5));
    }
    EXPECT_EQ(failed_.size(), count);
  }

  boost::asio::io_context io_;
  OwnedFd socket_{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)};
  FakeMappingHelper helper_;
  MappingOpener opener_{io_, helper_.process(), millis(1)};
  std::vector<uint64_t> failed_;
};

// The helper may have many requests that it does not end, and a user must not fill it with them.
TEST_F(MappingPatience, AnOverdueRequestFailsOnceAndKeepsItsPlace) {
  for (const uint64_t begin : {1, 2}) ask(100, begin);
  expect_failures(2);
  EXPECT_EQ(helper_.take(), (std::vector<uint64_t>{1, 2}));
  helper_.answer(1);
  io_.restart();
  io_.poll();
  ask(100, 3);
  expect_failures(3);
  EXPECT_EQ(helper_.take(), std::vector<uint64_t>{3});
  EXPECT_EQ(failed_, (std::vector<uint64_t>{1, 2, 3}));
}

// Its client would wait for ever.
TEST_F(MappingPatience, ARequestForWhichNoPlaceBecomesFreeFails) {
  for (int i = 0; i < 3; ++i) ask(100, 1);
  expect_failures(3);
  ask(100, 1);
  expect_failures(4);
  EXPECT_EQ(helper_.take().size(), 2u);
  size_t asked = 4;
  for (uint64_t user = 1; user < kMappingRequestsMax / 2; ++user) {
    for (int i = 0; i < 2; ++i, ++asked) ask(user, 1);
  }
  expect_failures(asked);
  EXPECT_EQ(helper_.take().size(), kMappingRequestsMax - 2);
  ask(1000, 1);  // which has none at the helper
  expect_failures(asked + 1);
}

// A longer reply is taken as far as it is known.
TEST_F(MappingOrder, ALongerReplyOfALaterVersionIsTaken) {
  ask_for_one();
  struct {
    MappingReply known;
    uint64_t added[8];
  } reply{.known = helper_.reply_to(1, EACCES), .added = {}};
  reply.known.version = kMappingVersion + 1;
  reply.known.bytes = sizeof reply;
  copy_text(reply.known.text, "refused");
  expect_error(bytes_of(reply), {EACCES, "refused"});
}

TEST_F(MappingOrder, AShorterReplyIsTaken) {
  ask_for_one();
  constexpr size_t kShort = offsetof(MappingReply, text) + 3;
  MappingReply reply = helper_.reply_to(1, EACCES);
  reply.bytes = kShort;
  copy_text(reply.text, "refused");
  expect_error(bytes_of(reply).first(kShort), {EACCES, "ref"});
}

// Without it the helper kept the code of the release before, until the service was restarted.
TEST_F(MappingOrder, ADaemonThatTookOverHasTheHelperReplaced) {
  opener_.replace_helper();
  MappingHeader request{};
  auto packet = receive_packet(helper_.socket(),
                               std::span(reinterpret_cast<uint8_t*>(&request), sizeof request));
  ASSERT_TRUE(packet.ok());
  EXPECT_EQ(packet->bytes, sizeof request);
  EXPECT_FALSE(packet->is_too_long);
  EXPECT_EQ(request.action, MappingAction::kReplace);
  EXPECT_EQ(request.id, kMappingHelperId);
  // Its refusal, or the release that it has then, is no answer to a request for a mapping.
  ask(100, 1);
  EXPECT_EQ(helper_.take(), std::vector<uint64_t>{1});
  MappingReply reply = helper_.reply_to(1, ENOENT);
  reply.id = kMappingHelperId;
  helper_.say(bytes_of(reply));
  answer(1);
  ask(100, 2);
  EXPECT_EQ(helper_.take(), std::vector<uint64_t>{2});
}

TEST_F(MappingOrder, WhatIsForgottenIsNotSent) {
  ask(100, 1);
  ask(100, 2);
  opener_.forget(ask(100, 3));
  ask(100, 4);
  EXPECT_EQ(helper_.take(), (std::vector<uint64_t>{1, 2}));
  answer(1);
  EXPECT_EQ(helper_.take(), std::vector<uint64_t>{4});
}

}  // namespace
}  // namespace lyre
