// How a process comes to its daemon: missing daemons, daemons that are full, wrong settings.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lyre/lyre.h"
#include "nccl_adapter/abi/nccl_settings.h"
#include "tests/adapter/link.h"

namespace lyre::test {
namespace {

class Attach : public EachAbi {};

INSTANTIATE_TEST_SUITE_P(Abi, Attach, all_abis(), name_of_abi);

// A communicator attaches to its daemon when it makes a connection.
Result listen_once(NetPlugin& plugin) {
  HandleBuffer handle{};
  void* listening = nullptr;
  const Result result = plugin.listen(0, handle.data(), &listening);
  if (result != Result::kSuccess) return result;
  return plugin.close_listen(listening);
}

TEST_P(Attach, WithoutADaemonInitFailsWithOneLine) {
  expect_ranks({[](Rank&) {
    ::setenv("LYRE_SOCKET", "/nonexistent/lyred.sock", 1);
    const auto plugin = load_tested_plugin(GetParam());
    EXPECT_EQ(plugin->init(kCommId), Result::kSystemError);
    EXPECT_EQ(logged_warnings().size(), 1u) << logged_text();
    EXPECT_TRUE(has_logged("Lyre daemon at /nonexistent/lyred.sock: ")) << logged_text();
  }});
}

// As while it is restarted.
TEST_P(Attach, ALaterCommunicatorWaitsForTheDaemon) {
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
TEST_P(Attach, TheFirstInitWaitsForADaemonThatIsRequired) {
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
TEST_P(Attach, APluginThatNcclWouldLoseSaysSoOnce) {
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
TEST_P(Attach, ACommunicatorTakesThePlaceOfOneThatWasFinalized) {
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
TEST_P(Attach, AbandonedInitsHoldNothing) {
  if (!has_finalize(GetParam())) GTEST_SKIP() << kOneContext;
  const auto pair = own_daemons(kTwoContexts);
  expect_ranks({[&](Rank&) {
    ::setenv("LYRE_SOCKET", pair->socket(0).c_str(), 1);
    std::vector<std::unique_ptr<NetPlugin>> abandoned;
    size_t files = 0;
    size_t threads = 0;
    for (uint64_t i = 0; i < 20; ++i) {
      abandoned.push_back(load_tested_plugin(GetParam()));
      ASSERT_EQ(abandoned.back()->init(kCommId + i), Result::kSuccess) << logged_text();
      if (i > 0) continue;
      files = count_entries("/proc/self/fd");
      threads = count_entries("/proc/self/task");
    }
    EXPECT_EQ(count_entries("/proc/self/fd"), files);
    EXPECT_EQ(count_entries("/proc/self/task"), threads);
    EXPECT_EQ(listen_once(*abandoned.back()), Result::kSuccess) << logged_text();
  }});
}

// A daemon that has none left is there, and wanted: NCCL never asks again.
TEST_P(Attach, TheFirstInitWaitsForAContext) {
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

TEST_P(Attach, ALaterCommunicatorWaitsForAContext) {
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

void expect_ended_with(const RankEnd& end, const std::string& line) {
  EXPECT_EQ(end.exit_status, 1);
  EXPECT_NE(end.stderr_text.find(line), std::string::npos) << end.stderr_text;
}

TEST_P(Attach, RequiredDaemonThatIsMissingEndsTheProcess) {
  const std::vector<RankEnd> ends = run_ranks({[](Rank&) {
    ::setenv("LYRE_SOCKET", "/nonexistent/lyred.sock", 1);
    ::setenv("LYRE_REQUIRED", "1", 1);
    ::setenv("LYRE_RESUME_SECONDS", "1", 1);
    const auto plugin = load_tested_plugin(GetParam());
    (void)plugin->init(kCommId);
    ::_exit(77);  // not reached
  }});
  expect_ended_with(ends[0],
                    "LYRE_REQUIRED is set and no usable Lyre daemon at /nonexistent/lyred.sock");
}

TEST_P(Attach, WrongSettingIsNamed) {
  expect_ranks({[](Rank&) {
    ::setenv("LYRE_PEER_TIMEOUT_SECONDS", "soon", 1);
    const auto plugin = load_tested_plugin(GetParam());
    EXPECT_NE(plugin->init(kCommId), Result::kSuccess);
    EXPECT_TRUE(has_logged("LYRE_PEER_TIMEOUT_SECONDS is \"soon\": allowed are")) << logged_text();
  }});
}

TEST_P(Attach, AMisspeltSettingIsNamedOnce) {
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

TEST_P(Attach, WrongSettingEndsTheProcessThatRequiresADaemon) {
  const std::vector<RankEnd> ends = run_ranks({[](Rank&) {
    ::setenv("LYRE_REQUIRED", "yes", 1);
    ::setenv("LYRE_PEER_TIMEOUT_SECONDS", "soon", 1);
    const auto plugin = load_tested_plugin(GetParam());
    (void)plugin->init(kCommId);
    ::_exit(77);  // not reached
  }});
  expect_ended_with(ends[0], "LYRE_REQUIRED is set and a setting is wrong");
}

}  // namespace
}  // namespace lyre::test
