#include "nccl_adapter/daemon_link/instance.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "nccl_adapter/limits.h"
#include "nccl_adapter/observe/log.h"
#include "nccl_adapter/protocol/handle.h"
#include "tests/sim/adapter/lyre_api.h"
#include "tests/unit/nccl_adapter/support/two_hosts.h"

namespace lyre::nccl_adapter {
namespace {

using nccl_abi::Result;

/// An instance on each host. The second one receives.
class Instances : public TwoHosts {
 protected:
  /// `streams`: LYRE_STREAMS of the first one.
  explicit Instances(const adapter_sim::NetworkSettings& settings = {.hosts = 2, .rails = 2},
                     int64_t streams = 0)
      : TwoHosts(settings) {
    sends_ = Instance::open(Settings{.socket_path = "sim/0", .streams = streams}, 0, &failure_);
    receives_ = Instance::open(Settings{.socket_path = "sim/1"}, 0, &failure_);
  }
  ~Instances() override {
    sends_.reset();
    receives_.reset();
  }

  bool works_until(const std::function<bool()>& condition) {
    return until([&] {
      for (Instance* instance : {sends_.get(), receives_.get()}) {
        if (instance != nullptr) instance->progress();
      }
      return condition();
    });
  }
  void connect() {
    ListenComm* listening = nullptr;
    ASSERT_EQ(receives_->listen(0, handle_, &listening), Result::kSuccess);
    connect_to(listening);
  }
  void connect_to(ListenComm* listening) {
    ASSERT_TRUE(works_until([&] {
      if (sender_ == nullptr) sends_->connect(0, handle_, &sender_);
      if (receiver_ == nullptr) receives_->accept(listening, &receiver_);
      return sender_ != nullptr && receiver_ != nullptr;
    }));
    receives_->close_listen(listening);
  }
  void set_receivers_rails(bool are_up) {
    for (size_t rail = 0; rail < 2; ++rail) network_.wires().set_rail({1, rail}, are_up);
  }
  /// Only the receiver's process runs.
  bool receiver_works_until(const std::function<bool()>& condition, int64_t within_ns) {
    return until([&] { return receives_->progress() != Result::kSuccess || condition(); },
                 within_ns);
  }
  void lose_the_receivers_daemon() {
    network_.kill_daemon(1);
    ASSERT_TRUE(receiver_works_until([&] { return !receives_->is_attached(); }, kSecond));
  }
  HandleBytes handle() { return handle_; }
  Request* post(Comm* comm) {
    Request* request = nullptr;
    EXPECT_EQ(comm->post(data_.data(), data_.size(), nullptr, Operation{}, &request),
              Result::kSuccess);
    return request;
  }
  static bool is_done(Request* request) {
    int done = 0;
    EXPECT_EQ(request->comm->test(request, &done, nullptr), Result::kSuccess);
    return done != 0;
  }

  int failure_ = 0;
  std::unique_ptr<Instance> sends_;
  std::unique_ptr<Instance> receives_;
  Comm* sender_ = nullptr;
  Comm* receiver_ = nullptr;
  std::array<uint8_t, kZeroCopyBytesMin> data_{};  // too large to be done at once
  int done_ = 0;

