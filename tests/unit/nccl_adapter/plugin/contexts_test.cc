#include "nccl_adapter/plugin/contexts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nccl_adapter/abi/nccl_settings.h"
#include "nccl_adapter/plugin/plugin.h"
#include "nccl_adapter/settings.h"
#include "tests/sim/adapter/lyre_api.h"
#include "tests/unit/nccl_adapter/support/two_hosts.h"
#include "tests/unit/nccl_adapter/support/waiting_thread.h"

namespace lyre::nccl_adapter {
namespace {

using ::testing::HasSubstr;

/// Communicators that a process makes one after the other. NCCL finalizes those that it ends in
/// order. Times are virtual.
class CommunicatorsOfV11 : public TwoHosts {
 protected:
  using HandleArray = std::array<uint8_t, nccl_abi::kHandleBytesMax>;

  CommunicatorsOfV11() {
    ::setenv("LYRE_TELEMETRY_DIR", "none", 1);
    ::unsetenv(nccl_abi::kPluginUsersSetting);
    others_ = attachments();
  }
  ~CommunicatorsOfV11() override {
    for (void* context : contexts_) finalize(context);
    EXPECT_TRUE(!contexts().has_live());
    EXPECT_EQ(attachments(), others_);
    for (const char* name : {"LYRE_TELEMETRY_DIR", "LYRE_SOCKET", "LYRE_RAILS"}) ::unsetenv(name);
  }
  /// nullptr: it failed.
  void* init(const char* socket = "sim/0") {
    ::setenv("LYRE_SOCKET", socket, 1);
    void* context = nullptr;
    if (init_context(&context, 0, nullptr, nullptr) == Result::kSuccess) {
      contexts_.push_back(context);
    }
    return context;
  }
  void finalize_all() {
    for (void* context : std::exchange(contexts_, {})) {
      EXPECT_EQ(finalize(context), Result::kSuccess);
    }
  }
  static size_t attachments() { return adapter_sim::contexts().size(); }
  size_t own_attachments() const { return attachments() - others_; }

  Result listen_once(void* context) {
    HandleArray handle{};
    void* listening = nullptr;
    ::testing::internal::CaptureStderr();
    const Result result = listen(context, 0, handle.data(), &listening);
    said_ = ::testing::internal::GetCapturedStderr();
    close_listen(listening);
    return result;
  }
  Result connect_once(void* context, const HandleArray& handle) {
    HandleArray copy = handle;
    void* sender = nullptr;
    return connect(context, 0, copy.data(), &sender);
  }
  /// A comm from the one to the other carries a message.
  void expect_to_work(void* sends, void* receives) {
    HandleArray handle{};
    void* listening = nullptr;
    void* sender = nullptr;
    void* receiver = nullptr;
    ASSERT_EQ(listen(receives, 0, handle.data(), &listening), Result::kSuccess);
    ASSERT_TRUE(until([&] {
      if (sender == nullptr) connect(sends, 0, handle.data(), &sender);
      if (receiver == nullptr) accept(listening, &receiver, nullptr);
      return sender != nullptr && receiver != nullptr;
    }));
    std::array<uint8_t, 64> out{1, 2, 3};
    std::array<uint8_t, 64> in{};
    std::array<void*, 2> requests{};
    irecv(receiver, 1, in.data(), in.size(), nullptr, nullptr, &requests[0]);
    isend(sender, out.data(), out.size(), nullptr, nullptr, &requests[1]);
    EXPECT_TRUE(until([&] {
      for (void*& request : requests) {
        int done = 0;
        if (request == nullptr) continue;
        EXPECT_EQ(test(request, &done, nullptr), Result::kSuccess);
        if (done != 0) request = nullptr;
      }
      return requests[0] == nullptr && requests[1] == nullptr;
    }));
    EXPECT_EQ(in, out);
    for (void* comm : {sender, receiver}) close_comm(comm);
    close_listen(listening);
  }

  std::string said_;

