#include "nccl_adapter/plugin/plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "nccl_adapter/abi/nccl_settings.h"
#include "nccl_adapter/comm/host_patience.h"
#include "nccl_adapter/daemon_link/instance.h"
#include "nccl_adapter/limits.h"
#include "nccl_adapter/plugin/properties.h"
#include "nccl_adapter/settings.h"
#include "tests/sim/adapter/lyre_api.h"
#include "tests/unit/nccl_adapter/support/context_call.h"
#include "tests/unit/nccl_adapter/support/two_hosts.h"

namespace lyre::nccl_adapter {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

/// How long the receiver's close and finalize last, where a message is here whose receive is not
/// posted. The comm has not failed, whatever became of the sender. Times are virtual.
class ReceiverAtTheEnd : public TwoHosts {
 protected:
  explicit ReceiverAtTheEnd(const adapter_sim::NetworkSettings& settings = {.hosts = 2, .rails = 2})
      : TwoHosts(settings) {}
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
  network_.kill_client(call_with(sends_)->context());
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

/// Hosts acknowledge a few bytes as late as Lyre's do (tcp.ack_delay_ms).
class EndsOfIdleComms : public ReceiverAtTheEnd {
 protected:
  EndsOfIdleComms() : ReceiverAtTheEnd({.hosts = 2, .rails = 2, .ack_delay_ns = 40 * kMs}) {}
};

// As in ncclCommDestroy while the peers' processes make no call. Each end waited for 40 ms.
TEST_F(EndsOfIdleComms, DoNotWaitForALateAcknowledgement) {
  constexpr size_t kPairs = 60;
  for (size_t i = 0; i <= kPairs; ++i) {
    others_.emplace_back(std::exchange(sender_, nullptr), std::exchange(receiver_, nullptr));
    close_listen(std::exchange(listening_, nullptr));
    ASSERT_NO_FATAL_FAILURE(meet());
  }
  int64_t all_ns = 0;
  for (size_t i = 1; i <= kPairs; ++i)  // over the first one came a message
    all_ns += close_ns(i % 2 == 0 ? &others_[i].first : &others_[i].second);
  EXPECT_LT(all_ns, kSecond);
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
    ::unsetenv(kKeepsPlugin);
    set_known_ports({}, {}, 0);  // as before the first init of a process
  }
  ~RailsSetting() override {
    finalize_all();
    for (const char* name : {"LYRE_TELEMETRY_DIR", "LYRE_SOCKET", "LYRE_RAILS", kKeepsPlugin})
      ::unsetenv(name);
  }
  void finalize_all() {
    for (void* context : std::exchange(contexts_, {})) finalize(context);
  }
  /// A communicator that is made and used.
  Result use(const char* rails) {
    ::setenv("LYRE_RAILS", rails, 1);
    void* context = nullptr;
    void* listening = nullptr;
    std::array<uint8_t, nccl_abi::kHandleBytesMax> handle{};
    ::testing::internal::CaptureStderr();
    Result result = init_context(&context, 0, nullptr, nullptr);
    if (result == Result::kSuccess) {
      contexts_.push_back(context);
      result = listen(context, 0, handle.data(), &listening);
    }
    said_ = ::testing::internal::GetCapturedStderr();
    close_listen(listening);
    return result;
  }

  static constexpr const char* kKeepsPlugin = nccl_abi::kPluginUsersSetting;
  std::string said_;