 private:
  std::array<uint8_t, nccl_abi::kHandleBytesMax> handle_bytes_{};
  HandleBytes handle_{handle_bytes_};
};

TEST_F(Instances, IsIdleWhenEveryCommIsClosed) {
  EXPECT_TRUE(sends_->is_idle());
  connect();
  EXPECT_FALSE(sends_->is_idle());
  EXPECT_FALSE(receives_->is_idle());
  sender_->begin_close();
  sends_->close(sender_);
  EXPECT_TRUE(sends_->is_idle());
}

// As during an upgrade, or on a host whose processors are taken.
TEST_F(Instances, ListensOnADaemonThatAnswersLate) {
  network_.pause_daemon(1);
  events_.after(45 * kSecond, [this] { network_.resume_daemon(1); });
  auto late = Instance::open(Settings{.socket_path = "sim/1"}, 1, &failure_);
  ASSERT_NE(late, nullptr);
  network_.pause_daemon(1);
  events_.after(45 * kSecond, [this] { network_.resume_daemon(1); });
  ListenComm* listening = nullptr;
  EXPECT_EQ(late->listen(0, handle(), &listening), Result::kSuccess);
  if (listening != nullptr) late->close_listen(listening);
}

TEST_F(Instances, ListensOnADaemonThatIsRestartedWhenItIsAsked) {
  network_.pause_daemon(1);
  events_.after(20 * kSecond, [this] {  // longer than LYRE_RESUME_SECONDS
    network_.resume_daemon(1);
    network_.kill_daemon(1);
  });
  events_.after(21 * kSecond, [this] { network_.start_daemon(1); });
  ListenComm* listening = nullptr;
  EXPECT_EQ(receives_->listen(0, handle(), &listening), Result::kSuccess);
  if (listening != nullptr) receives_->close_listen(listening);
}

TEST_F(Instances, LeavesTheCoreAfterASmallSendInARow) {
  connect();
  int left = 0;
  while_asleep = [&] { ++left; };
  std::unique_lock lock(sends_->mutex());
  for (int sent = 1; sent <= kSmallSendsInARow + 1; ++sent) {
    Request* send = post(sender_);
    Request* receive = post(receiver_);
    EXPECT_EQ(sends_->progress_in_round(send, lock), Result::kSuccess);
    EXPECT_TRUE(lock.owns_lock());
    EXPECT_EQ(left, std::max(0, sent - kSmallSendsInARow + 1));
    ASSERT_TRUE(works_until([&] { return is_done(receive); }));
    ASSERT_TRUE(works_until([&] { return is_done(send); }));
  }
  while_asleep = nullptr;  // the end of the instances sleeps, too
}

TEST_F(Instances, RefusesADeviceThatIsNotThere) {
  std::array<uint8_t, nccl_abi::kHandleBytesMax> bytes{};
  ListenComm* listening = nullptr;
  EXPECT_EQ(receives_->listen(2, HandleBytes(bytes), &listening), Result::kInvalidArgument);
  EXPECT_EQ(listening, nullptr);
}

TEST_F(Instances, ResumesItsCommsWithADaemonThatCameBack) {
  connect();
  network_.kill_daemon(0);
  ASSERT_TRUE(works_until([&] { return !sends_->is_attached(); }));
  network_.start_daemon(0);
  Request* receive = post(receiver_);
  Request* send = post(sender_);
  EXPECT_TRUE(works_until([&] { return is_done(receive); }));
  EXPECT_TRUE(works_until([&] { return is_done(send); }));
}

// The limit of registered memory had room again after NCCL had registered its buffer.
TEST_F(Instances, SendsInPlaceFromABufferThatTheDaemonRefusedAtFirst) {
  network_.host(0).refuses_memory = true;
  connect();
  const Registration* registration = sender_->add_registration(data_.data(), data_.size());
  const auto copied_by_a_send = [&] {
    const uint64_t before = sender_->facts().view.copied_bytes;
    Request* receive = post(receiver_);
    Request* send = nullptr;
    EXPECT_EQ(sender_->post(data_.data(), data_.size(), registration, Operation{}, &send),
              Result::kSuccess);
    EXPECT_TRUE(works_until([&] { return is_done(receive); }));
    EXPECT_TRUE(works_until([&] { return is_done(send); }));
    return sender_->facts().view.copied_bytes - before;
  };
  EXPECT_EQ(copied_by_a_send(), data_.size());
  network_.host(0).refuses_memory = false;
  run_progress_threads_for(kAskAgainNs + kSecond);
  EXPECT_EQ(copied_by_a_send(), 0u);
  EXPECT_EQ(sender_->remove_registration(registration), Result::kSuccess);
}

// The sender's daemon acknowledges for it, so it has longer than LYRE_RESUME_SECONDS and 2 s.
TEST_F(Instances, WaitsForAStoppedSenderAfterItsOwnDaemonCameBack) {
  connect();
  Request* receive = post(receiver_);
  ASSERT_NO_FATAL_FAILURE(lose_the_receivers_daemon());
  network_.start_daemon(1);
  set_logger(nullptr);
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(receiver_works_until([&] { return receiver_->has_failed(); }, 100 * kSecond))
      << receiver_->failure().why;
  const std::string lines = ::testing::internal::GetCapturedStderr();
  const size_t at = lines.find("still waiting for ");
  EXPECT_NE(at, std::string::npos);
  EXPECT_EQ(at, lines.rfind("still waiting for ")) << "once";
  Request* send = post(sender_);
  EXPECT_TRUE(works_until([&] { return is_done(receive); }));
  EXPECT_TRUE(works_until([&] { return is_done(send); }));
}

// The sender's process ended while the receiver's daemon was away, so its end was not seen.
TEST_F(Instances, DoesNotWaitForAProgramThatHasTheSendersPortAndIsNoPlugin) {
  connect();
  post(receiver_);
  ASSERT_NO_FATAL_FAILURE(lose_the_receivers_daemon());
  lyre_addr local{};
  local.port = sends_->listen_port();
  network_.kill_client(sends_->context());
  const lyre_options options{
      .struct_bytes = sizeof options, .socket_path = "sim/0", .label = nullptr, .arena_bytes = 0};
  lyre_context* other = nullptr;
  ASSERT_EQ(lyre_context_open(&options, &other), 0);
  lyre_listener* listener = nullptr;
  ASSERT_EQ(lyre_listen(other, &local, 8, &listener), 0);
  network_.start_daemon(1);
  std::vector<Stream> accepted;
  const std::vector<uint8_t> greeting = {'2', '2', '0', ' ', 'h', 'i'};
  const auto greet = [&] {
    lyre_session* session = nullptr;
    while (lyre_accept(listener, &session) == 0) {
      accepted.emplace_back(session).send_small(greeting);
    }
    return receiver_->has_failed();
  };
  EXPECT_TRUE(receiver_works_until(greet, 60 * kSecond));
  EXPECT_TRUE(receiver_->has_failed());
  EXPECT_EQ(accepted.size(), 1u);
  accepted.clear();
  lyre_close_listener(listener);
  lyre_context_close(other);
}

// What is due by the clock waits for a call that finds no event, but not for ever.
TEST_F(Instances, GivesUpAPeerAlsoWhereEachCallFindsAnEvent) {
  connect();
  network_.kill_daemon(1);
  Request* send = post(sender_);
  int done = 0;
  EXPECT_TRUE(works_until([&] {
    for (lyre_context* context : adapter_sim::contexts()) context->has_news = true;
    return sender_->test(send, &done, nullptr) != Result::kSuccess;
  }));
  EXPECT_EQ(done, 0);
}

/// The daemon has less room than the streams that four comms want.
class InstancesOfAFullDaemon : public Instances {
 protected:
  InstancesOfAFullDaemon() : Instances({.hosts = 2, .rails = 2, .connects_max = 12}, 5) {}

