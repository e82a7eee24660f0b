#include "libclient/context.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdint>
#include <cstring>
#include <future>
#include <thread>

#include "libclient/starvation.h"
#include "libclient/vain_rounds.h"
#include "tests/support/deadline.h"
#include "tests/unit/core_dump.h"
#include "tests/unit/libclient/fake_daemon.h"
#include "tests/unit/libclient/shared_core.h"

namespace lyre::client {
namespace {

int open_code(const char* path, uint64_t patience_ms = 0) {
  lyre_options options{.struct_bytes = sizeof options};
  options.socket_path = path;
  options.patience_ms = patience_ms;
  lyre_context* context = nullptr;
  const int code = lyre_context_open(&options, &context);
  EXPECT_EQ(code == 0, context != nullptr);
  lyre_context_close(context);
  return code;
}

int distorted(std::function<void(channel::AttachReply&, channel::ContextHeader&)> distort) {
  FakeDaemon daemon({.worker_count = 2, .distort = std::move(distort)});
  return open_code(daemon.socket_path());
}

TEST(Context, AttachesAndKnowsThePorts) {
  FakeDaemon daemon({.worker_count = 3});
  lyre_context* context = daemon.attach();
  ASSERT_NE(nullptr, context);
  lyre_port port{.struct_bytes = sizeof port};
  EXPECT_EQ(1, lyre_port_count(context));
  EXPECT_EQ(0, lyre_port_info(context, 0, &port));
  EXPECT_STREQ("memif0", port.name);
  EXPECT_EQ(1500u, port.mtu_bytes);
  EXPECT_EQ(LYRE_E_INVALID, lyre_port_info(context, 1, &port));
  EXPECT_STREQ("the daemon has 1 ports, none with index 1", lyre_last_error());
  EXPECT_EQ(0, lyre_poll(context, 0));
  lyre_context_close(context);
}

TEST(Context, SaysThatNoDaemonIsThere) {
  EXPECT_EQ(LYRE_E_DAEMON, open_code("/nonexistent/lyred.sock"));
  EXPECT_STREQ("/nonexistent/lyred.sock: no daemon listens there (is lyred running?)",
               lyre_last_error());
  EXPECT_EQ(LYRE_E_INVALID, open_code(std::string(200, 'x').c_str()));
}

TEST(Context, SaysThatTheDaemonEndedBeforeItAnswered) {
  for (const FakeDaemonOptions& options :
       {FakeDaemonOptions{.ends = true}, FakeDaemonOptions{.ends_unread = true}}) {
    FakeDaemon daemon(options);
    EXPECT_EQ(LYRE_E_DAEMON, open_code(daemon.socket_path(), 60'000));
    EXPECT_EQ(daemon.socket_path() + std::string(": no daemon listens there (is lyred running?)"),
              lyre_last_error());
  }
}

// One that is replaced in an upgrade does not pass on what it has accepted and not read. The next
// one answers on the same socket.
TEST(Context, AsksTheDaemonThatTookThePlaceOfTheOneThatHungUp) {
  FakeDaemon daemon({.dropped_first = 2});
  lyre_context* context = daemon.attach(60'000);
  ASSERT_NE(nullptr, context);
  EXPECT_EQ(1, lyre_port_count(context));
  EXPECT_EQ(0, lyre_poll(context, 0));
  lyre_context_close(context);
}

TEST(Context, GivesUpOnADaemonThatHangsUpEachTime) {
  FakeDaemon daemon({.dropped_first = INT_MAX});
  EXPECT_EQ(LYRE_E_DAEMON, open_code(daemon.socket_path(), 250));
}

// As a daemon does that has too many connections, before it reads what a new one asks.
TEST(Context, SaysWhyTheDaemonHungUp) {
  for (const FakeDaemonOptions& options :
       {FakeDaemonOptions{.ends = true, .goodbye = "not you"},
        FakeDaemonOptions{.ends_unread = true, .goodbye = "not you"}}) {
    FakeDaemon daemon(options);
    EXPECT_EQ(LYRE_E_DAEMON, open_code(daemon.socket_path(), 60'000));
    EXPECT_STREQ("the daemon refused: not you", lyre_last_error());
  }
}

// It looked as if the daemon were away, for which programs wait.
TEST(Context, OfNoMemberOfTheDomainHasNoPermission) {
  FakeDaemon daemon({.ends = true, .goodbye = "no member of the domain 'team-a'"});
  EXPECT_EQ(LYRE_E_PERMISSION, open_code(daemon.socket_path(), 60'000));
  EXPECT_STREQ("the daemon refused: no member of the domain 'team-a'", lyre_last_error());
}

TEST(Context, GivesUpOnASilentDaemon) {
  FakeDaemon daemon({.is_silent = true});
  EXPECT_EQ(LYRE_E_DAEMON, open_code(daemon.socket_path(), 100));
  EXPECT_STREQ("the daemon did not answer within 0.1 seconds", lyre_last_error());
}

// While it is upgraded, say. What connected meanwhile is accepted after that.
TEST(Context, WaitsForALateDaemonAsLongAsItsPatienceLasts) {
  FakeDaemon late({.late = std::chrono::milliseconds(2500)});
  EXPECT_EQ(0, open_code(late.socket_path(), 60'000)) << lyre_last_error();
  FakeDaemon too_late({.is_silent = true});
  EXPECT_EQ(LYRE_E_DAEMON, open_code(too_late.socket_path()));
  EXPECT_EQ(LYRE_E_INVALID, open_code(late.socket_path(), 600'001));
}

/// As a data loader, which outlives what forked it. Longer than a daemon waits for the end here.
pid_t fork_sleeper() {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::alarm(120);
  ::pause();
  ::_exit(0);
}

TEST(Context, EndsForTheDaemonAlsoIfAForkedChildLives) {
  FakeDaemon daemon;
  lyre_context* context = daemon.attach();
  const pid_t child = fork_sleeper();
  ASSERT_GE(child, 0);
  lyre_context_close(context);
  EXPECT_TRUE(daemon.sees_the_end());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

/// A process with a context whose child sleeps on when it does what `end` does. True: the daemon
/// sees the end.
template <typename End>
bool ends_for_the_daemon(End end) {
  FakeDaemon daemon;
  const pid_t client = ::fork();
  if (client == 0) {
    ::setpgid(0, 0);
    lyre_options options{.struct_bytes = sizeof options};
    options.socket_path = daemon.socket_path();
    lyre_context* context = nullptr;
    if (lyre_context_open(&options, &context) != 0 || fork_sleeper() < 0) ::_exit(1);
    end();
    ::_exit(0);
  }
  daemon.await_client();
  const bool is_seen = daemon.sees_the_end();
  ::kill(-client, SIGKILL);
  ::waitpid(client, nullptr, 0);
  return is_seen;
}

TEST(Context, EndsForTheDaemonWhereItsProcessDiedAndAForkedChildLives) {
  EXPECT_TRUE(ends_for_the_daemon([] {}));
}

// The process lives on, and so a pidfd of it tells nothing.
TEST(Context, EndsForTheDaemonWhereItsProcessBecameAnotherProgramAndAForkedChildLives) {
  EXPECT_TRUE(ends_for_the_daemon([] { ::execlp("sleep", "sleep", "120", nullptr); }));
}

TEST(Context, LeavesAChildItsDescriptorsAndGoesOnInItsParent) {
  FakeDaemon daemon;
  lyre_context* context = daemon.attach();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // As another file of the child, which a close of the parent's socket would take from it.
    const int number = ::dup(STDERR_FILENO);
    lyre_context_close(context);
    ::_exit(::write(number, "", 0) == 0 && context->control().fd.get() == -1 ? 0 : 1);
  }
  int end = -1;
  ASSERT_EQ(child, ::waitpid(child, &end, 0));
  EXPECT_EQ(0, end);
  EXPECT_EQ(0, lyre_poll(context, 0));
  lyre_context_close(context);
  EXPECT_TRUE(daemon.sees_the_end());
}

// It would keep hugepages of a daemon that is gone, which the next one needs.
TEST(Context, AForkedChildHasNoneOfItsMemory) {
  FakeDaemon daemon;
  lyre_context* context = daemon.attach();
  lyre_block block{};
  ASSERT_EQ(0, lyre_block_alloc(context, 5000, &block));
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    lyre_context_close(context);  // does nothing
    const auto address = reinterpret_cast<uintptr_t>(block.data);
    const auto page_bytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    unsigned char is_resident = 0;
    const int answer =
        ::mincore(reinterpret_cast<void*>(address & ~(page_bytes - 1)), 1, &is_resident);
    ::_exit(answer == -1 && errno == ENOMEM ? 0 : 1);
  }
  int end = -1;
  ASSERT_EQ(child, ::waitpid(child, &end, 0));
  EXPECT_EQ(0, end);
  EXPECT_EQ(0, lyre_poll(context, 0));
  lyre_block_free(context, &block);
  lyre_context_close(context);
}

// A rank has a context for each communicator, with 64 MiB and more.
TEST(Context, ACoreOfItsProcessHasNoneOfItsMemory) {
  if (!tells_what_a_core_has()) GTEST_SKIP() << "needs VmFlags in smaps";
  FakeDaemon daemon({.worker_count = 2});
  // The daemon's own mappings are in this process, too.
  const CoreCount before = count_in_core("/memfd:");
  lyre_context* context = daemon.attach();
  ASSERT_NE(nullptr, context);
  const CoreCount after = count_in_core("/memfd:");
  EXPECT_LT(before.out, after.out);
  EXPECT_EQ(0, after.in);
  lyre_block block{};
  ASSERT_EQ(0, lyre_block_alloc(context, 5000, &block));
  EXPECT_TRUE(is_left_out_of_core(block.data));
  lyre_block_free(context, &block);
  lyre_context_close(context);
}

TEST(Context, RefusesAnotherVersion) {
  EXPECT_EQ(LYRE_E_VERSION, distorted([](auto& reply, auto&) { reply.header.versions = {9, 9}; }));
  EXPECT_EQ(LYRE_E_VERSION, distorted([](auto&, auto& header) { header.abi_version = 9; }));
  EXPECT_EQ(LYRE_E_VERSION, distorted([](auto& reply, auto&) { reply.header.magic = 9; }));
}

TEST(Context, TranslatesTheDaemonsRefusal) {
  const auto refuse = [](int error) {
    return [error](channel::AttachReply& reply, channel::ContextHeader&) {
      reply.error = error;
      strcpy(reply.text, "not you");
    };
  };
  EXPECT_EQ(LYRE_E_PERMISSION, distorted(refuse(EACCES)));
  EXPECT_STREQ("the daemon refused: not you", lyre_last_error());
  EXPECT_EQ(LYRE_E_NORESOURCES, distorted(refuse(EUSERS)));
  EXPECT_EQ(LYRE_E_VERSION, distorted(refuse(EPROTONOSUPPORT)));
}

TEST(Context, BelievesNothingItIsTold) {
  EXPECT_EQ(LYRE_E_DAEMON, distorted([](auto& reply, auto&) { reply.worker_count = 0; }));
  EXPECT_EQ(LYRE_E_DAEMON, distorted([](auto& reply, auto&) { reply.worker_count = 65; }));
  EXPECT_EQ(LYRE_E_DAEMON, distorted([](auto& reply, auto&) { ++reply.generation; }));
  EXPECT_EQ(LYRE_E_DAEMON, distorted([](auto&, auto& header) { header.magic = 0; }));
  EXPECT_EQ(LYRE_E_DAEMON, distorted([](auto&, auto& header) { header.rings_offset += 8; }));
  EXPECT_EQ(LYRE_E_DAEMON, distorted([](auto&, auto& h) { h.rings_offset = h.total_bytes; }));
  EXPECT_EQ(LYRE_E_DAEMON, distorted([](auto&, auto& h) { h.arena_offset = UINT64_MAX; }));
  EXPECT_EQ(LYRE_E_DAEMON, distorted([](auto&, auto& h) { h.arena_bytes = h.total_bytes; }));
  EXPECT_EQ(LYRE_E_DAEMON, distorted([](auto&, auto& h) { h.arena_bytes = 4095; }));
  EXPECT_EQ(LYRE_E_DAEMON, distorted([](auto&, auto& h) { h.copy_bytes = UINT64_MAX; }));
  // More than the memory that was given: touching it would end the process.
  EXPECT_EQ(LYRE_E_NORESOURCES, distorted([](auto& r, auto&) { r.context_bytes <<= 1; }));
  EXPECT_EQ(LYRE_E_NORESOURCES, distorted([](auto& r, auto&) { r.pool_bytes[1] <<= 1; }));
  FakeDaemon daemon({.descriptors_less = 1});
  EXPECT_EQ(LYRE_E_DAEMON, open_code(daemon.socket_path()));
}

TEST(Context, NoticesThatTheDaemonDied) {
  FakeDaemon daemon;
  lyre_context* context = daemon.attach();
  lyre_session* session = open_session(daemon, context, {1, 1});
  daemon.hang_up();
  int code = 0;
  while (code == 0) code = lyre_poll(context, 100);
  EXPECT_EQ(LYRE_E_DAEMON, code);
  EXPECT_EQ(LYRE_ENDED, lyre_state(session));
  EXPECT_EQ(LYRE_E_DAEMON, lyre_session_error(session));
  EXPECT_EQ(LYRE_E_DAEMON, lyre_send(session, "x", 1));
  char byte;
  EXPECT_EQ(LYRE_E_DAEMON, lyre_recv(session, &byte, 1));
  const lyre_addr remote = address("10.9.0.2:1");
  lyre_session* other = nullptr;
  EXPECT_EQ(LYRE_E_DAEMON, lyre_connect(context, nullptr, &remote, &other));
  EXPECT_EQ(LYRE_E_DAEMON, lyre_drain(context, 0));
  lyre_close(session);
  EXPECT_EQ(LYRE_E_DAEMON, lyre_poll(context, -1));
  lyre_context_close(context);
}

TEST(Context, ASleeperWakesWhenTheDaemonDies) {
  FakeDaemon daemon;
  lyre_context* context = daemon.attach();
  auto death = std::async(std::launch::async, [&daemon] { daemon.hang_up(); });
  EXPECT_EQ(LYRE_E_DAEMON, lyre_poll(context, -1));
  death.get();
  lyre_context_close(context);
}

TEST(Context, SaysWhyItWasExpelled) {
  FakeDaemon daemon;
  lyre_context* context = daemon.attach();
  daemon.say_goodbye("kSend points outside the arena");
  EXPECT_EQ(LYRE_E_EXPELLED, lyre_poll(context, -1));
  EXPECT_STREQ("kSend points outside the arena", lyre_last_error());
  lyre_context_close(context);
}

TEST(Context, HearsWhyASessionEndedBeforeTheDaemonLeft) {
  FakeDaemon daemon;
  lyre_context* context = daemon.attach();
  lyre_session* session = open_session(daemon, context, {1, 1});
  daemon.tell(ended({1, 1}, channel::EndStatus::kShutdown));
  daemon.hang_up();
  int code = 0;
  while (code >= 0) code = lyre_poll(context, 100);
  EXPECT_EQ(LYRE_E_DAEMON, code);
  EXPECT_EQ(LYRE_E_SHUTDOWN, lyre_session_error(session));
  lyre_context_close(context);
}

// A stop in order. The control socket is read first here, because it may be what ended the wait.
TEST(Context, AnArmedClientHearsOfEndsBeforeItHearsThatTheDaemonStopped) {
  FakeDaemon daemon;
  lyre_context* context = daemon.attach();
  lyre_session* session = open_session(daemon, context, {1, 1});
  ASSERT_EQ(0, lyre_arm(context));
  daemon.tell(ended({1, 1}, channel::EndStatus::kShutdown));
  daemon.hang_up();
  ASSERT_EQ(1, lyre_poll(context, 0));
  const lyre_event event = next_event(context);
  EXPECT_EQ(session, event.session);
  EXPECT_EQ(LYRE_EVENT_ENDED, event.happened);
  EXPECT_EQ(LYRE_E_SHUTDOWN, lyre_session_error(session));
  EXPECT_EQ(LYRE_E_DAEMON, lyre_poll(context, 0));
  lyre_context_close(context);
}

TEST(Context, AClientThatPollsRarelyHearsAtItsSecondPollThatTheDaemonIsGone) {
  FakeDaemon daemon;
  lyre_context* context = daemon.attach();
  const auto poll = [context] {
    ::usleep(2'000);
    return lyre_poll(context, 0);
  };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(0, poll());
  daemon.hang_up();
  if (poll() == 0) {
    EXPECT_EQ(LYRE_E_DAEMON, poll());
  }
  EXPECT_EQ(LYRE_E_DAEMON, poll());
  lyre_context_close(context);
}

TEST(Context, ABrokenRingEndsItAndNothingElse) {
  FakeDaemon daemon;
  lyre_context* context = daemon.attach();
  daemon.rings().completion_indices.tail.store(5000);
  EXPECT_EQ(LYRE_E_DAEMON, lyre_poll(context, 0));
  lyre_context_close(context);
}

TEST(Context, ASleeperWakesForACompletion) {
  FakeDaemon daemon;
  lyre_context* context = daemon.attach();
  lyre_session* session = open_session(daemon, context, {1, 1});
  auto worker = std::async(std::launch::async, [&daemon] { daemon.tell(peer_finished({1, 1})); });
  EXPECT_EQ(1, lyre_poll(context, -1));
  worker.get();
  const lyre_event event = next_event(context);
  EXPECT_EQ(session, event.session);
  EXPECT_EQ(LYRE_EVENT_PEER_FIN, event.happened);
  EXPECT_EQ(0u, next_event(context).happened);
  lyre_context_close(context);
}

TEST(Context, ItsDescriptorServesOtherLoops) {
  FakeDaemon daemon;
  lyre_context* context = daemon.attach();
  open_session(daemon, context, {1, 1});
  pollfd entry{lyre_eventfd(context), POLLIN, 0};
  ASSERT_EQ(0, lyre_arm(context));
  EXPECT_EQ(0, ::poll(&entry, 1, 0));
  daemon.tell(peer_finished({1, 1}));
  EXPECT_EQ(1, ::poll(&entry, 1, 2000));
  EXPECT_EQ(1, lyre_arm(context));  // something is there already: do not wait
  EXPECT_EQ(1, lyre_poll(context, 0));
  EXPECT_EQ(0, ::poll(&entry, 1, 0));
  ASSERT_EQ(0, lyre_arm(context));
  daemon.hang_up();
  EXPECT_EQ(1, ::poll(&entry, 1, 2000));
  EXPECT_EQ(LYRE_E_DAEMON, lyre_poll(context, 0));
  lyre_context_close(context);
}

/// One entry more than the submission ring has room for.
void overfill(lyre_session* session) {
  for (uint32_t i = 0; i <= channel::kSubmissionEntries; ++i) {
    EXPECT_EQ(0, lyre_set_option(session, LYRE_OPTION_CORK, i % 2));
  }
}

// The daemon forgets what was acknowledged of a send that it drops.
TEST(Context, SurvivesASendThatIsDroppedAfterSomeOfItWasAcknowledged) {
  FakeDaemon daemon;
  lyre_context* context = daemon.attach();
  lyre_session* session = open_session(daemon, context, {1, 1});
  for (int i = 0; i < 2; ++i) ASSERT_EQ(4, lyre_send(session, "text", 4));
  daemon.tell(send_done({1, 1}, 0, 3));
  daemon.tell(send_done({1, 1}, 1, 0, channel::EndStatus::kReset));
  daemon.tell(send_done({1, 1}, 1, 0, channel::EndStatus::kReset));
  EXPECT_EQ(1, lyre_poll(context, 0)) << lyre_last_error();
  EXPECT_EQ(LYRE_EVENT_SENT, next_event(context).happened & LYRE_EVENT_SENT);
  EXPECT_EQ(4u, lyre_unacked_bytes(session)) << "the worker has not taken the second one";
  lyre_context_close(context);
}

// No completion reports the room. A caller that must not wait would spin until there is some.
TEST(Context, AnArmedClientWakesToLookForRoomInAFullRing) {
  FakeDaemon daemon;
  lyre_context* context = daemon.attach();
  overfill(open_session(daemon, context, {1, 1}));
  pollfd entry{lyre_eventfd(context), POLLIN, 0};
  for (int turn = 0; turn < 2; ++turn) {
    ASSERT_EQ(0, lyre_arm(context));
    EXPECT_EQ(1, ::poll(&entry, 1, 60'000));
    EXPECT_EQ(0, lyre_poll(context, 0));
    EXPECT_EQ(0, ::poll(&entry, 1, 0));
    daemon.take();
  }
  EXPECT_EQ(0, lyre_poll(context, 0));
  ASSERT_EQ(0, lyre_arm(context));
  EXPECT_EQ(0, ::poll(&entry, 1, 10)) << "nothing waits for room any more";
  lyre_context_close(context);
}

// Its other descriptors may wake it more often than the ring is to be looked at: then it arms again
// without a poll.
TEST(Context, AnArmedClientThatArmsAgainStillWakesToLookForRoom) {
  FakeDaemon daemon;
  lyre_context* context = daemon.attach();
  overfill(open_session(daemon, context, {1, 1}));
  pollfd entry{lyre_eventfd(context), POLLIN, 0};
  ASSERT_EQ(0, lyre_arm(context));
  EXPECT_EQ(1, ::poll(&entry, 1, 60'000));
  ASSERT_EQ(0, lyre_arm(context));
  EXPECT_EQ(1, ::poll(&entry, 1, 0));
  lyre_context_close(context);
}

TEST(Context, ARestWithoutAComputingNeighbourIsNone) {
  FakeDaemon daemon;
  lyre_context* context = daemon.attach();
  lyre_rest(nullptr, 1);
  lyre_rest(context, INT_MAX);  // would last half an hour
  EXPECT_EQ(0, lyre_poll(context, 0));
  lyre_context_close(context);
}

TEST(Context, ARestBesideAComputingThreadEndsWithACompletion) {
  FakeDaemon daemon;
  lyre_context* context = daemon.attach();
  open_session(daemon, context, {1, 1});
  auto worker = std::async(std::launch::async, [&daemon] {
    while (!daemon.is_client_asleep()) std::this_thread::yield();
    daemon.tell(peer_finished({1, 1}));
  });
  SharedCore core;
  core.yield_until([&] {
    lyre_rest(context, INT_MAX);
    return lyre_poll(context, 0) == 1;
  });
  EXPECT_EQ(LYRE_EVENT_PEER_FIN, next_event(context).happened);
  worker.get();
  lyre_context_close(context);
}

TEST(Context, ACallerWithALockRestsOnTheDescriptor) {
  FakeDaemon daemon;
  lyre_context* context = daemon.attach();
  open_session(daemon, context, {1, 1});
  EXPECT_EQ(0, lyre_arm_rest(nullptr, 1));
  SharedCore core;
  core.yield_until([&] { return lyre_arm_rest(context, 1000) == 1000; });
  pollfd entry{lyre_eventfd(context), POLLIN, 0};
  EXPECT_EQ(0, ::poll(&entry, 1, 0));
  daemon.tell(peer_finished({1, 1}));
  EXPECT_EQ(1, ::poll(&entry, 1, 2000));
  EXPECT_EQ(1, lyre_poll(context, 0));
  lyre_context_close(context);
}

/// Whether rounds in a row that find nothing, 1 us each, end in a rest. In a time of their own, and
/// in less of it than Starvation looks at: what the machine does meanwhile makes no difference.
bool rests_in_vain_rounds(lyre_context& context) {
  constexpr int64_t kRoundNs = 1000;
  constexpr int64_t kRounds = 2 * VainRounds::kRoundsMin;
  static_assert(kRounds * kRoundNs < Starvation::kLookNs);
  int64_t now_ns = 1'000'000'000;
  for (int64_t i = 0; i < kRounds; ++i) {
    if (context.must_rest(now_ns += kRoundNs)) return true;
  }
  return false;
}

TEST(Context, ACallerRestsWhereTheHostIsCrowdedAndItsYieldsReachNobody) {
  FakeDaemon daemon({.worker_count = 2});
  lyre_context* context = daemon.attach();
  open_session(daemon, context, {1, 1}, 0);
  open_session(daemon, context, {1, 1}, 1);
  EXPECT_FALSE(rests_in_vain_rounds(*context)) << "no worker says that the host is crowded";
  daemon.say_crowded(1);
  EXPECT_TRUE(rests_in_vain_rounds(*context));
  lyre_context_close(context);
}

// That worker has the large messages of another client.
TEST(Context, ACallerDoesNotRestWhereAnotherWorkerThanItsOwnIsCrowded) {
  FakeDaemon daemon({.worker_count = 2});
  lyre_context* context = daemon.attach();
  open_session(daemon, context, {1, 1}, 0);
  open_session(daemon, context, {1, 1}, 1);
  daemon.say_crowded(1);
  daemon.tell(peer_finished({1, 1}), 0);
  EXPECT_EQ(1, lyre_poll(context, 0));
  EXPECT_FALSE(rests_in_vain_rounds(*context));
  lyre_context_close(context);
}

// Another thread waits for the descriptor.
TEST(Context, AnArmedClientIsWokenAfterADrainOfAnotherThread) {
  FakeDaemon daemon;
  lyre_context* context = daemon.attach();
  lyre_session* session = open_session(daemon, context, {1, 1});
  ASSERT_EQ(1, lyre_send(session, "x", 1));
  ASSERT_EQ(0, lyre_arm(context));
  // One that has its core late does not sleep before its time is over.
  const test::Deadline deadline;
  while (daemon.is_client_asleep() && !deadline.is_over()) {
    ASSERT_EQ(LYRE_E_AGAIN, lyre_drain(context, 10));
  }
  EXPECT_FALSE(daemon.is_client_asleep());
  pollfd entry{lyre_eventfd(context), POLLIN, 0};
  EXPECT_EQ(1, ::poll(&entry, 1, 60000));
  EXPECT_EQ(0, lyre_poll(context, 0));
  EXPECT_EQ(0, ::poll(&entry, 1, 0));
  lyre_context_close(context);
}

TEST(Context, NothingIsReadableAfterTheDaemonHasLeft) {
  FakeDaemon daemon;
  lyre_context* context = daemon.attach();
  lyre_session* session = open_session(daemon, context, {1, 1});
  daemon.tell(data({1, 1}, {{.slot = 5, .bytes = 5, .offset = 0}}));
  ASSERT_EQ(1, lyre_poll(context, 0));
  EXPECT_EQ(5u, lyre_readable_bytes(session));
  daemon.hang_up();
  int code = 0;
  while (code >= 0) code = lyre_poll(context, 100);
  char bytes[8];
  EXPECT_EQ(LYRE_E_DAEMON, lyre_recv(session, bytes, sizeof bytes));
  EXPECT_EQ(0u, lyre_readable_bytes(session));
  lyre_context_close(context);
}

TEST(Context, RefusesWhatIsNotThere) {
  EXPECT_EQ(LYRE_E_INVALID, lyre_context_open(nullptr, nullptr));
  EXPECT_EQ(LYRE_E_INVALID, lyre_poll(nullptr, 0));
  EXPECT_EQ(LYRE_E_INVALID, lyre_send(nullptr, "x", 1));
  EXPECT_EQ(LYRE_E_INVALID, lyre_recv(nullptr, nullptr, 1));
  EXPECT_EQ(LYRE_E_INVALID, lyre_shutdown(nullptr));
  EXPECT_EQ(LYRE_E_INVALID, lyre_set_option(nullptr, LYRE_OPTION_CORK, 1));
  EXPECT_EQ(LYRE_E_INVALID, lyre_next_event(nullptr, nullptr));
  lyre_close(nullptr);
  lyre_abort(nullptr);
  lyre_context_close(nullptr);
}

}  // namespace
}  // namespace lyre::client
