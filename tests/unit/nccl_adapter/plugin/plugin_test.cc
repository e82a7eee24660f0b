#include "nccl_adapter/plugin/plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nccl_adapter/abi/net.h"
#include "nccl_adapter/comm/host_patience.h"
#include "nccl_adapter/daemon_link/instance.h"
#include "nccl_adapter/limits.h"
#include "nccl_adapter/plugin/properties.h"
#include "tests/sim/adapter/lyre_api.h"
#include "tests/unit/nccl_adapter/support/two_hosts.h"

extern "C" {
extern const lyre::nccl_abi::NetV10 ncclNetPlugin_v10;
}

namespace lyre::nccl_adapter {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

/// How long the receiver's close and finalize last, where a message is here whose receive is not
/// posted. The comm has not failed, whatever became of the sender. Times are virtual.
class ReceiverAtTheEnd : public TwoHosts {
 protected:
  void SetUp() override {
    ::setenv("LYRE_TELEMETRY_DIR", "none", 1);
    sends_ = init(0);
    receives_ = init(1);
    ASSERT_NO_FATAL_FAILURE(meet());
    ASSERT_NO_FATAL_FAILURE(send());
    receive_for(10 * kMs);
  }
  void TearDown() override {
    end_receiver();
    end_sender();
    ::unsetenv("LYRE_SOCKET");
    ::unsetenv("LYRE_TELEMETRY_DIR");
  }

  /// What the receiver does meanwhile makes progress and posts nothing.
  void receive_for(int64_t ns) {
    until(
        [&] {
          void* none = nullptr;
          EXPECT_EQ(accept(listening_, &none, nullptr), Result::kSuccess);
          return false;
        },
        ns);
  }
  /// Every stream is lost, and what dials again gets no answer.
  void lose_the_senders_host() {
    for (adapter_sim::Connection* connection : network_.established())
      network_.tcp().reset(*connection);
    receive_for(10 * kMs);
    for (size_t rail = 0; rail < 2; ++rail) network_.wires().set_rail({0, rail}, false);
  }
  void end_sender() {
    close_comm(std::exchange(sender_, nullptr));
    finalize(std::exchange(sends_, nullptr));
  }
  int64_t close_ns(void** comm) {
    const int64_t from_ns = events_.now_ns();
    EXPECT_EQ(close_comm(std::exchange(*comm, nullptr)), Result::kSuccess);
    return events_.now_ns() - from_ns;
  }
  int64_t close_receiver_ns() { return close_ns(&receiver_); }
  int64_t finalize_ns(void* context) {
    const int64_t from_ns = events_.now_ns();
    EXPECT_EQ(finalize(context), Result::kSuccess);
    return events_.now_ns() - from_ns;
  }
  int64_t finalize_receiver_ns() {
    close_listen(std::exchange(listening_, nullptr));
    return finalize_ns(std::exchange(receives_, nullptr));
  }

  void meet() {
    std::array<uint8_t, nccl_abi::kHandleBytesMax> handle{};
    ASSERT_EQ(listen(receives_, 0, handle.data(), &listening_), Result::kSuccess);
    ASSERT_TRUE(until([&] {
      if (sender_ == nullptr) connect(sends_, 0, handle.data(), &sender_);
      if (receiver_ == nullptr) accept(listening_, &receiver_, nullptr);
      return sender_ != nullptr && receiver_ != nullptr;
    }));
  }
  /// Moves the pair of comms to `others_` and makes another one, so many times.
  void connect_more(int pairs) {
    for (int i = 0; i < pairs; ++i) {
      others_.emplace_back(std::exchange(sender_, nullptr), std::exchange(receiver_, nullptr));
      close_listen(std::exchange(listening_, nullptr));
      ASSERT_NO_FATAL_FAILURE(meet());
      ASSERT_NO_FATAL_FAILURE(send());
    }
  }
  static void* init(int host) {
    ::setenv("LYRE_SOCKET", ("sim/" + std::to_string(host)).c_str(), 1);
    void* context = nullptr;
    EXPECT_EQ(init_context(&context, 0, nullptr, nullptr), Result::kSuccess);
    return context;
  }
  void send() {
    void* request = nullptr;
    ASSERT_EQ(isend(sender_, data_.data(), data_.size(), nullptr, nullptr, &request),
              Result::kSuccess);
    ASSERT_TRUE(until([&] {
      int done = 0;
      EXPECT_EQ(test(request, &done, nullptr), Result::kSuccess);
      return done != 0;
    }));
  }

