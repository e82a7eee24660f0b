#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>

#include "nccl_adapter/abi/net.h"
#include "nccl_adapter/daemon_link/instance.h"
#include "nccl_adapter/limits.h"
#include "nccl_adapter/plugin/plugin.h"
#include "nccl_adapter/protocol/handle.h"
#include "tests/sim/adapter/lyre_api.h"
#include "tests/unit/nccl_adapter/support/two_hosts.h"
#include "tests/unit/nccl_adapter/support/waiting_thread.h"

extern "C" {
extern const lyre::nccl_abi::NetV10 ncclNetPlugin_v10;
}

namespace lyre::nccl_adapter {
namespace {

using ::testing::HasSubstr;

/// v8 to v10: NCCL calls init once a process.
class ProcessInstance : public TwoHosts {
 protected:
  ProcessInstance() {
    ::setenv("LYRE_TELEMETRY_DIR", "none", 1);
    ::setenv("LYRE_SOCKET", "sim/0", 1);
    EXPECT_EQ(plugin_.init(nullptr, nullptr), Result::kSuccess);
  }
  ~ProcessInstance() override {
    finalize(process_context());
    for (const char* name : {"LYRE_TELEMETRY_DIR", "LYRE_SOCKET"}) ::unsetenv(name);
  }

  /// Until the instance has given it up.
  void lose_the_daemon() {
    network_.kill_daemon(0);
    auto* instance = static_cast<Instance*>(process_context());
    ASSERT_TRUE(until([&] { return instance->progress() != Result::kSuccess; }));
  }
  static Result listen_once() {
    std::array<uint8_t, nccl_abi::kHandleBytesMax> handle{};
    void* listening = nullptr;
    const Result result = ncclNetPlugin_v10.listen(0, handle.data(), &listening);
    if (listening != nullptr) ncclNetPlugin_v10.close_listen(listening);
    return result;
  }
  int64_t listen_in_vain_ns() {
    const int64_t from_ns = events_.now_ns();
    EXPECT_EQ(listen_once(), Result::kSystemError);
    return events_.now_ns() - from_ns;
  }

  const nccl_abi::NetV10& plugin_ = ncclNetPlugin_v10;
};

TEST_F(ProcessInstance, ListensWithoutAnotherInitAfterItsDaemonWasGivenUp) {
  void* const before = process_context();
  EXPECT_EQ(listen_once(), Result::kSuccess);
  EXPECT_EQ(process_context(), before);
  ASSERT_NO_FATAL_FAILURE(lose_the_daemon());
  EXPECT_EQ(listen_once(), Result::kSystemError) << "the daemon is not back";
  network_.start_daemon(0);
  EXPECT_EQ(listen_once(), Result::kSuccess);
  EXPECT_NE(process_context(), before);
}

TEST_F(ProcessInstance, ThreadsThatLookForAnotherDaemonWaitAtTheSameTime) {
  ASSERT_NO_FATAL_FAILURE(lose_the_daemon());
  const int64_t alone_ns = listen_in_vain_ns();
  ASSERT_GT(alone_ns, kSecond);
  const int64_t from_ns = events_.now_ns();
  Result other_result = Result::kSuccess;
  std::thread other;
  while_asleep = [&] {
    if (!other.joinable()) other = start_waiting([&] { other_result = listen_once(); });
  };
  EXPECT_EQ(listen_once(), Result::kSystemError);
  ASSERT_TRUE(other.joinable());
  other.join();
  while_asleep = nullptr;
  EXPECT_EQ(other_result, Result::kSystemError);
  EXPECT_LT(events_.now_ns() - from_ns, alone_ns + kSecond);
}

TEST_F(ProcessInstance, ConnectsWithoutAnotherInitAfterItsDaemonWasGivenUp) {
  ::setenv("LYRE_SOCKET", "sim/1", 1);
  void* peer = nullptr;
  ASSERT_EQ(init_context(&peer, 0, nullptr, nullptr), Result::kSuccess);
  std::array<uint8_t, nccl_abi::kHandleBytesMax> handle{};
  void* listening = nullptr;
  ASSERT_EQ(listen(peer, 0, handle.data(), &listening), Result::kSuccess);
  ASSERT_NO_FATAL_FAILURE(lose_the_daemon());
  network_.start_daemon(0);
  void* sender = nullptr;
  void* receiver = nullptr;
  EXPECT_TRUE(until([&] {
    if (sender == nullptr) {
      EXPECT_EQ(plugin_.connect(0, nullptr, handle.data(), &sender, nullptr), Result::kSuccess);
    }
    if (receiver == nullptr) accept(listening, &receiver, nullptr);
    return sender != nullptr && receiver != nullptr;
  }));
  close_comm(sender);
  close_comm(receiver);
  close_listen(listening);
  finalize(peer);
}

/// A connect of the process that NCCL has called once.
class ConnectOfAProcess : public ProcessInstance {
 protected:
  void SetUp() override {
    ::setenv("LYRE_SOCKET", "sim/1", 1);
    ASSERT_EQ(init_context(&peer_, 0, nullptr, nullptr), Result::kSuccess);
    ASSERT_EQ(listen(peer_, 0, handle_.data(), &listening_), Result::kSuccess);
    ASSERT_EQ(connect_again(), Result::kSuccess);
    ASSERT_EQ(sender_, nullptr);
  }
  void TearDown() override {
    close_listen(listening_);
    finalize(peer_);
  }
  Result connect_again() {
    ::testing::internal::CaptureStderr();
    const Result result = plugin_.connect(0, nullptr, handle_.data(), &sender_, nullptr);
    said_ = ::testing::internal::GetCapturedStderr();
    return result;
  }
  static bool has_sessions() {
    return !static_cast<Instance*>(process_context())->context()->sessions.empty();
  }