  struct Pair {
    Comm* sender;
    Comm* receiver;
  };
  Pair connect_another() {
    sender_ = receiver_ = nullptr;
    connect();
    return {sender_, receiver_};
  }
  void work_for(int64_t ns) {
    const int64_t end_ns = events_.now_ns() + ns;
    works_until([&] { return events_.now_ns() >= end_ns; });
  }
};

TEST_F(InstancesOfAFullDaemon, EveryCommGetsAStream) {
  std::vector<Pair> pairs;
  for (int i = 0; i < 4; ++i) {
    pairs.push_back(connect_another());
    ASSERT_NE(pairs.back().sender, nullptr) << "comm " << i;
    work_for(kSecond);  // so that those before it have all the streams that they want
  }
  for (const Pair& pair : pairs) {
    Request* receive = post(pair.receiver);
    Request* send = post(pair.sender);
    EXPECT_TRUE(works_until([&] { return is_done(receive); }));
    EXPECT_TRUE(works_until([&] { return is_done(send); }));
  }
  EXPECT_GT(network_.refused_connects(), 0u);
}

TEST_F(InstancesOfAFullDaemon, CommsWithAStreamLeaveThePlacesToOthers) {
  for (int i = 0; i < 3; ++i) connect_another();
  work_for(kSecond);
  const uint64_t refused = network_.refused_connects();
  EXPECT_GT(refused, 0u);
  work_for(kNoRoomNs / 2);
  EXPECT_EQ(network_.refused_connects(), refused);
}

TEST_F(Instances, EveryCallFailsWhenTheDaemonStaysAway) {
  connect();
  network_.kill_daemon(0);
  ASSERT_TRUE(works_until([&] { return sends_->progress() != Result::kSuccess; }));
  EXPECT_EQ(sends_->progress(), Result::kSystemError);
}

/// The first instance shows its comms in a folder of the test's.
class InstancesThatShow : public Instances {
 protected:
  InstancesThatShow() {
    char name[] = "/tmp/lyre-instances-XXXXXX";
    directory_ = ::mkdtemp(name);
    sends_ = Instance::open(Settings{.socket_path = "sim/0", .telemetry_directory = directory_}, 0,
                            &failure_);
  }
  ~InstancesThatShow() override {
    sends_.reset();
    std::filesystem::remove_all(directory_);
  }

