// Failures while messages are in flight.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "tests/adapter/link.h"

namespace lyre::test {
namespace {

constexpr int kAbi = 11;
constexpr size_t kBytes = 1 << 20;

// Sends or receives until a call fails. Returns its result.
Result work_until_broken(Rank& rank, Link& link) {
  std::vector<uint8_t> data(kBytes);
  Result result = Result::kSuccess;
  until(
      [&] {
        void* request = nullptr;
        result = rank.index() == 0
                     ? link.plugin().isend(link.comm(), {data.data(), kBytes}, &request)
                     : link.plugin().irecv(link.comm(), {data.data(), kBytes}, &request);
        if (result == Result::kSuccess && request != nullptr)
          result = link.finish_with_error(request);
        return result != Result::kSuccess;
      },
      40);
  return result;
}

void work_some(Rank& rank, Link& link) {
  std::vector<uint8_t> data(kBytes);
  for (int i = 0; i < 5; ++i) {
    link.finish(rank.index() == 0 ? link.isend(data.data(), kBytes)
                                  : link.irecv(data.data(), kBytes));
  }
}

/// Both ranks call it. Returns the other one's process.
pid_t exchange_pids(Rank& rank) {
  const pid_t own = ::getpid();
  rank.send(&own, sizeof(own));
  pid_t peer = 0;
  EXPECT_TRUE(rank.receive(&peer, sizeof(peer)));
  return peer;
}

/// How many lines name the peer's host, address and process, and behind them `cause`.
size_t count_errors_of(pid_t peer, const std::string& address, const std::string& cause) {
  char host[256] = {};
  ::gethostname(host, sizeof(host) - 1);
  const std::string place = std::string("host ") + host + " (" + address + ":";
  const std::string process = "), process " + std::to_string(peer) + ": ";
  const std::vector<std::string> lines = logged_warnings();
  // A search that begins at npos finds nothing.
  return static_cast<size_t>(
      std::count_if(lines.begin(), lines.end(), [&](const std::string& line) {
        return line.find(cause, line.find(process, line.find(place))) != std::string::npos;
      }));
}

class PeerKilled : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { daemons(); }
};
INSTANTIATE_TEST_SUITE_P(Victim, PeerKilled, ::testing::Values(0, 1), [](const auto& instance) {
  return instance.param == 0 ? "Sender" : "Receiver";
});

TEST_P(PeerKilled, InMidTransferIsARemoteErrorThatNamesIt) {
  const RankBody body = [](Rank& rank) {
    ::setenv("LYRE_RESUME_SECONDS", "1", 1);
    Link link(rank, kAbi);
    const pid_t peer = exchange_pids(rank);
    work_some(rank, link);
    std::vector<uint8_t> data(kBytes);
    void* request = nullptr;
    if (rank.index() != GetParam()) {
      request =
          rank.index() == 0 ? link.isend(data.data(), kBytes) : link.irecv(data.data(), kBytes);
    }
    rank.barrier();
    if (rank.index() == GetParam()) ::raise(SIGKILL);
    EXPECT_EQ(link.finish_with_error(request), Result::kRemoteError);
    EXPECT_EQ(count_logged("process " + std::to_string(peer)), 1u) << logged_text();
    EXPECT_EQ(count_errors_of(peer, daemons().address(GetParam()), "its process ended"), 1u)
        << logged_text();
    EXPECT_TRUE(has_logged("1 requests with 1048576 bytes outstanding")) << logged_text();
    link.close();
  };
  const std::vector<RankEnd> ends = run_ranks({body, body});
  const size_t victim = static_cast<size_t>(GetParam());
  EXPECT_EQ(ends[victim].signal, SIGKILL);
  EXPECT_EQ(ends[1 - victim].exit_status, 0) << ends[1 - victim].stderr_text;
}

// The comm fails while it has no request. Later calls log the same line.
TEST(PeerLeft, WhileIdleIsNamedWithWhatIsOutstandingLater) {
  daemons();
  expect_ranks({[](Rank& rank) {
                  Link link(rank, kAbi);
                  pid_t peer = 0;
                  ASSERT_TRUE(rank.receive(&peer, sizeof(peer)));
                  rank.barrier();  // the peer has closed
                  HandleBuffer unused;
                  void* listening = nullptr;  // each call of the plugin makes progress
                  ASSERT_EQ(link.plugin().listen(0, unused.data(), &listening), Result::kSuccess);
                  const std::vector<uint8_t> data(1000);
                  EXPECT_EQ(link.finish_with_error(link.isend(data.data(), data.size())),
                            Result::kRemoteError);
                  char host[256] = {};
                  ::gethostname(host, sizeof(host) - 1);
                  const std::string name = std::string("comm that sends to host ") + host + " (";
                  EXPECT_EQ(count_logged(name + daemons().address(1) + ":"), 1u) << logged_text();
                  EXPECT_TRUE(has_logged("process " + std::to_string(peer))) << logged_text();
                  EXPECT_TRUE(has_logged("; 1 requests with 1000 bytes outstanding"))
                      << logged_text();
                  EXPECT_EQ(link.plugin().close_listen(listening), Result::kSuccess);
                  link.close();
                },
                [](Rank& rank) {
                  Link link(rank, kAbi);
                  const pid_t own = ::getpid();
                  rank.send(&own, sizeof(own));
                  link.close();
                  rank.barrier();
                }});
}

class DaemonKilled : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Host, DaemonKilled, ::testing::Values(0, 1), [](const auto& instance) {
  return instance.param == 0 ? "OfTheSender" : "OfTheReceiver";
});