  void* sender_ = nullptr;
  std::string said_;

 private:
  std::array<uint8_t, nccl_abi::kHandleBytesMax> handle_{};
  void* peer_ = nullptr;
  void* listening_ = nullptr;
};

// NCCL aborts while it connects, and closes nothing: v8 to v10 have no finalize that would.
TEST_F(ConnectOfAProcess, IsClosedWhenNcclAsksForItNoMore) {
  run_progress_threads_for(kConnectAbandonedNs - kSecond);
  EXPECT_TRUE(has_sessions());
  run_progress_threads_for(10 * kSecond);
  EXPECT_FALSE(has_sessions());
  EXPECT_EQ(connect_again(), Result::kSystemError);
  EXPECT_THAT(said_, HasSubstr("connect was not called for 20 minutes"));
}

// NCCL could not have had it while there was no daemon.
TEST_F(ConnectOfAProcess, IsKeptWhenItsDaemonIsBackLate) {
  run_progress_threads_for(kConnectAbandonedNs - kSecond);
  network_.kill_daemon(0);
  run_progress_threads_for(kSecond / 2);
  network_.start_daemon(0);
  run_progress_threads_for(10 * kSecond);
  EXPECT_TRUE(has_sessions());
}

// The peer has a comm of the first daemon, and its accept() would return that one.
TEST_F(ConnectOfAProcess, DoesNotGoOnWithAnotherDaemon) {
  ASSERT_NO_FATAL_FAILURE(lose_the_daemon());
  network_.start_daemon(0);
  ASSERT_EQ(listen_once(), Result::kSuccess);
  EXPECT_EQ(connect_again(), Result::kSystemError);
  EXPECT_EQ(sender_, nullptr);
  EXPECT_THAT(said_, HasSubstr("its daemon was given up (LYRE_RESUME_SECONDS)"));
}

/// v11 on: NCCL finalizes the context where it aborts.
class ConnectOfACommunicator : public TwoHosts {
 protected:
  ConnectOfACommunicator() {
    ::setenv("LYRE_TELEMETRY_DIR", "none", 1);
    sends_ = init("sim/0");
    receives_ = init("sim/1");
  }
  ~ConnectOfACommunicator() override {
    for (void* comm : {sender_, receiver_}) close_comm(comm);
    close_listen(listening_);
    for (void* context : {sends_, receives_}) finalize(context);
    for (const char* name : {"LYRE_TELEMETRY_DIR", "LYRE_SOCKET"}) ::unsetenv(name);
  }
  static void* init(const char* socket) {
    ::setenv("LYRE_SOCKET", socket, 1);
    void* context = nullptr;
    EXPECT_EQ(init_context(&context, 0, nullptr, nullptr), Result::kSuccess);
    return context;
  }