 private:
  std::vector<void*> contexts_;
};

TEST_F(RailsSetting, AWrongNameFailsTheFirstCommunicator) {
  for (const char* rails : {"rail9", "rail1,rail9"}) {
    EXPECT_EQ(use(rails), Result::kSystemError) << rails;
    EXPECT_THAT(said_, EndsWith("LYRE_RAILS names \"rail9\", allowed: own, all, rail0, rail1\n"));
  }
  EXPECT_EQ(use("all,rail1"), Result::kSuccess) << said_;
  EXPECT_EQ(known_port_count(), 1);
}

// The daemon was perhaps restarted, with other ports, since the first one.
TEST_F(RailsSetting, ALaterOneUsesTheNamesThatAreRight) {
  ASSERT_EQ(use("rail1"), Result::kSuccess) << said_;
  EXPECT_EQ(use("rail1,rail9"), Result::kSuccess) << said_;
  EXPECT_THAT(said_, HasSubstr("LYRE_RAILS names \"rail9\""));
  EXPECT_EQ(known_port_count(), 1);
  EXPECT_EQ(use("rail9"), Result::kSystemError);
  EXPECT_THAT(said_, Not(HasSubstr("has no port")));
}

// NCCL has asked for the number of devices, and uses as many in each communicator.
TEST_F(RailsSetting, ALaterOneNeedsAsManyPortsAsTheFirst) {
  ASSERT_EQ(use("rail0,rail1"), Result::kSuccess) << said_;
  EXPECT_EQ(use("rail0,rail9"), Result::kSystemError);
  EXPECT_THAT(said_, HasSubstr("at sim/0: 1, and 2 when this process began: restart the job"));
  EXPECT_EQ(known_port_count(), 2);
  Properties properties{};
  EXPECT_TRUE(known_properties(1, &properties)) << "the first communicator goes on";
}

TEST_F(RailsSetting, ALaterOneMayHaveFewerPortsThanOneInBetween) {
  ASSERT_EQ(use("rail0"), Result::kSuccess) << said_;
  EXPECT_EQ(use("rail0,rail1"), Result::kSuccess) << said_;
  EXPECT_EQ(use("rail1"), Result::kSuccess) << said_;
  EXPECT_EQ(known_port_count(), 1);
}

// NCCL 2.28 and later forget the number of devices with their last communicator, and ask again.
TEST_F(RailsSetting, OneAfterTheLastCommunicatorMayHaveFewerPorts) {
  ASSERT_EQ(use("rail0,rail1"), Result::kSuccess) << said_;
  finalize_all();
  ASSERT_EQ(use("rail0"), Result::kSuccess) << said_;
  EXPECT_EQ(known_port_count(), 1);
}

TEST_F(RailsSetting, OneAfterTheLastCommunicatorNeedsAsManyPortsWhereNcclKeepsThePlugin) {
  ::setenv(kKeepsPlugin, "1", 1);
  ASSERT_EQ(use("rail0,rail1"), Result::kSuccess) << said_;
  finalize_all();
  EXPECT_EQ(use("rail0"), Result::kSystemError);
  EXPECT_THAT(said_, HasSubstr("at sim/0: 1, and 2 when this process began: restart the job"));
}

/// The first init of a process, while the daemon is restarted. Times are virtual.
class FirstInit : public TwoHosts {
 protected:
  FirstInit() {
    ::setenv("LYRE_TELEMETRY_DIR", "none", 1);
    ::setenv("LYRE_SOCKET", "sim/0", 1);
    network_.kill_daemon(0);
  }
  ~FirstInit() override {
    finalize(context_);
    for (const char* name : {"LYRE_TELEMETRY_DIR", "LYRE_SOCKET", "LYRE_REQUIRED", "NCCL_NET"})
      ::unsetenv(name);
  }
  void start_daemon_after(int64_t ns) {
    while_asleep = [this, at_ns = events_.now_ns() + ns] {
      if (has_daemon_ || events_.now_ns() < at_ns) return;
      has_daemon_ = true;
      network_.start_daemon(0);
    };
  }
  Result init() {
    const int64_t from_ns = events_.now_ns();
    ::testing::internal::CaptureStderr();
    const Result result = init_context(&context_, 0, nullptr, nullptr);
    said_ = ::testing::internal::GetCapturedStderr();
    lasted_ns_ = events_.now_ns() - from_ns;
    return result;
  }

  std::string said_;
  int64_t lasted_ns_ = 0;

 private:
  void* context_ = nullptr;
  bool has_daemon_ = false;
};

TEST_F(FirstInit, WaitsForADaemonThatIsRequired) {
  ::setenv("LYRE_REQUIRED", "1", 1);
  start_daemon_after(5 * kSecond);
  EXPECT_EQ(init(), Result::kSuccess) << said_;
}

TEST_F(FirstInit, WaitsForADaemonWhereNcclMayUseNoOtherNetwork) {
  ::setenv("NCCL_NET", "lyre", 1);
  start_daemon_after(5 * kSecond);
  EXPECT_EQ(init(), Result::kSuccess) << said_;
}

TEST_F(FirstInit, GivesUpAfterTheTimeForWhichADaemonMayBeAway) {
  ::setenv("NCCL_NET", "Lyre", 1);
  EXPECT_EQ(init(), Result::kSystemError);
  EXPECT_GE(lasted_ns_, Settings{}.resume_s * kSecond);
  EXPECT_THAT(said_, HasSubstr("cannot use the Lyre daemon at sim/0"));
}

// It waited as for a daemon that is away. That of a daemon that starts has its group in a moment.
TEST_F(FirstInit, WaitsShortlyForThePermissionToOpenTheSocket) {
  ::setenv("NCCL_NET", "Lyre", 1);
  network_.start_daemon(0);
  network_.host(0).is_closed = true;
  EXPECT_EQ(init(), Result::kSystemError);
  EXPECT_LT(lasted_ns_, Settings{}.resume_s * kSecond / 2);
  while_asleep = [this] { network_.host(0).is_closed = false; };
  EXPECT_EQ(init(), Result::kSuccess) << said_;
}

TEST_F(FirstInit, FailsAtOnceWhereNcclMayUseItsSockets) {
  start_daemon_after(5 * kSecond);
  EXPECT_EQ(init(), Result::kSystemError);
  EXPECT_EQ(lasted_ns_, 0);
  ::setenv("NCCL_NET", "Socket", 1);
  EXPECT_EQ(init(), Result::kSystemError);
  EXPECT_EQ(lasted_ns_, 0);
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

}  // namespace
}  // namespace lyre::nccl_adapter