TEST_P(DaemonKilled, InMidTransferIsASystemErrorHereAndARemoteErrorThere) {
  const std::unique_ptr<DaemonPair> pair = own_daemons();
  const RankBody body = [&](Rank& rank) {
    ::setenv("LYRE_RESUME_SECONDS", "1", 1);
    ::setenv("LYRE_PEER_TIMEOUT_SECONDS", "3", 1);
    Link link(rank, kAbi, *pair);
    const pid_t peer = exchange_pids(rank);
    work_some(rank, link);
    rank.barrier();  // the last message is acknowledged
    const bool is_victim = rank.index() == GetParam();
    if (is_victim) ::kill(pair->pid(GetParam()), SIGKILL);
    EXPECT_EQ(work_until_broken(rank, link),
              is_victim ? Result::kSystemError : Result::kRemoteError);
    const size_t told =
        is_victim ? count_logged("the Lyre daemon at " + pair->socket(GetParam()) + " is gone")
                  : count_errors_of(peer, pair->address(GetParam()), "given up after");
    EXPECT_EQ(told, 1u) << logged_text();
    link.close();
  };
  const std::vector<RankEnd> ends = run_ranks({body, body}, 90);
  pair->kill(GetParam());
  for (const RankEnd& end : ends) {
    EXPECT_EQ(end.exit_status, 0) << "signal " << end.signal << "\n" << end.stderr_text;
  }
}

class HostGone : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Host, HostGone, ::testing::Values(0, 1), [](const auto& instance) {
  return instance.param == 0 ? "OfTheSender" : "OfTheReceiver";
});

// A stopped daemon stands for a host that no longer sends anything.
TEST_P(HostGone, IsARemoteErrorLongBeforeTheDaemonWouldSaySo) {
  const std::unique_ptr<DaemonPair> pair = own_daemons();
  const RankBody body = [&](Rank& rank) {
    ::setenv("LYRE_PEER_TIMEOUT_SECONDS", "3", 1);
    Link link(rank, kAbi, *pair);
    const pid_t peer = exchange_pids(rank);
    work_some(rank, link);
    rank.barrier();
    if (rank.index() == GetParam()) {  // its daemon is stopped
      rank.barrier();                  // the end of its process would be another cause
      return;
    }
    ::kill(pair->pid(GetParam()), SIGSTOP);
    EXPECT_EQ(work_until_broken(rank, link), Result::kRemoteError);
    rank.barrier();
    EXPECT_EQ(count_errors_of(peer, pair->address(GetParam()), "given up after"), 1u)
        << logged_text();
    EXPECT_TRUE(has_logged("requests with 1048576 bytes outstanding")) << logged_text();
  };
  const std::vector<RankEnd> ends = run_ranks({body, body});
  ::kill(pair->pid(GetParam()), SIGCONT);
  for (const RankEnd& end : ends) {
    EXPECT_EQ(end.exit_status, 0) << "signal " << end.signal << "\n" << end.stderr_text;
  }
}