  void* sends_ = nullptr;
  void* receives_ = nullptr;
  void* listening_ = nullptr;
  void* sender_ = nullptr;
  void* receiver_ = nullptr;
  std::array<uint8_t, nccl_abi::kHandleBytesMax> handle_{};
};

// The thread that connects may wait for minutes in a call of CUDA.
TEST_F(ConnectOfACommunicator, GetsItsCommHoweverLateNcclAsksAgain) {
  ASSERT_EQ(listen(receives_, 0, handle_.data(), &listening_), Result::kSuccess);
  ASSERT_EQ(connect(sends_, 0, handle_.data(), &sender_), Result::kSuccess);
  ASSERT_EQ(sender_, nullptr);
  EXPECT_NE(get_connect_note(handle_), 0u);
  run_progress_threads_for(kConnectAbandonedNs + kSecond);
  EXPECT_TRUE(until([&] {
    if (sender_ == nullptr) {
      EXPECT_EQ(connect(sends_, 0, handle_.data(), &sender_), Result::kSuccess);
    }
    if (receiver_ == nullptr) accept(listening_, &receiver_, nullptr);
    return sender_ != nullptr && receiver_ != nullptr;
  }));
  EXPECT_EQ(get_connect_note(handle_), 0u) << "the same handle may be connected again";
}

// NCCL aborted, and did not close the listen comm.
TEST_F(ProcessInstance, IsDroppedWithItsListenCommsWhenItIsDeadAndReplaced) {
  std::array<uint8_t, nccl_abi::kHandleBytesMax> handle{};
  void* listening = nullptr;
  ASSERT_EQ(plugin_.listen(0, handle.data(), &listening), Result::kSuccess);
  ASSERT_NO_FATAL_FAILURE(lose_the_daemon());
  network_.start_daemon(0);
  ASSERT_EQ(listen_once(), Result::kSuccess);
  void* receiver = nullptr;
  EXPECT_EQ(plugin_.accept(listening, &receiver, nullptr), Result::kSystemError) << "it is there";
  EXPECT_EQ(finalize(process_context()), Result::kSuccess);
  EXPECT_EQ(plugin_.accept(listening, &receiver, nullptr), Result::kInvalidUsage) << "it is gone";
  EXPECT_EQ(plugin_.close_listen(listening), Result::kSuccess);
}

// NCCL calls connect until it has the comm, and has other work meanwhile.
TEST_F(ProcessInstance, OnlyTheFirstConnectLooksForAnotherDaemon) {
  std::array<uint8_t, nccl_abi::kHandleBytesMax> handle{};
  void* listening = nullptr;
  ASSERT_EQ(plugin_.listen(0, handle.data(), &listening), Result::kSuccess);
  void* sender = nullptr;
  ASSERT_EQ(plugin_.connect(0, nullptr, handle.data(), &sender, nullptr), Result::kSuccess);
  ASSERT_EQ(sender, nullptr);
  ASSERT_NO_FATAL_FAILURE(lose_the_daemon());
  const int64_t from_ns = events_.now_ns();
  EXPECT_EQ(plugin_.connect(0, nullptr, handle.data(), &sender, nullptr), Result::kSystemError);
  EXPECT_EQ(events_.now_ns(), from_ns);
  plugin_.close_listen(listening);
}

}  // namespace
}  // namespace lyre::nccl_adapter