  /// A field of its file.
  template <typename Field>
  Field shown(size_t offset) const {
    const auto file = std::filesystem::directory_iterator(directory_)->path();
    std::ifstream in(file, std::ios::binary);
    const std::vector<char> bytes(std::istreambuf_iterator<char>(in), {});
    Field field{};
    EXPECT_GE(bytes.size(), offset + sizeof field);
    if (bytes.size() >= offset + sizeof field) {
      std::memcpy(&field, bytes.data() + offset, sizeof field);
    }
    return field;
  }
  int64_t shown_ns() const {
    return shown<int64_t>(offsetof(nccl_abi::TelemetryHeader, written_ns));
  }
  nccl_abi::CommView first_comm() const {
    return shown<nccl_abi::CommView>(nccl_abi::kTelemetrySlotsOffset +
                                     offsetof(nccl_abi::CommSlot, view));
  }

 private:
  std::string directory_;
};

TEST_F(InstancesThatShow, ShowCommsAsFailedWhenTheDaemonStaysAway) {
  connect();
  network_.kill_daemon(0);
  ASSERT_TRUE(works_until([&] { return sends_->progress() != Result::kSuccess; }));
  until(
      [&] {
        sends_->progress();
        return false;
      },
      10 * kSecond);
  EXPECT_GE(shown_ns(), events_.now_ns() - kSecond);
  EXPECT_EQ(first_comm().has_failed, 1u);
}

// The header's time grows also where no comm is written: rates of `lyre comms` are by the comm's.
TEST_F(InstancesThatShow, TellWhenAViewWasWritten) {
  connect();
  until(
      [&] {
        sends_->progress();
        return false;
      },
      kSecond);
  const int64_t written_ns = first_comm().written_ns;
  EXPECT_EQ(written_ns, shown_ns());
  EXPECT_GE(written_ns, events_.now_ns() - kSecond);
  const std::lock_guard lock(sends_->mutex());
  pass(10 * kSecond);
  std::thread([this] { run_progress_threads(); }).join();
  EXPECT_GT(shown_ns(), written_ns);
  EXPECT_EQ(first_comm().written_ns, written_ns);
}

// regMr() may hold it for a minute, during an upgrade.
TEST_F(InstancesThatShow, ShowThatTheProcessIsAliveWhileACallHoldsTheLock) {
  connect();
  const std::lock_guard lock(sends_->mutex());
  pass(10 * kSecond);
  std::thread([this] { run_progress_threads(); }).join();
  EXPECT_GE(shown_ns(), events_.now_ns() - kSecond);
}

// Each attempt to attach blocks until the library gives it up.
TEST_F(Instances, ADaemonThatAcceptsAndDoesNotAnswerIsGivenUpInTime) {
  connect();
  network_.kill_daemon(0);
  network_.start_daemon(0);
  network_.pause_daemon(0);
  const int64_t from_ns = events_.now_ns();
  ASSERT_TRUE(works_until([&] { return sends_->progress() != Result::kSuccess; }));
  // Virtual time: LYRE_RESUME_SECONDS, and the attempt in which they end.
  EXPECT_LT(events_.now_ns() - from_ns, 10 * kSecond + 3 * kSecond);
}

TEST_F(Instances, AfterFinalizeTheyAreOverWithTheLastCommThatNcclHas) {
  connect();
  EXPECT_FALSE(sends_->is_over());
  EXPECT_FALSE(sends_->finalize());
  EXPECT_FALSE(receives_->finalize());
  EXPECT_FALSE(sends_->is_over());
  EXPECT_FALSE(receives_->is_over());
  Request* receive = post(receiver_);
  Request* send = post(sender_);
  EXPECT_TRUE(works_until([&] { return is_done(receive); }));
  EXPECT_TRUE(works_until([&] { return is_done(send); }));
  sender_->begin_close();
  sends_->close(sender_);
  receiver_->begin_close();
  receives_->close(receiver_);
  EXPECT_TRUE(sends_->is_over());
  EXPECT_TRUE(receives_->is_over());
}

// The note of a connect that failed would name a comm that is gone.
TEST_F(Instances, ConnectAgainWithTheHandleOfAConnectThatFailed) {
  ListenComm* listening = nullptr;
  ASSERT_EQ(receives_->listen(0, handle(), &listening), Result::kSuccess);
  set_receivers_rails(false);
  ASSERT_EQ(sends_->connect(0, handle(), &sender_), Result::kSuccess);
  ASSERT_NE(get_connect_note(handle()), 0u);
  Result result = Result::kSuccess;
  ASSERT_TRUE(works_until([&] {
    result = sends_->connect(0, handle(), &sender_);
    return result != Result::kSuccess;
  }));
  EXPECT_EQ(result, Result::kRemoteError) << "its peer does not answer";
  EXPECT_EQ(sender_, nullptr);
  EXPECT_EQ(get_connect_note(handle()), 0u);
  set_receivers_rails(true);
  ASSERT_NO_FATAL_FAILURE(connect_to(listening));
  Request* receive = post(receiver_);
  Request* send = post(sender_);
  EXPECT_TRUE(works_until([&] { return is_done(receive); }));
  EXPECT_TRUE(works_until([&] { return is_done(send); }));
}

// NCCL does not close what it did not get.
TEST_F(Instances, FinalizeDoesNotWaitForACommThatIsHalfOpen) {
  std::array<uint8_t, nccl_abi::kHandleBytesMax> bytes{};
  ListenComm* listening = nullptr;
  ASSERT_EQ(receives_->listen(0, HandleBytes(bytes), &listening), Result::kSuccess);
  ASSERT_EQ(sends_->connect(0, HandleBytes(bytes), &sender_), Result::kSuccess);
  ASSERT_EQ(sender_, nullptr);
  works_until([&] { return network_.established().size() > 0; });
  EXPECT_TRUE(sends_->finalize());
  EXPECT_TRUE(receives_->finalize());
  EXPECT_TRUE(receives_->is_over()) << "with its listen comm";
}

/// Every core computes, so a round of tests that found nothing ends with a wait.
class InstancesOnBusyCores : public Instances {
 protected:
  InstancesOnBusyCores() : Instances({.hosts = 2, .rails = 2, .are_cores_busy = true}) {}