  void* sends_ = nullptr;
  void* receives_ = nullptr;
  void* listening_ = nullptr;
  void* sender_ = nullptr;
  void* receiver_ = nullptr;
  std::vector<std::pair<void*, void*>> others_;  ///< senders and their receivers

 private:
  void end_receiver() {
    if (receiver_ != nullptr) close_receiver_ns();
    if (receives_ != nullptr) finalize_receiver_ns();
  }

  std::array<uint8_t, 1000> data_{};  // small: its send is done at once
};

constexpr int64_t kFinalizeNs = int64_t{kFinalizeDrainMs} * 1'000'000;

TEST_F(ReceiverAtTheEnd, DoesNotWaitForASenderWhoseProcessHasEnded) {
  network_.kill_client(static_cast<Instance*>(sends_)->context());
  receive_for(10 * kMs);
  EXPECT_LT(close_receiver_ns(), kCloseWaitNs);
  EXPECT_LT(finalize_receiver_ns(), kFinalizeNs);
}

TEST_F(ReceiverAtTheEnd, DoesNotWaitForASenderThatSaidBye) {
  end_sender();
  receive_for(10 * kMs);
  EXPECT_LT(close_receiver_ns(), kCloseWaitNs);
  EXPECT_LT(finalize_receiver_ns(), kFinalizeNs);
}

TEST_F(ReceiverAtTheEnd, WaitsForASenderThatLostItsStreamsAndMayDialAgain) {
  for (adapter_sim::Connection* connection : network_.established())
    network_.tcp().reset(*connection);
  receive_for(10 * kMs);
  EXPECT_GE(close_receiver_ns(), kCloseWaitNs);
  EXPECT_GE(finalize_receiver_ns(), kFinalizeNs);
}

TEST_F(ReceiverAtTheEnd, WaitsOnceForAHostThatVanished) {
  ASSERT_NO_FATAL_FAILURE(connect_more(20));
  for (adapter_sim::Connection* connection : network_.established())
    network_.tcp().reset(*connection);
  receive_for(10 * kMs);
  int64_t all_ns = 0;
  while (!others_.empty()) {
    all_ns += close_receiver_ns();
    receiver_ = others_.back().second;
    close_comm(std::exchange(sender_, others_.back().first));
    others_.pop_back();
  }
  EXPECT_LT(all_ns, 4 * kCloseWaitNs);
}

// As in ncclCommAbort: NCCL frees the three buffers of each connection that sends, then closes it.
// Each of the buffers waited for what the connection had under way, with the instance locked.
TEST_F(ReceiverAtTheEnd, DeregistersAtOnceTowardsAHostThatVanished) {
  struct Connection {
    void* comm = nullptr;
    std::vector<std::vector<uint8_t>> buffers =
        std::vector<std::vector<uint8_t>>(3, std::vector<uint8_t>(1 << 20));
    std::vector<void*> handles = std::vector<void*>(3);
  };
  ASSERT_NO_FATAL_FAILURE(connect_more(20));
  std::vector<Connection> connections(others_.size());
  for (size_t i = 0; i < connections.size(); ++i) {
    Connection& connection = connections[i];
    connection.comm = std::exchange(others_[i].first, nullptr);
    for (size_t j = 0; j < connection.buffers.size(); ++j) {
      std::vector<uint8_t>& buffer = connection.buffers[j];
      ASSERT_EQ(reg_mr(connection.comm, buffer.data(), buffer.size(), nccl_abi::kPtrHost,
                       &connection.handles[j]),
                Result::kSuccess);
    }
  }
  for (size_t rail = 0; rail < 2; ++rail) network_.wires().set_rail({1, rail}, false);
  for (size_t i = 0; i < connections.size(); i += 2) {
    std::vector<uint8_t>& buffer = connections[i].buffers.back();
    void* request = nullptr;
    ASSERT_EQ(isend(connections[i].comm, buffer.data(), buffer.size(),
                    connections[i].handles.back(), nullptr, &request),
              Result::kSuccess);
  }
  const int64_t from_ns = events_.now_ns();
  for (Connection& connection : connections) {
    for (void* handle : connection.handles) dereg_mr(connection.comm, handle);
    close_comm(connection.comm);
  }
  EXPECT_LT(events_.now_ns() - from_ns, 4 * kCloseWaitNs);
  for (const auto& [sender, receiver] : others_) close_comm(receiver);
}

// NCCL holds a lock of all communicators while it finalizes one.
TEST_F(ReceiverAtTheEnd, OnlyTheFirstFinalizeWaitsForAHostThatVanished) {
  void* const first = std::exchange(receives_, init(1));
  ASSERT_NO_FATAL_FAILURE(connect_more(1));
  lose_the_senders_host();
  EXPECT_GE(close_ns(&others_.front().second), kCloseWaitNs);
  EXPECT_GE(finalize_ns(first), kFinalizeNs);
  // It has no stream, so its goodbye is over at once and nothing is heard of the host.
  close_comm(others_.front().first);
  EXPECT_LT(close_receiver_ns() + finalize_receiver_ns(), kCloseWaitNs);
}

TEST_F(ReceiverAtTheEnd, ABriefFinalizeDoesNotProlongTheTimeInWhichAHostHasVanished) {
  void* const first = std::exchange(receives_, init(1));
  ASSERT_NO_FATAL_FAILURE(connect_more(1));
  void* const second = std::exchange(receives_, init(1));
  ASSERT_NO_FATAL_FAILURE(connect_more(1));
  lose_the_senders_host();
  close_ns(&others_[0].second);
  EXPECT_GE(finalize_ns(first), kFinalizeNs);
  pass(HostPatience::kVanishedNs - kSecond);
  close_ns(&others_[1].second);
  EXPECT_LT(finalize_ns(second), kFinalizeNs);
  pass(2 * kSecond);
  close_receiver_ns();
  EXPECT_GE(finalize_receiver_ns(), kFinalizeNs);
  for (const auto& [sender, receiver] : others_) close_comm(sender);
}

// As in ncclCommAbort, which closes the receiving and the sending comm of each peer. The peers are
// there and post no receive.
TEST_F(ReceiverAtTheEnd, WaitsOnceForPeersThatPlaceNothing) {
  ASSERT_NO_FATAL_FAILURE(connect_more(12));
  int64_t all_ns = 0;
  for (size_t i = 0; i + 1 < others_.size(); i += 2) {
    all_ns += close_ns(&others_[i].second);     // a receiver
    all_ns += close_ns(&others_[i + 1].first);  // the sender of another pair
  }
  EXPECT_LT(all_ns, 3 * kCloseWaitNs);
  for (const auto& [sender, receiver] : others_) {
    close_comm(sender);
    close_comm(receiver);
  }
}

class RailsSetting : public TwoHosts {
 protected:
  RailsSetting() {
    ::setenv("LYRE_TELEMETRY_DIR", "none", 1);
    ::setenv("LYRE_SOCKET", "sim/0", 1);
    set_known_ports({}, {}, 0);  // as before the first init of a process
  }
  ~RailsSetting() override {
    for (void* context : contexts_) finalize(context);
    for (const char* name : {"LYRE_TELEMETRY_DIR", "LYRE_SOCKET", "LYRE_RAILS"}) ::unsetenv(name);
  }
  Result init(const char* rails) {
    ::setenv("LYRE_RAILS", rails, 1);
    void* context = nullptr;
    ::testing::internal::CaptureStderr();
    const Result result = init_context(&context, 0, nullptr, nullptr);
    said_ = ::testing::internal::GetCapturedStderr();
    if (context != nullptr) contexts_.push_back(context);
    return result;
  }

