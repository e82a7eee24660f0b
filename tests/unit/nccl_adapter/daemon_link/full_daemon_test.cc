#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nccl_adapter/daemon_link/instance.h"
#include "nccl_adapter/limits.h"
#include "nccl_adapter/observe/log.h"
#include "nccl_adapter/protocol/handle.h"
#include "tests/unit/nccl_adapter/support/two_hosts.h"

namespace lyre::nccl_adapter {
namespace {

using nccl_abi::Result;

constexpr size_t kRoom = 16;

/// Communicators of one process, each with an instance of its own, and the instance on the other
/// host that receives from all of them. A comm that is busy has always something to send.
class CommunicatorsOfAProcess : public TwoHosts {
 protected:
  struct Pair {
    std::array<uint8_t, nccl_abi::kHandleBytesMax> handle{};
    ListenComm* listening = nullptr;
    Comm* sender = nullptr;
    Comm* receiver = nullptr;
    Request* send = nullptr;
    Request* receive = nullptr;
    std::vector<uint8_t> out;
    std::vector<uint8_t> in;
    uint64_t received = 0;  ///< messages
  };
  struct Communicator {
    std::unique_ptr<Instance> instance;
    std::vector<std::unique_ptr<Pair>> pairs;
    bool is_busy = false;
  };

  explicit CommunicatorsOfAProcess(const adapter_sim::NetworkSettings& settings)
      : TwoHosts(settings) {
    receives_ = Instance::open(Settings{.socket_path = "sim/1"}, 0, &failure_);
  }
  ~CommunicatorsOfAProcess() override {
    for (const auto& communicator : all_) communicator->instance.reset();
    receives_.reset();
  }

  /// `streams`: of each of its comms; 0: as the port and its workers need.
  Communicator& open(int64_t streams) {
    all_.push_back(std::make_unique<Communicator>());
    all_.back()->instance = Instance::open(Settings{.socket_path = "sim/0", .streams = streams},
                                           all_.size(), &failure_);
    return *all_.back();
  }
  /// So many comms at once, as NCCL does. False: one of them failed.
  bool connect(Communicator& communicator, size_t comms) {
    for (size_t i = 0; i < comms; ++i) {
      communicator.pairs.push_back(std::make_unique<Pair>());
      Pair& pair = *communicator.pairs.back();
      EXPECT_EQ(receives_->listen(0, HandleBytes(pair.handle), &pair.listening), Result::kSuccess);
    }
    bool has_failed = false;
    const auto is_over = [&] {
      bool are_connected = true;
      for (const auto& pair : communicator.pairs) {
        if (pair->sender == nullptr && !has_failed) {
          has_failed = communicator.instance->connect(0, HandleBytes(pair->handle),
                                                      &pair->sender) != Result::kSuccess;
        }
        if (pair->receiver == nullptr) receives_->accept(pair->listening, &pair->receiver);
        are_connected = are_connected && pair->sender != nullptr && pair->receiver != nullptr;
      }
      return has_failed || are_connected;
    };
    return works_until(is_over) && !has_failed;
  }
  bool works_until(const std::function<bool()>& condition, int64_t within_ns = 60 * kSecond) {
    return until(
        [&] {
          receives_->progress();
          for (const auto& communicator : all_) work(*communicator);
          return condition();
        },
        within_ns);
  }
  void work_for(int64_t ns) {
    works_until([] { return false; }, ns);
  }
  bool streams_become(size_t count) {
    return works_until([&] { return network_.established().size() == count; }, 10 * kSecond);
  }
  /// Each comm carries messages from now on.
  void expect_to_work(Communicator& communicator) {
    communicator.is_busy = true;
    for (const auto& pair : communicator.pairs) {
      const uint64_t before = pair->received;
      EXPECT_TRUE(works_until([&] { return pair->received > before; }));
    }
  }

  std::string lines_of_a_failed_connect() {
    set_logger(nullptr);
    ::testing::internal::CaptureStderr();
    EXPECT_FALSE(connect(open(1), 1));
    return ::testing::internal::GetCapturedStderr();
  }

  std::vector<std::unique_ptr<Communicator>> all_;
  std::unique_ptr<Instance> receives_;

 private:
  static void work(Communicator& communicator) {
    communicator.instance->progress();
    for (const auto& pair : communicator.pairs) {
      if (pair->sender == nullptr || pair->receiver == nullptr) continue;
      if (communicator.is_busy && pair->send == nullptr && pair->receive == nullptr) {
        pair->out.resize(1 << 20, 1);
        pair->in.resize(1 << 20);
        pair->receive = post(pair->receiver, pair->in);
        pair->send = post(pair->sender, pair->out);
      }
      finish(&pair->send);
      if (finish(&pair->receive)) ++pair->received;
    }
  }
  static Request* post(Comm* comm, std::vector<uint8_t>& data) {
    Request* request = nullptr;
    EXPECT_EQ(comm->post(data.data(), data.size(), nullptr, Operation{}, &request),
              Result::kSuccess);
    return request;
  }
  static bool finish(Request** request) {
    if (*request == nullptr) return false;
    int done = 0;
    EXPECT_EQ((*request)->comm->test(*request, &done, nullptr), Result::kSuccess);
    if (done == 0) return false;
    *request = nullptr;
    return true;
  }

