#include "nccl_adapter/plugin/instance_registry.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

#include "nccl_adapter/plugin/plugin.h"
#include "tests/sim/adapter/lyre_api.h"
#include "tests/unit/nccl_adapter/support/context_call.h"
#include "tests/unit/nccl_adapter/support/two_hosts.h"

namespace lyre::nccl_adapter {
namespace {

/// NCCL 2.28.3 to 2.28.6: a thread that serves a child uses the context of the parent, which
/// another thread finalizes.
class CallsOfAParent : public TwoHosts {
 protected:
  using HandleArray = std::array<uint8_t, nccl_abi::kHandleBytesMax>;
  static constexpr int kRounds = 50;

  CallsOfAParent() {
    ::setenv("LYRE_TELEMETRY_DIR", "none", 1);
    context_ = init("sim/0");
  }
  ~CallsOfAParent() override {
    finalize(context_);
    for (const char* name : {"LYRE_TELEMETRY_DIR", "LYRE_SOCKET"}) ::unsetenv(name);
  }
  static void* init(const char* socket) {
    ::setenv("LYRE_SOCKET", socket, 1);
    void* context = nullptr;
    EXPECT_EQ(init_context(&context, 0, nullptr, nullptr), Result::kSuccess);
    return context;
  }
  static size_t attachments() { return adapter_sim::contexts().size(); }

  /// Another thread calls until it is refused, and this one finalizes. Then there is a new context.
  void expect_one_refusal(const std::function<Result()>& call, const std::string& line) {
    std::atomic<bool> is_begun{false};
    std::atomic<bool> is_finalized{false};
    Result result = Result::kSuccess;
    ::testing::internal::CaptureStderr();
    std::thread other([&] {
      for (bool is_last = false; result == Result::kSuccess && !is_last;) {
        is_last = is_finalized;
        result = call();
        is_begun = true;
        std::this_thread::yield();
      }
    });
    while (!is_begun) std::this_thread::yield();
    EXPECT_EQ(finalize(context_), Result::kSuccess);
    is_finalized = true;
    other.join();
    EXPECT_EQ(result, Result::kInvalidUsage);
    const std::string said = ::testing::internal::GetCapturedStderr();
    const size_t at = said.find(line);
    EXPECT_NE(at, std::string::npos) << said;
    EXPECT_EQ(said.find(line, at + 1), std::string::npos) << said;
    context_ = init("sim/0");
  }

  void* context_ = nullptr;
};

TEST_F(CallsOfAParent, ItsInstanceLivesUntilTheLastOneEnds) {
  const size_t before = attachments();
  {
    InstanceCall first = call_with(context_);
    const InstanceCall second = call_with(context_);
    ASSERT_NE(second, nullptr);
    EXPECT_EQ(finalize(context_), Result::kSuccess);
    EXPECT_TRUE(second->is_over());
    EXPECT_EQ(call_with(context_), nullptr) << "no call begins any more";
    EXPECT_EQ(instance_registry().begin_call(second.get()), nullptr);
    first.reset();
    EXPECT_EQ(attachments(), before);
  }
  EXPECT_EQ(attachments(), before - 1);
}

TEST_F(CallsOfAParent, AlsoOneThatUsesAListenComm) {
  const size_t before = attachments();
  HandleArray handle{};
  void* listening = nullptr;
  ASSERT_EQ(listen(context_, 0, handle.data(), &listening), Result::kSuccess);
  {
    const ListeningCall call = instance_registry().begin_listening_call(listening);
    ASSERT_NE(call.instance, nullptr);
    EXPECT_EQ(finalize(context_), Result::kSuccess);
    EXPECT_EQ(instance_registry().begin_listening_call(listening).instance, nullptr);
    EXPECT_EQ(close_listen(listening), Result::kSuccess);
    EXPECT_EQ(attachments(), before);
  }
  EXPECT_EQ(attachments(), before - 1);
}

TEST_F(CallsOfAParent, AConnectIsRefusedThatItsFinalizeOvertakes) {
  void* const peer = init("sim/1");
  HandleArray handle{};
  void* listening = nullptr;
  ASSERT_EQ(listen(peer, 0, handle.data(), &listening), Result::kSuccess);
  for (int round = 0; round < kRounds; ++round) {
    HandleArray own = handle;
    void* sender = nullptr;
    expect_one_refusal([&] { return connect(context_, 0, own.data(), &sender); },
                       "NCCL uses the context of a communicator that it has finalized");
    EXPECT_EQ(sender, nullptr);
  }
  close_listen(listening);
  finalize(peer);
}

TEST_F(CallsOfAParent, AnAcceptIsRefusedThatItsFinalizeOvertakes) {
  for (int round = 0; round < kRounds; ++round) {
    HandleArray handle{};
    void* listening = nullptr;
    ASSERT_EQ(listen(context_, 0, handle.data(), &listening), Result::kSuccess);
    void* receiver = nullptr;
    expect_one_refusal([&] { return accept(listening, &receiver, nullptr); },
                       "NCCL uses a listen comm that ended with its communicator");
    EXPECT_EQ(receiver, nullptr);
    EXPECT_EQ(close_listen(listening), Result::kSuccess);
  }
}

TEST_F(CallsOfAParent, AListenIsRefusedThatItsFinalizeOvertakes) {
  for (int round = 0; round < kRounds; ++round) {
    const auto listen_once = [&] {
      HandleArray handle{};
      void* listening = nullptr;
      const Result result = listen(context_, 0, handle.data(), &listening);
      EXPECT_EQ(close_listen(listening), Result::kSuccess);
      return result;
    };
    expect_one_refusal(listen_once,
                       "NCCL uses the context of a communicator that it has finalized");
  }
}

}  // namespace
}  // namespace lyre::nccl_adapter