  std::string said_;

 private:
  std::vector<void*> contexts_;
};

TEST_F(RailsSetting, AWrongNameFailsTheFirstInit) {
  for (const char* rails : {"rail9", "rail1,rail9"}) {
    EXPECT_EQ(init(rails), Result::kSystemError) << rails;
    EXPECT_THAT(said_, EndsWith("LYRE_RAILS names \"rail9\", allowed: own, all, rail0, rail1\n"));
  }
  EXPECT_EQ(init("all,rail1"), Result::kSuccess) << said_;
  EXPECT_EQ(known_port_count(), 1);
}

// The daemon was perhaps restarted, with other ports, since the first one.
TEST_F(RailsSetting, ALaterInitUsesTheNamesThatAreRight) {
  ASSERT_EQ(init("rail1"), Result::kSuccess) << said_;
  EXPECT_EQ(init("rail1,rail9"), Result::kSuccess) << said_;
  EXPECT_THAT(said_, HasSubstr("LYRE_RAILS names \"rail9\""));
  EXPECT_EQ(known_port_count(), 1);
  EXPECT_EQ(init("rail9"), Result::kSystemError);
  EXPECT_THAT(said_, Not(HasSubstr("has no port")));
}

// NCCL has asked for the number of devices, and uses as many in each communicator.
TEST_F(RailsSetting, ALaterInitNeedsAsManyPortsAsTheFirst) {
  ASSERT_EQ(init("rail0,rail1"), Result::kSuccess) << said_;
  EXPECT_EQ(init("rail0,rail9"), Result::kSystemError);
  EXPECT_THAT(said_, HasSubstr("at sim/0: 1, and 2 when this process began: restart the job"));
  EXPECT_EQ(known_port_count(), 2);
  Properties properties{};
  EXPECT_TRUE(known_properties(1, &properties)) << "the first communicator goes on";
}

TEST_F(RailsSetting, ALaterInitMayHaveFewerPortsThanOneInBetween) {
  ASSERT_EQ(init("rail0"), Result::kSuccess) << said_;
  EXPECT_EQ(init("rail0,rail1"), Result::kSuccess) << said_;
  EXPECT_EQ(init("rail1"), Result::kSuccess) << said_;
  EXPECT_EQ(known_port_count(), 1);
}

/// NCCL 2.28.3 to 2.28.6 finalizes the context of a parent whose listen comms a child uses, which
/// shares its resources. Nothing is connected yet.
class ListenCommsOfAParent : public TwoHosts {
 protected:
  ListenCommsOfAParent() {
    ::setenv("LYRE_TELEMETRY_DIR", "none", 1);
    ::setenv("LYRE_SOCKET", "sim/0", 1);
  }
  ~ListenCommsOfAParent() override {
    for (const char* name : {"LYRE_TELEMETRY_DIR", "LYRE_SOCKET"}) ::unsetenv(name);
  }
  struct Listening {
    void* context = nullptr;
    void* comm = nullptr;
  };
  static Listening listen_once() {
    Listening made;
    std::array<uint8_t, nccl_abi::kHandleBytesMax> handle{};
    EXPECT_EQ(init_context(&made.context, 0, nullptr, nullptr), Result::kSuccess);
    EXPECT_EQ(listen(made.context, 0, handle.data(), &made.comm), Result::kSuccess);
    return made;
  }
};

TEST_F(ListenCommsOfAParent, AreRefusedAndClosedAfterItsFinalize) {
  const Listening parent = listen_once();
  const Listening other = listen_once();
  ASSERT_EQ(finalize(parent.context), Result::kSuccess);
  void* receiver = nullptr;
  EXPECT_EQ(accept(parent.comm, &receiver, nullptr), Result::kInvalidUsage);
  EXPECT_EQ(close_listen(parent.comm), Result::kSuccess);
  EXPECT_EQ(accept(other.comm, &receiver, nullptr), Result::kSuccess);
  for (int i = 0; i < 200; ++i) {  // of the same size as the one that has ended
    const Listening another = listen_once();
    EXPECT_NE(another.comm, parent.comm);
    EXPECT_EQ(close_listen(another.comm), Result::kSuccess);
    EXPECT_EQ(finalize(another.context), Result::kSuccess);
  }
  EXPECT_EQ(close_listen(other.comm), Result::kSuccess);
  EXPECT_EQ(finalize(other.context), Result::kSuccess);
}

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
  /// Returns when the thread waits for this one, which is in a call.
  static std::thread start_listening_too(Result* result) {
    std::atomic<int> number{0};
    std::thread other([&number, result] {
      number = ::gettid();
      *result = listen_once();
    });
    for (int ms = 0; ms < 10'000 && !is_asleep(number); ++ms)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(is_asleep(number));
    return other;
  }

  const nccl_abi::NetV10& plugin_ = ncclNetPlugin_v10;

 private:
  static bool is_asleep(int thread) {
    if (thread == 0) return false;
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
    std::string text;
    std::getline(file, text);
    return text.find(") S ") != std::string::npos;
  }
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
    if (!other.joinable()) other = start_listening_too(&other_result);
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
  /// NCCL calls nothing.
  void idle_for(int64_t ns) {
    until(
        [&] {
          run_progress_threads();
          return false;
        },
        ns);
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
  idle_for(kConnectAbandonedNs - kSecond);
  EXPECT_TRUE(has_sessions());
  idle_for(2 * kSecond);
  EXPECT_FALSE(has_sessions());
  EXPECT_EQ(connect_again(), Result::kSystemError);
  EXPECT_THAT(said_, HasSubstr("connect was not called for 60 s"));
}

// The peer has a comm of the first daemon, and its accept() would return that one.
TEST_F(ConnectOfAProcess, DoesNotGoOnWithAnotherDaemon) {
  ASSERT_NO_FATAL_FAILURE(lose_the_daemon());
  network_.start_daemon(0);
  ASSERT_EQ(listen_once(), Result::kSuccess);
  EXPECT_EQ(connect_again(), Result::kSystemError);
  EXPECT_EQ(sender_, nullptr);
  EXPECT_THAT(said_, HasSubstr("a Lyre daemon at sim/0 that was given up"));
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