// The plugin hears of the daemon's end by its reply, not by the next call that makes progress.
TEST(DaemonKilledIdle, IsNoPortThatKeepsMemory) {
  const std::unique_ptr<DaemonPair> pair = own_daemons();
  const RankBody body = [&](Rank& rank) {
    ::setenv("LYRE_RESUME_SECONDS", "1", 1);
    const int file = ::memfd_create("message", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ASSERT_EQ(::ftruncate(file, kBytes), 0);
    void* memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ASSERT_NE(memory, MAP_FAILED);
    Link link(rank, kAbi, *pair);
    void* mhandle = nullptr;
    ASSERT_EQ(link.plugin().reg_mr(link.comm(), memory, kBytes, nccl_abi::kPtrHost, &mhandle),
              Result::kSuccess);
    rank.barrier();
    if (rank.index() == 0) {
      ::kill(pair->pid(0), SIGKILL);
      EXPECT_EQ(link.plugin().dereg_mr(link.comm(), mhandle), Result::kSuccess);
      EXPECT_FALSE(has_logged("does not release")) << logged_text();
    }
    rank.barrier();
  };
  const std::vector<RankEnd> ends = run_ranks({body, body});
  pair->kill(0);
  EXPECT_EQ(ends[0].exit_status, 0) << ends[0].stderr_text;
}

TEST(DaemonKilledIdle, EveryCallSaysSoAndNothingHangs) {
  const std::unique_ptr<DaemonPair> pair = own_daemons();
  const RankBody body = [&](Rank& rank) {
    ::setenv("LYRE_RESUME_SECONDS", "1", 1);
    Link link(rank, kAbi, *pair);
    rank.barrier();
    if (rank.index() == 0) ::kill(pair->pid(0), SIGKILL);
    rank.barrier();  // a goodbye of the other rank before that would be the first error
    if (rank.index() != 0) return;
    uint8_t byte = 0;
    void* request = &byte;
    Result result = Result::kSuccess;
    EXPECT_TRUE(until([&] {
      result = link.plugin().isend(link.comm(), {&byte, 1}, &request);
      return result != Result::kSuccess;
    }));
    EXPECT_EQ(result, Result::kSystemError);
    void* comm = nullptr;
    HandleBuffer handle = link.handle();
    EXPECT_EQ(link.plugin().connect(0, handle.data(), &comm), Result::kSystemError);
    EXPECT_EQ(link.plugin().listen(0, handle.data(), &comm), Result::kSystemError);
    EXPECT_EQ(count_logged("the Lyre daemon at"), 1u) << logged_text();
    link.close();
  };
  const std::vector<RankEnd> ends = run_ranks({body, body});
  pair->kill(0);
  EXPECT_EQ(ends[0].exit_status, 0) << ends[0].stderr_text;
}

// Moves verified messages until `is_over` and for a while after it. The last one carries a mark.
void stream_until(Rank& rank, Link& link, const std::function<bool()>& is_over) {
  constexpr int kMessagesAfter = 20;
  int left = kMessagesAfter;
  for (uint64_t number = 0; left > 0; ++number) {
    std::vector<uint8_t> expected = pattern(number, kBytes);
    if (rank.index() == 0) {
      if (is_over()) --left;
      expected[0] = left == 0 ? 1 : 0;
      link.finish(link.isend(expected.data(), kBytes));
    } else {
      std::vector<uint8_t> got(kBytes);
      ASSERT_EQ(link.finish(link.irecv(got.data(), kBytes)), static_cast<int>(kBytes));
      if (got[0] == 1) left = 0;
      expected[0] = got[0];
      ASSERT_TRUE(got == expected) << "message " << number;
    }
  }
}

struct Restart {
  int victim;
  const char* streams;
};

class DaemonRestarted : public ::testing::TestWithParam<Restart> {};
INSTANTIATE_TEST_SUITE_P(Host, DaemonRestarted,
                         ::testing::Values(Restart{0, "1"}, Restart{1, "1"}, Restart{0, "4"},
                                           Restart{1, "4"}),
                         [](const auto& instance) {
                           return std::string(instance.param.victim == 0 ? "OfTheSender"
                                                                         : "OfTheReceiver") +
                                  instance.param.streams + "Streams";
                         });

using Work = std::function<void(Rank&, Link&, const std::atomic<bool>& is_back)>;

/// Both ranks do `work` while a daemon is killed and started again. Then `is_back` is set.
void expect_incident(const Restart& restart, const Work& work) {
  const std::unique_ptr<DaemonPair> pair = own_daemons();
  auto* is_back = static_cast<std::atomic<bool>*>(::mmap(nullptr, sizeof(std::atomic<bool>),
                                                         PROT_READ | PROT_WRITE,
                                                         MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const RankBody body = [&](Rank& rank) {
    ::setenv("LYRE_STREAMS", restart.streams, 1);
    ::setenv("LYRE_RESUME_SECONDS", "60", 1);  // the machine may start a daemon slowly
    Link link(rank, kAbi, *pair);
    work(rank, link, *is_back);
    link.close();
    EXPECT_TRUE(logged_warnings().empty()) << logged_text();
  };
  std::chrono::duration<double> away{};
  const std::vector<RankEnd> ends = run_ranks({body, body}, 120, [&] {
    ::usleep(300'000);  // at any point of the transfer
    const auto killed = std::chrono::steady_clock::now();
    pair->kill(restart.victim);
    pair->restart(restart.victim);
    away = std::chrono::steady_clock::now() - killed;
    is_back->store(true);
  });
  for (const RankEnd& end : ends) {
    EXPECT_EQ(end.exit_status, 0) << "signal " << end.signal << ", the daemon was away for "
                                  << away.count() << " s\n"
                                  << end.stderr_text << pair->log_tail(0) << pair->log_tail(1);
  }
  ::munmap(is_back, sizeof(*is_back));
}

TEST_P(DaemonRestarted, InMidTransferIsSurvived) {
  expect_incident(GetParam(), [](Rank& rank, Link& link, const std::atomic<bool>& is_back) {
    stream_until(rank, link, [&] { return is_back.load(); });
  });
}

TEST_P(DaemonRestarted, WhileIdleIsSurvived) {
  expect_incident(GetParam(), [](Rank& rank, Link& link, const std::atomic<bool>& is_back) {
    work_some(rank, link);
    while (!is_back.load()) ::usleep(10'000);  // NCCL does not call the plugin while it computes
    work_some(rank, link);
  });
}

bool has_said(const std::string& text) { return logged_text().find(text) != std::string::npos; }

// Does `work` on a link of several streams. Nothing may go wrong.
void expect_no_warning(DaemonPair& pair, const std::function<void(Rank&, Link&)>& work) {
  const RankBody body = [&](Rank& rank) {
    ::setenv("LYRE_STREAMS", "4", 1);
    Link link(rank, kAbi, pair);
    work(rank, link);
    link.close();
    EXPECT_TRUE(logged_warnings().empty()) << logged_text();
  };
  expect_ranks({body, body});
}

// Returns when none of its threads runs: nothing that is sent from then on is acknowledged.
void stop_process(pid_t process) {
  ::kill(process, SIGSTOP);
  const auto is_stopped = [](const std::filesystem::directory_entry& thread) {
    std::ifstream file(thread.path() / "stat");
    const std::string text(std::istreambuf_iterator<char>(file), {});
    return text.find(") T ") != std::string::npos;
  };
  const std::filesystem::path threads = "/proc/" + std::to_string(process) + "/task";
  EXPECT_TRUE(until([&] {
    const std::filesystem::directory_iterator all(threads);
    return std::all_of(begin(all), end(all), is_stopped);
  }));
}

// A stop in order tells this process of no session that ended: it only listens.
TEST(DaemonStopped, WhileACommIsListenedForIsSurvived) {
  struct Progress {
    std::atomic<bool> is_listening;
    std::atomic<bool> is_back;
  };
  const std::unique_ptr<DaemonPair> pair = own_daemons();
  auto* progress = static_cast<Progress*>(
      ::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const RankBody body = [&](Rank& rank) {
    ::setenv("LYRE_RESUME_SECONDS", "60", 1);
    Link link(rank, kAbi, Link::Unconnected{}, *pair);
    link.exchange_handle();
    if (rank.index() == 1) {
      progress->is_listening.store(true);
      // The plugin's own thread looks for the daemon: NCCL does not call it yet.
      EXPECT_TRUE(until([&] { return progress->is_back.load() && has_said("is back"); }, 60));
    }
    rank.barrier();
    link.connect();
    work_some(rank, link);
    link.close();
    EXPECT_TRUE(logged_warnings().empty()) << logged_text();
  };
  const std::vector<RankEnd> ends = run_ranks({body, body}, 120, [&] {
    ASSERT_TRUE(until([&] { return progress->is_listening.load(); }));
    pair->terminate(1);
    pair->restart(1);
    progress->is_back.store(true);
  });
  for (const RankEnd& end : ends) {
    EXPECT_EQ(end.exit_status, 0) << end.stderr_text << pair->log_tail(0) << pair->log_tail(1);
  }
  ::munmap(progress, sizeof(Progress));
}

// A stopped process is slow and has not failed: its daemon still answers.
TEST(PeerStopped, IsNotAnError) {
  ::setenv("LYRE_PEER_TIMEOUT_SECONDS", "3", 1);
  expect_no_warning(daemons(), [](Rank& rank, Link& link) {
    pid_t peer = ::getpid();
    rank.send(&peer, sizeof(peer));
    ASSERT_TRUE(rank.receive(&peer, sizeof(peer)));
    work_some(rank, link);
    std::vector<uint8_t> data(kBytes);
    if (rank.index() == 1) {
      link.finish(link.irecv(data.data(), kBytes));
      return;
    }
    ::kill(peer, SIGSTOP);
    void* request = link.isend(data.data(), kBytes);
    link.keep_testing(request, 5000);
    ::kill(peer, SIGCONT);
    link.finish(request);
  });
  ::unsetenv("LYRE_PEER_TIMEOUT_SECONDS");
}

// When all streams stop at once, none of them is replaced meanwhile. How soon each is acknowledged
// afterwards depends on the machine, and nothing is said about it.
TEST(PeersDaemonStopped, CostsNoStream) {
  const std::unique_ptr<DaemonPair> pair = own_daemons();
  expect_no_warning(*pair, [&](Rank& rank, Link& link) {
    work_some(rank, link);
    std::vector<uint8_t> data(kBytes);
    if (rank.index() == 1) {
      link.finish(link.irecv(data.data(), kBytes));
      return;
    }
    stop_process(pair->pid(1));
    void* request = link.isend(data.data(), kBytes);
    link.keep_testing(request, 2500);
    EXPECT_FALSE(has_said(" stalls")) << logged_text();
    ::kill(pair->pid(1), SIGCONT);
    link.finish(request);
  });
}

// A host without a turn answers neither ARP, for which its peer asks three times in 3 s, nor SYNs.
TEST(PeersDaemonStopped, BeforeTheFirstConnectionIsSurvived) {
  const std::unique_ptr<DaemonPair> pair = own_daemons();
  const RankBody body = [&](Rank& rank) {
    Link link(rank, kAbi, Link::Unconnected{}, *pair);
    link.exchange_handle();
    rank.barrier();
    std::jthread goes_on;
    if (rank.index() == 0) {
      stop_process(pair->pid(1));
      goes_on = std::jthread([&] {
        std::this_thread::sleep_for(std::chrono::seconds(6));
        ::kill(pair->pid(1), SIGCONT);
      });
    }
    link.connect();
    work_some(rank, link);
    link.close();
  };
  for (const RankEnd& end : run_ranks({body, body}, 120)) {
    EXPECT_EQ(end.exit_status, 0) << end.stderr_text << pair->log_tail(0) << pair->log_tail(1);
  }
}

}  // namespace
}  // namespace lyre::test