  int failure_ = 0;
};

class CommunicatorsOfAFullDaemon : public CommunicatorsOfAProcess {
 protected:
  CommunicatorsOfAFullDaemon()
      : CommunicatorsOfAProcess({.hosts = 2,
                                 .rails = 2,
                                 .host_bytes_per_s = 32'000'000,
                                 .segment_bytes_max = 8'960,
                                 .in_flight_bytes_max = 64 * 1024,
                                 .host_connects_max = kRoom}) {}
};

TEST_F(CommunicatorsOfAFullDaemon, MakeRoomForANewOneWhileTheyAreBusy) {
  Communicator& old = open(4);
  ASSERT_TRUE(connect(old, kRoom / 4));
  ASSERT_TRUE(streams_become(kRoom));
  old.is_busy = true;
  work_for(kSecond);
  Communicator& made_later = open(4);
  EXPECT_TRUE(connect(made_later, kRoom / 2));
  expect_to_work(made_later);
  expect_to_work(old);
}

// In the pause the old one forgets that it gave streams back.
TEST_F(CommunicatorsOfAFullDaemon, MakeRoomForANewOneAgainAfterAPause) {
  Communicator& old = open(4);
  ASSERT_TRUE(connect(old, kRoom / 4));
  ASSERT_TRUE(streams_become(kRoom));
  Communicator& second = open(4);
  ASSERT_TRUE(connect(second, 2));
  work_for(kForgetStreamsNs + kSecond);
  old.is_busy = true;
  ASSERT_TRUE(streams_become(kRoom));
  Communicator& third = open(4);
  EXPECT_TRUE(connect(third, kRoom / 2));
  expect_to_work(third);
  expect_to_work(second);
}

// The places are for comms that begin.
TEST_F(CommunicatorsOfAFullDaemon, DoNotKeepEveryPlace) {
  Communicator& communicator = open(5);
  ASSERT_TRUE(connect(communicator, kRoom / 4));
  ASSERT_TRUE(streams_become(kRoom));
  work_for(3 * kStreamsRefusedNs);
  EXPECT_LT(network_.established().size(), kRoom);
  EXPECT_GE(network_.established().size(), 7u) << "one refusal halves once";
  expect_to_work(communicator);
}

// The address of the other host in the line made readers look there.
TEST_F(CommunicatorsOfAFullDaemon, NameItWhereNoneCanMakeRoom) {
  ASSERT_TRUE(connect(open(1), kRoom));
  const std::string lines = lines_of_a_failed_connect();
  EXPECT_NE(lines.find("this host's daemon has no connection left"), std::string::npos) << lines;
  EXPECT_NE(lines.find("tcp.connections_max"), std::string::npos) << lines;
}

/// Eight streams, one for each worker, are wanted. There is room for eight streams of some
/// connections and two of the others.
class ManyConnections : public CommunicatorsOfAProcess {
 protected:
  static constexpr size_t kOthers = 32;

  ManyConnections()
      : CommunicatorsOfAProcess(
            {.hosts = 2,
             .rails = 2,
             .host_connects_max = kStreamsAutoMax * kConnectionsWithStreams + 2 * kOthers,
             .workers = kStreamsAutoMax}) {}
};

// Each began with eight, and a job of 64 hosts asked for more than twice what a daemon has.
TEST_F(ManyConnections, LeaveRoomWhileTheyAreIdle) {
  Communicator& communicator = open(0);
  ASSERT_TRUE(connect(communicator, kConnectionsWithStreams + kOthers));
  constexpr size_t kAtFirst = kStreamsAutoMax * kConnectionsWithStreams + kOthers;
  ASSERT_TRUE(streams_become(kAtFirst));
  work_for(3 * kStreamsRefusedNs);
  EXPECT_EQ(network_.established().size(), kAtFirst) << "some were given back";
  work_for(kForgetStreamsNs);
  EXPECT_TRUE(streams_become(kConnectionsWithStreams + kOthers));
}

/// The other host's daemon is full, and drops what begins a connection.
class CommunicatorsToAFullDaemon : public CommunicatorsOfAProcess {
 protected:
  CommunicatorsToAFullDaemon()
      : CommunicatorsOfAProcess({.hosts = 2, .rails = 2, .host_accepts_max = kRoom}) {}
};

TEST_F(CommunicatorsToAFullDaemon, MakeRoomForANewOne) {
  Communicator& old = open(4);
  ASSERT_TRUE(connect(old, kRoom / 4));
  ASSERT_TRUE(streams_become(kRoom));
  Communicator& made_later = open(4);
  EXPECT_TRUE(connect(made_later, kRoom / 2));
  expect_to_work(made_later);
}

TEST_F(CommunicatorsToAFullDaemon, NameItWhereNoneCanMakeRoom) {
  ASSERT_TRUE(connect(open(1), kRoom));
  const std::string lines = lines_of_a_failed_connect();
  EXPECT_NE(lines.find("tcp_no_sessions"), std::string::npos) << lines;
}

// Nothing shows that the host is there at all.
TEST_F(CommunicatorsToAFullDaemon, DoNotBlameItWhereNobodyReachesTheHost) {
  for (size_t rail = 0; rail < 2; ++rail) network_.wires().set_rail({1, rail}, false);
  const std::string lines = lines_of_a_failed_connect();
  EXPECT_NE(lines.find("cannot connect to "), std::string::npos);
  EXPECT_EQ(lines.find("tcp_no_sessions"), std::string::npos) << lines;
}

}  // namespace
}  // namespace lyre::nccl_adapter
