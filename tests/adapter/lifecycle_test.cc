// Init and finalize, comms that are left open, and fork.
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
#include "stack/channel/stats.h"
#include "tests/adapter/link.h"

namespace lyre::test {
namespace {

class Lifecycle : public EachAbi {};

INSTANTIATE_TEST_SUITE_P(Abi, Lifecycle, all_abis(), name_of_abi);

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

/// From rank 0 to rank 1, as the link.
bool connects_once_more(Rank& rank, Link& link) {
  HandleBuffer handle{};
  void* listening = nullptr;
  if (rank.index() == 1) {
    if (link.plugin().listen(0, handle.data(), &listening) != Result::kSuccess) return false;
    rank.send(handle.data(), handle.size());
  } else if (!rank.receive(handle.data(), handle.size())) {
    return false;
  }
  void* comm = nullptr;
  const bool is_connected = until([&] {
    const Result result = rank.index() == 0 ? link.plugin().connect(0, handle.data(), &comm)
                                            : link.plugin().accept(listening, &comm);
    return result != Result::kSuccess || comm != nullptr;
  });
  if (listening != nullptr) link.plugin().close_listen(listening);
  if (comm == nullptr) return false;
  return is_connected && Result::kSuccess == (rank.index() == 0 ? link.plugin().close_send(comm)
                                                                : link.plugin().close_recv(comm));
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
// with splitShare or shrinkShare, uses its connections, and makes further ones.
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
      EXPECT_TRUE(connects_once_more(rank, link));
      link.close();
      HandleBuffer handle{};
      void* listening = nullptr;
      const Result ended = has_finalize(GetParam()) ? Result::kInvalidUsage : Result::kSuccess;
      EXPECT_EQ(link.plugin().listen(0, handle.data(), &listening), ended);
      if (listening != nullptr) link.plugin().close_listen(listening);
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

}  // namespace
}  // namespace lyre::test