 private:
  std::vector<void*> contexts_;
  size_t others_ = 0;
};

// NCCL never finalizes a communicator that it aborts before the ranks have met.
TEST_F(CommunicatorsOfV11, HoldNothingOfTheDaemonWhileTheyAreNotUsed) {
  ASSERT_NE(init(), nullptr);
  for (int i = 0; i < 300; ++i) ASSERT_NE(init(), nullptr);
  EXPECT_EQ(own_attachments(), 1u) << "of the first one";
  void* const used = init();
  void* const peer = init("sim/1");
  ASSERT_NO_FATAL_FAILURE(expect_to_work(used, peer));
  EXPECT_EQ(own_attachments(), 3u);
  ASSERT_NO_FATAL_FAILURE(expect_to_work(used, peer));
  EXPECT_EQ(own_attachments(), 3u) << "each has one";
}

TEST_F(CommunicatorsOfV11, AreRefusedAfterTheirFinalizeAlsoIfTheyWereNotUsed) {
  ASSERT_NE(init(), nullptr);
  void* context = nullptr;
  ASSERT_EQ(init_context(&context, 0, nullptr, nullptr), Result::kSuccess);
  EXPECT_EQ(finalize(context), Result::kSuccess);
  EXPECT_EQ(listen_once(context), Result::kInvalidUsage);
  EXPECT_THAT(said_, HasSubstr("the context of a communicator that it has finalized"));
  EXPECT_EQ(connect_once(context, {}), Result::kInvalidUsage);
  EXPECT_EQ(own_attachments(), 1u);
  EXPECT_EQ(finalize(context), Result::kSuccess) << "a second one finds nothing";
}

// NCCL never asks a plugin again whose init failed. While another thread inits, nothing can abort.
TEST_F(CommunicatorsOfV11, AreMadeWhileTheDaemonIsAway) {
  ASSERT_NE(init(), nullptr);
  finalize_all();
  network_.kill_daemon(0);
  const int64_t from_ns = events_.now_ns();
  void* const next = init();
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(events_.now_ns(), from_ns);
  int count = 0;
  EXPECT_EQ(devices(&count), Result::kSuccess);
  EXPECT_EQ(count, 2);
  EXPECT_EQ(listen_once(next), Result::kSystemError);
  EXPECT_GE(events_.now_ns() - from_ns, Settings{}.resume_s * kSecond);
  EXPECT_THAT(said_, HasSubstr("cannot use the Lyre daemon at sim/0"));
  network_.start_daemon(0);
  ASSERT_NO_FATAL_FAILURE(expect_to_work(next, init("sim/1")));
}

TEST_F(CommunicatorsOfV11, WaitForTheDaemonWhenTheyAreUsed) {
  ASSERT_NE(init(), nullptr);
  finalize_all();
  network_.kill_daemon(0);
  void* const next = init();
  const int64_t back_ns = events_.now_ns() + 5 * kSecond;
  bool is_back = false;
  while_asleep = [&] {
    if (is_back || events_.now_ns() < back_ns) return;
    is_back = true;
    network_.start_daemon(0);
  };
  EXPECT_EQ(listen_once(next), Result::kSuccess) << said_;
}

// NCCL was told of two ports.
TEST_F(CommunicatorsOfV11, FailWhenTheyAreUsedAndTheDaemonIsBackWithFewerPorts) {
  ASSERT_NE(init(), nullptr);
  finalize_all();
  network_.kill_daemon(0);
  ::setenv("LYRE_RAILS", "rail0", 1);  // as if the daemon had only that one
  void* const next = init();
  network_.start_daemon(0);
  EXPECT_EQ(listen_once(next), Result::kSystemError);
  EXPECT_THAT(said_, HasSubstr("at sim/0: 1, and 2 when this process began: restart the job"));
}

TEST_F(CommunicatorsOfV11, ThreadsThatUseOneFirstWaitAtTheSameTime) {
  ASSERT_NE(init(), nullptr);
  finalize_all();
  network_.kill_daemon(0);
  void* const next = init();
  int64_t from_ns = events_.now_ns();
  EXPECT_EQ(listen_once(next), Result::kSystemError);
  const int64_t alone_ns = events_.now_ns() - from_ns;
  ASSERT_GT(alone_ns, kSecond);
  from_ns = events_.now_ns();
  Result result = Result::kSuccess;
  std::thread other;
  while_asleep = [&] {
    if (!other.joinable()) other = start_waiting([&] { result = connect_once(next, {}); });
  };
  EXPECT_EQ(listen_once(next), Result::kSystemError);
  ASSERT_TRUE(other.joinable());
  other.join();
  EXPECT_EQ(result, Result::kSystemError);
  EXPECT_LT(events_.now_ns() - from_ns, alone_ns + kSecond);
}

}  // namespace
}  // namespace lyre::nccl_adapter