  /// Two tests in a row are a round, as one request is outstanding.
  void test_in_rounds(Request* request) {
    std::unique_lock lock(receives_->mutex());
    for (int i = 0; i < 2; ++i) receives_->progress_in_round(request, lock);
    EXPECT_TRUE(lock.owns_lock());
  }
};

TEST_F(InstancesOnBusyCores, OtherThreadsUseTheInstanceWhileOneWaits) {
  connect();
  Request* receive = post(receiver_);
  int waits = 0;
  while_asleep = [&] {
    ++waits;
    std::unique_lock other(receives_->mutex(), std::try_to_lock);
    ASSERT_TRUE(other.owns_lock());
    // A second thread whose round is over does not wait as well.
    for (int i = 0; i < 3; ++i) receives_->progress_in_round(receive, other);
  };
  test_in_rounds(receive);
  while_asleep = nullptr;
  EXPECT_EQ(waits, 1);
}

/// The grant for the message is lost with the streams, and finalize closes the receiver before the
/// sender dials again.
class InstancesAtTheEnd : public Instances {
 protected:
  void lose_the_last_grant() {
    connect();
    Request* receive = post(receiver_);
    send_ = post(sender_);
    ASSERT_TRUE(works_until([&] {
      return receiver_->test(receive, &done_, nullptr) == Result::kSuccess && done_ != 0;
    }));
    network_.stop_daemon(0);
    ASSERT_TRUE(
        works_until([&] { return !sends_->is_attached() && network_.established().empty(); }));
    network_.start_daemon(0);
  }
  void finalize_the_receiver() {
    receives_.reset();
    while_asleep = nullptr;
  }

  Request* send_ = nullptr;
};

TEST_F(InstancesAtTheEnd, AnswersForACommThatWasStillOpen) {
  lose_the_last_grant();
  // Both work while one of them ends, as two processes do.
  while_asleep = [this] { sends_->progress(); };
  finalize_the_receiver();
  EXPECT_TRUE(works_until([&] { return is_done(send_); }));
}

// It says so while finalize waits for acknowledgements. Times are virtual.
TEST_F(InstancesAtTheEnd, APeerWhoseProcessEndsIsNotWaitedFor) {
  connect();
  network_.kill_client(sends_->context());
  const int64_t from_ns = events_.now_ns();
  finalize_the_receiver();
  EXPECT_LT(events_.now_ns() - from_ns, int64_t{kFinalizeDrainMs} * 1'000'000);
}

// Both hosts are stopped in each of finalize's first pauses, each time for longer than it waits.
// The sender dials only after that.
TEST_F(InstancesAtTheEnd, TimeForWhichTheProcessWasStoppedIsNoTimeOfThePeer) {
  lose_the_last_grant();
  int stops = 0;
  while_asleep = [&] {
    if (stops++ < 10) {
      events_.run_until(events_.now_ns() + 2 * int64_t{kFinalizeDrainMs} * 1'000'000);
    } else {
      sends_->progress();
    }
  };
  finalize_the_receiver();
  EXPECT_GT(stops, 10);
  EXPECT_TRUE(works_until([&] { return is_done(send_); }));
}

}  // namespace
}  // namespace lyre::nccl_adapter
