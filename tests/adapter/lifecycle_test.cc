// Init and finalize, comms that are left open, fork, and missing daemons.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <utility>

#include "libclient/stats_segment.h"
#include "lyre/lyre.h"
#include "nccl_adapter/abi/nccl_settings.h"
#include "stack/channel/stats.h"
#include "tests/adapter/link.h"

namespace lyre::test {
namespace {

class Lifecycle : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { daemons(); }
};

INSTANTIATE_TEST_SUITE_P(Abi, Lifecycle, ::testing::Values(8, 9, 10, 11, 12),
                         [](const auto& instance) { return "v" + std::to_string(instance.param); });

void send_one_word(Rank& rank, Link& link) {
  uint32_t word = rank.index() == 0 ? 0xfeedu : 0;
  link.finish(rank.index() == 0 ? link.isend(&word, sizeof(word))
                                : link.irecv(&word, sizeof(word)));
  EXPECT_EQ(word, 0xfeedu);
}

// The resources of a process, and those that its daemon keeps for it.
struct Holdings {
  size_t files = 0;
  size_t threads = 0;
  uint64_t contexts = 0;
  bool operator==(const Holdings&) const = default;
};

size_t count_entries(const char* folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

Holdings holdings(const Rank& rank) {
  client::Mapping stats;
  EXPECT_EQ(client::map_stats_segment(daemons().socket(rank.index()).c_str(), stats), 0);
  const Holdings found{
      .files = count_entries("/proc/self/fd"),
      .threads = count_entries("/proc/self/task"),
      .contexts = reinterpret_cast<const channel::StatsHeader*>(stats.data())->clients.get()};
  return found;
}

// The daemon may not have detected the end of an earlier rank.
Holdings holdings_without_contexts(const Rank& rank) {
  Holdings found = holdings(rank);
  found.contexts = 0;
  return found;
}

// Before v11 the plugin is not told when its last communicator ends.
bool has_finalize(int abi) { return abi >= 11; }
constexpr const char* kOneContext = "does not apply: all communicators share one context";

// A communicator attaches to its daemon when it makes a connection.
Result listen_once(NetPlugin& plugin) {
  HandleBuffer handle{};
  void* listening = nullptr;
  const Result result = plugin.listen(0, handle.data(), &listening);
  if (result != Result::kSuccess) return result;
  return plugin.close_listen(listening);
}

TEST_P(Lifecycle, InitAndFinalizeManyTimesWithUnloadsBetween) {
  const RankBody body = [](Rank& rank) {
    const Holdings before = holdings_without_contexts(rank);
    for (int cycle = 0; cycle < 5; ++cycle) {
      Link link(rank, GetParam());
      send_one_word(rank, link);
      link.close();
      link.plugin().unload();
      rank.barrier();
    }
    if (has_finalize(GetParam())) {
      EXPECT_TRUE(until([&] { return holdings(rank) == before; }));
    }
  };
  expect_ranks({body, body});
}

TEST_P(Lifecycle, TheLastMessageArrivesWhicheverRankEndsFirst) {
  const RankBody body = [](Rank& rank) {
    Link link(rank, GetParam());
    std::vector<uint8_t> data =
        rank.index() == 0 ? pattern(3, 300'000) : std::vector<uint8_t>(300'000);
    link.finish(rank.index() == 0 ? link.isend(data.data(), data.size())
                                  : link.irecv(data.data(), data.size()));
    EXPECT_TRUE(data == pattern(3, 300'000));
    link.close();
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  };
  for (int i = 0; i < 5; ++i) expect_ranks({body, body});
}

TEST_P(Lifecycle, CloseWithRequestsInFlightIsSafe) {
  const RankBody body = [](Rank& rank) {
    Link link(rank, GetParam());
    auto data = std::make_unique<std::vector<uint8_t>>(8 << 20);
    void* mhandle = nullptr;
    ASSERT_EQ(
        link.plugin().reg_mr(link.comm(), data->data(), data->size(), nccl_abi::kPtrHost, &mhandle),
        Result::kSuccess);
    for (size_t i = 0; i < 8; ++i) {
      void* at = data->data() + (i << 20);
      void* request = rank.index() == 0 ? link.isend(at, 1 << 20) : link.irecv(at, 1 << 20);
      // Rank 1 receives more than rank 0 sends, so that both have requests in flight.
      if (i == 3 && rank.index() == 0) break;
      EXPECT_NE(request, nullptr);
    }
    rank.barrier();
    // NCCL's order at abort: deregister, free, close.
    EXPECT_EQ(link.plugin().dereg_mr(link.comm(), mhandle), Result::kSuccess);
    data.reset();
    link.close();
  };
  expect_ranks({body, body});
}

TEST_P(Lifecycle, NothingIsWrittenAfterDereg) {
  expect_ranks(
      {[](Rank& rank) {
         Link link(rank, GetParam());
         rank.barrier();  // both are connected
         rank.barrier();
         std::vector<uint8_t> data(20'000, 0xaa);  // a small one may be done before it is refused
         void* request = nullptr;
         Result result = link.plugin().isend(link.comm(), {data.data(), data.size()}, &request);
         if (request != nullptr) result = link.finish_with_error(request);
         EXPECT_EQ(result, Result::kRemoteError);
         rank.barrier();
         link.close();
       },
       [](Rank& rank) {
         Link link(rank, GetParam());
         rank.barrier();
         std::vector<uint8_t> data(1000, 0x55);
         void* mhandle = nullptr;
         ASSERT_EQ(link.plugin().reg_mr(link.comm(), data.data(), data.size(), nccl_abi::kPtrHost,
                                        &mhandle),
                   Result::kSuccess);
         void* request = link.irecv(data.data(), data.size());
         EXPECT_EQ(link.plugin().dereg_mr(link.comm(), mhandle), Result::kSuccess);
         rank.barrier();
         EXPECT_NE(link.finish_with_error(request), Result::kSuccess);
         EXPECT_EQ(data, std::vector<uint8_t>(1000, 0x55));
         rank.barrier();
         link.close();
       }});
}

TEST_P(Lifecycle, AbortInMidHandshakeLeaksNothing) {
  const RankBody body = [](Rank& rank) {
    const Holdings before = holdings_without_contexts(rank);
    {
      Link link(rank, GetParam(), Link::Unconnected{});
      link.exchange_handle();
      void* comm = nullptr;
      for (int i = 0; i < 100 && comm == nullptr; ++i) {
        ASSERT_EQ(rank.index() == 0 ? link.plugin().connect(0, link.handle().data(), &comm)
                                    : link.plugin().accept(link.listen_comm(), &comm),
                  Result::kSuccess);
      }
      rank.barrier();
      if (comm != nullptr) {
        rank.index() == 0 ? link.plugin().close_send(comm) : link.plugin().close_recv(comm);
      }
      // NCCL does not close a comm that is not established.
      EXPECT_EQ(link.plugin().finalize(), Result::kSuccess);
      rank.barrier();
    }
    if (has_finalize(GetParam())) {
      EXPECT_TRUE(until([&] { return holdings(rank) == before; }));
    }
  };
  expect_ranks({body, body});
}

// From v11 on each communicator has its own context. Before, they share one.
TEST_P(Lifecycle, SeveralCommunicatorsLiveInOneProcess) {
  const RankBody body = [](Rank& rank) {
    std::vector<std::unique_ptr<Link>> links;
    for (int i = 0; i < 3; ++i) links.push_back(std::make_unique<Link>(rank, GetParam()));
    const size_t contexts = has_finalize(GetParam()) ? links.size() : 1;
    EXPECT_TRUE(until([&] { return holdings(rank).contexts == contexts; }));
    while (!links.empty()) {
      for (const auto& link : links) send_one_word(rank, *link);
      links[links.size() / 2]->close();
      links.erase(links.begin() + static_cast<ptrdiff_t>(links.size() / 2));
    }
  };
  expect_ranks({body, body});
}

// NCCL 2.28.3 to 2.28.6 finalizes the context of a communicator while another one, made from it
// with splitShare or shrinkShare, uses its connections.
TEST_P(Lifecycle, CommsOutliveTheContextThatMadeThem) {
  const RankBody body = [](Rank& rank) {
    const Holdings before = holdings_without_contexts(rank);
    {
      Link link(rank, GetParam());
      EXPECT_EQ(link.plugin().finalize(), Result::kSuccess);
      std::vector<uint8_t> data(300'000);
      void* mhandle = nullptr;
      ASSERT_EQ(
          link.plugin().reg_mr(link.comm(), data.data(), data.size(), nccl_abi::kPtrHost, &mhandle),
          Result::kSuccess);
      send_one_word(rank, link);
      EXPECT_EQ(link.plugin().dereg_mr(link.comm(), mhandle), Result::kSuccess);
      link.close();
    }
    rank.barrier();
    if (has_finalize(GetParam())) {
      EXPECT_TRUE(until([&] { return holdings(rank) == before; }));
    }
  };
  expect_ranks({body, body});
}

TEST_P(Lifecycle, WhatFinalizeLeftOpenDoesNotDisturbTheNext) {
  const RankBody body = [](Rank& rank) {
    {
      Link link(rank, GetParam());
      send_one_word(rank, link);
      EXPECT_EQ(link.plugin().finalize(), Result::kSuccess);
    }
    rank.barrier();
    Link link(rank, GetParam());
    send_one_word(rank, link);
    link.close();
  };
  expect_ranks({body, body});
}

TEST_P(Lifecycle, ManyCommsAtOnce) {
  const RankBody body = [](Rank& rank) {
    Link link(rank, GetParam());
    std::vector<void*> comms = {link.comm()};
    while (comms.size() < 256) {
      link.connect();
      comms.push_back(link.comm());
    }
    std::vector<uint32_t> words(comms.size());
    std::vector<void*> requests(comms.size());
    for (size_t i = 0; i < comms.size(); ++i) {
      if (rank.index() == 0) words[i] = static_cast<uint32_t>(i);
      const Result result = rank.index() == 0
                                ? link.plugin().isend(comms[i], {&words[i], 4}, &requests[i])
                                : link.plugin().irecv(comms[i], {&words[i], 4}, &requests[i]);
      ASSERT_EQ(result, Result::kSuccess);
    }
    for (size_t i = 0; i < comms.size(); ++i) {
      link.finish(requests[i]);
      EXPECT_EQ(words[i], i);
    }
    for (size_t i = 0; i + 1 < comms.size(); ++i) {
      rank.index() == 0 ? link.plugin().close_send(comms[i]) : link.plugin().close_recv(comms[i]);
    }
    link.close();
  };
  expect_ranks({body, body});
}

TEST_P(Lifecycle, CommsOfOneProcessServeSeveralThreads) {
  const RankBody body = [](Rank& rank) {
    Link link(rank, GetParam());
    std::vector<void*> comms = {link.comm()};
    while (comms.size() < 4) {
      link.connect();
      comms.push_back(link.comm());
    }
    std::vector<std::thread> threads;
    for (size_t i = 0; i < comms.size(); ++i) {
      threads.emplace_back([&, comm = comms[i], i] {
        for (uint64_t n = 0; n < 50; ++n) {
          const std::vector<uint8_t> expected = pattern(i * 1000 + n, 10'000);
          std::vector<uint8_t> data = rank.index() == 0 ? expected : std::vector<uint8_t>(10'000);
          void* request = nullptr;
          ASSERT_EQ(rank.index() == 0
                        ? link.plugin().isend(comm, {data.data(), data.size()}, &request)
                        : link.plugin().irecv(comm, {data.data(), data.size()}, &request),
                    Result::kSuccess);
          link.finish(request);
          EXPECT_TRUE(data == expected);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (size_t i = 0; i + 1 < comms.size(); ++i) {
      rank.index() == 0 ? link.plugin().close_send(comms[i]) : link.plugin().close_recv(comms[i]);
    }
    link.close();
  };
  expect_ranks({body, body});
}

// After fork() the child cannot use its parent's comms, and the parent can.
TEST_P(Lifecycle, ForkAfterInit) {
  const RankBody body = [](Rank& rank) {
    Link link(rank, GetParam());
    const pid_t child = ::fork();
    if (child == 0) {
      uint32_t word = 1;
      void* request = nullptr;
      const Result used = rank.index() == 0
                              ? link.plugin().isend(link.comm(), {&word, 4}, &request)
                              : link.plugin().irecv(link.comm(), {&word, 4}, &request);
      const Result opened = link.plugin().init(kCommId);
      const bool is_right = used == Result::kInvalidUsage && opened == Result::kInvalidUsage &&
                            request == nullptr && count_logged("was forked after") == 1;
      ::_exit(is_right ? 0 : 1);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << "in the child";
    send_one_word(rank, link);
    link.close();
  };
  expect_ranks({body, body});
}

TEST_P(Lifecycle, TelemetryFilesOfEndedProcessesAreRemoved) {
  std::string directory = (std::filesystem::temp_directory_path() / "lyre-shown-XXXXXX").string();
  ASSERT_NE(::mkdtemp(directory.data()), nullptr);
  ::setenv("LYRE_TELEMETRY_DIR", directory.c_str(), 1);
  run_ranks({[](Rank& rank) {
    Link link(rank, GetParam(), Link::Unconnected{});
    ::raise(SIGKILL);
  }});
  EXPECT_EQ(count_entries(directory.c_str()), 1u);
  const RankBody body = [&](Rank& rank) {
    Link link(rank, GetParam(), Link::Unconnected{});
    rank.barrier();
    EXPECT_EQ(count_entries(directory.c_str()), 2u);
    rank.barrier();
    link.close();
  };
  expect_ranks({body, body});
  ::unsetenv("LYRE_TELEMETRY_DIR");
  std::filesystem::remove_all(directory);
}

TEST_P(Lifecycle, WithoutADaemonInitFailsWithOneLine) {
  expect_ranks({[](Rank&) {
    ::setenv("LYRE_SOCKET", "/nonexistent/lyred.sock", 1);
    const auto plugin = load_tested_plugin(GetParam());
    EXPECT_EQ(plugin->init(kCommId), Result::kSystemError);
    EXPECT_EQ(logged_warnings().size(), 1u) << logged_text();
    EXPECT_TRUE(has_logged("Lyre daemon at /nonexistent/lyred.sock: ")) << logged_text();
  }});
}

// NCCL 2.28.3 does so with the parent of a split that shares its resources.
TEST_P(Lifecycle, AContextThatWasFinalizedIsRefused) {
  if (!has_finalize(GetParam())) GTEST_SKIP() << kOneContext;
  expect_ranks({[](Rank&) {
    ::setenv("LYRE_SOCKET", daemons().socket(0).c_str(), 1);
    const auto plugin = load_tested_plugin(GetParam());
    ASSERT_EQ(plugin->init(kCommId), Result::kSuccess);
    ASSERT_EQ(plugin->finalize(), Result::kSuccess);
    HandleBuffer handle{};
    void* listening = nullptr;
    EXPECT_EQ(plugin->listen(0, handle.data(), &listening), Result::kInvalidUsage);
    void* sending = nullptr;
    EXPECT_EQ(plugin->connect(0, handle.data(), &sending), Result::kInvalidUsage);
  }});
}

// As while it is restarted.
TEST_P(Lifecycle, ALaterCommunicatorWaitsForTheDaemon) {
  if (!has_finalize(GetParam())) GTEST_SKIP() << kOneContext;
  expect_ranks({[](Rank&) {
    char folder[] = "/tmp/lyre-away-XXXXXX";
    ASSERT_NE(::mkdtemp(folder), nullptr);
    const std::string socket = std::string(folder) + "/lyred.sock";
    const std::string real = daemons().socket(0);
    ASSERT_EQ(::symlink(real.c_str(), socket.c_str()), 0);
    ::setenv("LYRE_SOCKET", socket.c_str(), 1);
    const auto plugin = load_tested_plugin(GetParam());
    ASSERT_EQ(plugin->init(kCommId), Result::kSuccess);
    ASSERT_EQ(::unlink(socket.c_str()), 0);
    std::thread daemon([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(700));
      ASSERT_EQ(::symlink(real.c_str(), socket.c_str()), 0);
    });
    const auto more = load_tested_plugin(GetParam());
    EXPECT_EQ(more->init(kCommId), Result::kSuccess) << logged_text();
    EXPECT_EQ(listen_once(*more), Result::kSuccess) << logged_text();
    daemon.join();
    std::filesystem::remove_all(folder);
  }});
}

// torchrun starts ranks anew also while the daemon is restarted.
TEST_P(Lifecycle, TheFirstInitWaitsForADaemonThatIsRequired) {
  expect_ranks({[](Rank&) {
    char folder[] = "/tmp/lyre-away-XXXXXX";
    ASSERT_NE(::mkdtemp(folder), nullptr);
    const std::string socket = std::string(folder) + "/lyred.sock";
    ::setenv("LYRE_SOCKET", socket.c_str(), 1);
    ::setenv("LYRE_REQUIRED", "1", 1);
    std::thread daemon([real = daemons().socket(0), &socket] {
      EXPECT_TRUE(
          until([] { return logged_text().find("trying again for 10 s") != std::string::npos; }));
      ASSERT_EQ(::symlink(real.c_str(), socket.c_str()), 0);
    });
    const auto plugin = load_tested_plugin(GetParam());
    EXPECT_EQ(plugin->init(kCommId), Result::kSuccess) << logged_text();
    daemon.join();
    std::filesystem::remove_all(folder);
  }});
}

// NCCL 2.28.3 to 2.29.7, which take v11.
TEST_P(Lifecycle, APluginThatNcclWouldLoseSaysSoOnce) {
  const bool loses = GetParam() == 11;
  expect_ranks({[&](Rank&) {
    ::setenv("LYRE_SOCKET", daemons().socket(0).c_str(), 1);
    ::setenv(nccl_abi::kPluginUsersSetting, "0", 1);
    for (uint64_t i = 0; i < 2; ++i) {
      const auto plugin = load_tested_plugin(GetParam());
      ASSERT_EQ(plugin->init(kCommId + i), Result::kSuccess) << logged_text();
      EXPECT_EQ(plugin->finalize(), Result::kSuccess);
      plugin->unload();
      EXPECT_EQ(plugin->library_name().empty(), loses);
    }
    EXPECT_EQ(count_logged("export NCCL_NET_PLUGIN_REF_COUNT=1"), loses ? 1u : 0u) << logged_text();
  }});
}

// Contexts of one uid: as many as two communicators need.
constexpr const char* kTwoContexts = "[clients]\ncontexts_per_uid_max = 2\n";

// The daemon frees the context of the one that was finalized when its workers have let go of it.
TEST_P(Lifecycle, ACommunicatorTakesThePlaceOfOneThatWasFinalized) {
  if (!has_finalize(GetParam())) GTEST_SKIP() << kOneContext;
  const auto pair = own_daemons(kTwoContexts);
  expect_ranks({[&](Rank&) {
    ::setenv("LYRE_SOCKET", pair->socket(0).c_str(), 1);
    auto older = load_tested_plugin(GetParam());
    auto newer = load_tested_plugin(GetParam());
    ASSERT_EQ(older->init(kCommId), Result::kSuccess);
    ASSERT_EQ(newer->init(kCommId + 1), Result::kSuccess);
    ASSERT_EQ(listen_once(*newer), Result::kSuccess);
    for (uint64_t i = 2; i < 20; ++i) {
      ASSERT_EQ(older->finalize(), Result::kSuccess);
      ASSERT_EQ(older->init(kCommId + i), Result::kSuccess) << logged_text();
      ASSERT_EQ(listen_once(*older), Result::kSuccess) << logged_text();
      std::swap(older, newer);
    }
  }});
}

// NCCL never finalizes a communicator that it aborts before the ranks have met.
TEST_P(Lifecycle, AbandonedInitsHoldNothing) {
  if (!has_finalize(GetParam())) GTEST_SKIP() << kOneContext;
  const auto pair = own_daemons(kTwoContexts);
  expect_ranks({[&](Rank& rank) {
    ::setenv("LYRE_SOCKET", pair->socket(0).c_str(), 1);
    std::vector<std::unique_ptr<NetPlugin>> abandoned;
    Holdings one;
    for (uint64_t i = 0; i < 20; ++i) {
      abandoned.push_back(load_tested_plugin(GetParam()));
      ASSERT_EQ(abandoned.back()->init(kCommId + i), Result::kSuccess) << logged_text();
      if (i == 0) one = holdings_without_contexts(rank);
    }
    EXPECT_EQ(holdings_without_contexts(rank), one);
    EXPECT_EQ(listen_once(*abandoned.back()), Result::kSuccess) << logged_text();
  }});
}

// A daemon that has none left is there, and wanted: NCCL never asks again.
TEST_P(Lifecycle, TheFirstInitWaitsForAContext) {
  const auto pair = own_daemons(kTwoContexts);
  expect_ranks({[&](Rank&) {
    ::setenv("LYRE_SOCKET", pair->socket(0).c_str(), 1);
    const lyre_options options{.struct_bytes = sizeof options,
                               .socket_path = pair->socket(0).c_str()};
    std::array<lyre_context*, 2> others{};
    for (lyre_context*& other : others) ASSERT_EQ(lyre_context_open(&options, &other), 0);
    std::thread frees_one([&] {
      EXPECT_TRUE(
          until([] { return logged_text().find("trying again for 2 s") != std::string::npos; }));
      lyre_context_close(others[0]);
    });
    const auto plugin = load_tested_plugin(GetParam());
    EXPECT_EQ(plugin->init(kCommId), Result::kSuccess) << logged_text();
    frees_one.join();
    lyre_context_close(others[1]);
  }});
}

TEST_P(Lifecycle, ALaterCommunicatorWaitsForAContext) {
  if (!has_finalize(GetParam())) GTEST_SKIP() << kOneContext;
  const auto pair = own_daemons(kTwoContexts);
  expect_ranks({[&](Rank&) {
    ::setenv("LYRE_SOCKET", pair->socket(0).c_str(), 1);
    const auto plugin = load_tested_plugin(GetParam());
    ASSERT_EQ(plugin->init(kCommId), Result::kSuccess);
    lyre_context* other = nullptr;
    const lyre_options options{.struct_bytes = sizeof options,
                               .socket_path = pair->socket(0).c_str()};
    ASSERT_EQ(lyre_context_open(&options, &other), 0);
    std::thread frees_it([&] {
      EXPECT_TRUE(
          until([] { return logged_text().find("trying again for 2 s") != std::string::npos; }));
      lyre_context_close(other);
    });
    const auto more = load_tested_plugin(GetParam());
    EXPECT_EQ(more->init(kCommId + 1), Result::kSuccess) << logged_text();
    EXPECT_EQ(listen_once(*more), Result::kSuccess) << logged_text();
    frees_it.join();
  }});
}

TEST_P(Lifecycle, RequiredDaemonThatIsMissingEndsTheProcess) {
  const std::vector<RankEnd> ends = run_ranks({[](Rank&) {
    ::setenv("LYRE_SOCKET", "/nonexistent/lyred.sock", 1);
    ::setenv("LYRE_REQUIRED", "1", 1);
    ::setenv("LYRE_RESUME_SECONDS", "1", 1);
    const auto plugin = load_tested_plugin(GetParam());
    (void)plugin->init(kCommId);
    ::_exit(77);  // not reached
  }});
  EXPECT_EQ(ends[0].exit_status, 1);
  EXPECT_NE(ends[0].stderr_text.find("LYRE_REQUIRED is set and no usable Lyre daemon at "
                                     "/nonexistent/lyred.sock"),
            std::string::npos)
      << ends[0].stderr_text;
}

TEST_P(Lifecycle, WrongSettingIsNamed) {
  expect_ranks({[](Rank&) {
    ::setenv("LYRE_PEER_TIMEOUT_SECONDS", "soon", 1);
    const auto plugin = load_tested_plugin(GetParam());
    EXPECT_NE(plugin->init(kCommId), Result::kSuccess);
    EXPECT_TRUE(has_logged("LYRE_PEER_TIMEOUT_SECONDS is \"soon\": allowed are")) << logged_text();
  }});
}

TEST_P(Lifecycle, AMisspeltSettingIsNamedOnce) {
  expect_ranks({[](Rank&) {
    ::setenv("LYRE_STREAM", "4", 1);
    const auto plugin = load_tested_plugin(GetParam());
    (void)plugin->init(kCommId);
    (void)plugin->init(kCommId + 1);
    EXPECT_EQ(count_logged(
                  "LYRE_STREAM is not a setting of Lyre, and is ignored; is LYRE_STREAMS meant?"),
              1u)
        << logged_text();
  }});
}

TEST_P(Lifecycle, WrongSettingEndsTheProcessThatRequiresADaemon) {
  const std::vector<RankEnd> ends = run_ranks({[](Rank&) {
    ::setenv("LYRE_REQUIRED", "yes", 1);
    ::setenv("LYRE_PEER_TIMEOUT_SECONDS", "soon", 1);
    const auto plugin = load_tested_plugin(GetParam());
    (void)plugin->init(kCommId);
    ::_exit(77);  // not reached
  }});
  EXPECT_EQ(ends[0].exit_status, 1);
  EXPECT_NE(ends[0].stderr_text.find("LYRE_REQUIRED is set and a setting is wrong"),
            std::string::npos)
      << ends[0].stderr_text;
}

}  // namespace
}  // namespace lyre::test
