// Over which streams the BYE of a closing comm is sent. These tests call the plugin's core, not its
// entry points: close() ends after a second, which is too short to watch.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <mutex>

#include "nccl_adapter/comm/recv_comm.h"
#include "nccl_adapter/daemon_link/instance.h"
#include "nccl_adapter/limits.h"
#include "nccl_adapter/protocol/frame.h"
#include "tests/adapter/link.h"
#include "tests/adapter/raw_peer.h"

namespace lyre::test {
namespace {

using namespace lyre::nccl_adapter;

/// The process that listens, on host 1.
class Listening {
 public:
  explicit Listening(const DaemonPair& pair)
      : instance_(Instance::open(Settings{.socket_path = pair.socket(1)}, 0, &failure_)),
        lock_(instance_->mutex()) {
    EXPECT_EQ(instance_->listen(0, handle_, &listen_comm_), Result::kSuccess);
  }
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;

  const HandleBuffer& handle() const { return handle_; }
  Instance& instance() { return *instance_; }

  /// Makes progress until `condition` holds.
  bool works_until(const std::function<bool()>& condition) {
    return until([&] { return instance_->progress() == Result::kSuccess && condition(); });
  }

  Comm* accept() {
    Comm* comm = nullptr;
    EXPECT_TRUE(works_until([&] {
      EXPECT_EQ(instance_->accept(listen_comm_, &comm), Result::kSuccess);
      return comm != nullptr;
    }));
    return comm;
  }

  /// Whether all bytes that were sent are acknowledged, but for streams that were given up.
  bool can_leave() { return lyre_drain(instance_->context(), 10'000) == 0; }

 private:
  HandleBuffer handle_{};
  ListenComm* listen_comm_ = nullptr;
  int failure_ = 0;
  std::unique_ptr<Instance> instance_;
  std::unique_lock<std::mutex> lock_;
};

/// Whether the plugin has sent `wanted` to this peer. The frames that a receiver sends after its
/// answer have no payload.
bool has_received(RawPeer& peer, const FrameHeader& wanted) {
  peer.is_closed();
  std::span<const uint8_t> left(peer.received());
  left = left.subspan(std::min(left.size(), kAnswerBytes));
  FrameHeader frame;
  while (left.size() >= kFrameHeaderBytes && decode(left.first<kFrameHeaderBytes>(), &frame)) {
    if (frame == wanted) return true;
    left = left.subspan(kFrameHeaderBytes);
  }
  return false;
}

constexpr FrameHeader kGoodbye{.type = FrameType::kBye};

/// A peer at `host` that becomes a stream of the comm under test.
std::unique_ptr<RawPeer> join(const DaemonPair& pair, int host, Listening& here, uint16_t index) {
  auto peer = std::make_unique<RawPeer>(pair.socket(host), here.handle());
  peer->send(hello_for(here.handle(), index, 2));
  EXPECT_TRUE(here.works_until([&] { return has_received(*peer, {.type = FrameType::kGrant}); }));
  return peer;
}

TEST(Goodbye, IsSentToAStreamThatJoinsAfterItWasSentToTheOthers) {
  const std::unique_ptr<DaemonPair> pair = own_daemons();
  Listening here(*pair);
  const auto first = join(*pair, 0, here, 0);
  Comm* comm = here.accept();
  comm->begin_close();
  EXPECT_TRUE(here.works_until([&] { return has_received(*first, kGoodbye); }));
  const auto second = join(*pair, 0, here, 1);
  EXPECT_TRUE(here.works_until([&] { return has_received(*second, kGoodbye); }));
  here.instance().close(comm);
}

/// A comm of two streams. The daemon of one stream's host is stopped. The other stream comes from
/// this host, so it still works.
class DeadStream : public ::testing::Test {
 protected:
  DeadStream() : dead_(join(*pair_, 0, here_, 0)), alive_(join(*pair_, 1, here_, 1)) {
    comm_ = here_.accept();
    ::kill(pair_->pid(0), SIGSTOP);
    ::waitpid(pair_->pid(0), nullptr, WUNTRACED);
  }
  ~DeadStream() override { ::kill(pair_->pid(0), SIGCONT); }

  std::unique_ptr<DaemonPair> pair_ = own_daemons();
  Listening here_{*pair_};
  std::unique_ptr<RawPeer> dead_;
  std::unique_ptr<RawPeer> alive_;
  Comm* comm_ = nullptr;
};

TEST_F(DeadStream, DoesNotDelayACloseWhoseGoodbyeAnotherStreamAcknowledged) {
  comm_->begin_close();
  EXPECT_TRUE(here_.works_until([&] { return comm_->goodbye().is_acknowledged(); }));
  EXPECT_FALSE(comm_->goodbye().is_done());
  here_.instance().close(comm_);
  EXPECT_TRUE(here_.can_leave());
}

TEST_F(DeadStream, DoesNotDelayACloseAfterThePeersGoodbye) {
  std::vector<uint8_t> data(kGrantPromptBytes + 1);
  Request* request = nullptr;
  EXPECT_EQ(comm_->post(data.data(), data.size(), nullptr, {}, &request), Result::kSuccess);
  EXPECT_FALSE(comm_->goodbye().is_done());  // the grant is sent over the dead stream
  const FrameHeader again{.type = FrameType::kGrant, .offset = 1};
  EXPECT_TRUE(here_.works_until([&] { return has_received(*alive_, again); }));
  uint8_t bye[kFrameHeaderBytes];
  encode(kGoodbye, bye);
  alive_->send(bye);
  EXPECT_TRUE(here_.works_until([&] { return comm_->has_failed(); }));
  here_.instance().close(comm_);
  EXPECT_TRUE(here_.can_leave());
}

}  // namespace
}  // namespace lyre::test
