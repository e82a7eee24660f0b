// Over which streams a goodbye goes. The plugin's core is driven here, not its entry points: a
// close() waits a second for the last words, a comm for as long as the test does.
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
#include "tests/adapter/stranger.h"

namespace lyre::test {
namespace {

using namespace lyre::nccl_adapter;

/// The process that listens, on host 1.
class Listening {
 public:
  explicit Listening(const DaemonPair& pair)
      : instance_(Instance::open(Settings{.socket_path = pair.socket(1)}, 0)),
        lock_(instance_->mutex()) {
    EXPECT_EQ(instance_->listen(0, handle_, &listen_comm_), Result::kSuccess);
  }
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;

  const HandleBuffer& handle() const { return handle_; }
  Instance& instance() { return *instance_; }

  /// Works until `condition` holds.
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

  /// Whether nothing that was said is still waited for, other than by those who have not heard it.
  bool can_leave() { return lyre_drain(instance_->context(), 10'000) == 0; }

 private:
  HandleBuffer handle_{};
  ListenComm* listen_comm_ = nullptr;
  std::unique_ptr<Instance> instance_;
  std::unique_lock<std::mutex> lock_;
};

/// Whether the plugin has said `wanted` to it. What a receiver says after its answer has no
/// payload.
bool has_heard(Stranger& peer, const FrameHeader& wanted) {
  peer.is_shown_out();
  std::span<const uint8_t> left(peer.heard());
  left = left.subspan(std::min(left.size(), kAnswerBytes));
  FrameHeader frame;
  while (left.size() >= kFrameHeaderBytes && decode(left.first<kFrameHeaderBytes>(), &frame)) {
    if (frame == wanted) return true;
    left = left.subspan(kFrameHeaderBytes);
  }
  return false;
}

constexpr FrameHeader kGoodbye{.type = FrameType::kBye};

/// Somebody at `host` who becomes a stream of the comm that the test is about.
std::unique_ptr<Stranger> join(const DaemonPair& pair, int host, Listening& here, uint16_t index) {
  auto peer = std::make_unique<Stranger>(pair.socket(host), here.handle());
  peer->say(hello_for(here.handle(), index, 2));
  EXPECT_TRUE(here.works_until([&] { return has_heard(*peer, {.type = FrameType::kGrant}); }));
  return peer;
}

TEST(Goodbye, IsSaidToAStreamThatJoinsWhenItWasSaidToTheOthers) {
  const std::unique_ptr<DaemonPair> pair = own_daemons();
  Listening here(*pair);
  const auto first = join(*pair, 0, here, 0);
  Comm* comm = here.accept();
  comm->begin_close();
  EXPECT_TRUE(here.works_until([&] { return has_heard(*first, kGoodbye); }));
  const auto second = join(*pair, 0, here, 1);
  EXPECT_TRUE(here.works_until([&] { return has_heard(*second, kGoodbye); }));
  here.instance().close(comm);
}

/// A comm of two streams, one of them from a host that will say nothing any more. The other comes
/// from this host, so that it is there when the wire's other end stands still.
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
  std::unique_ptr<Stranger> dead_;
  std::unique_ptr<Stranger> alive_;
  Comm* comm_ = nullptr;
};

TEST_F(DeadStream, IsNotOwedAGoodbyeThatAnotherHeard) {
  comm_->begin_close();
  EXPECT_TRUE(here_.works_until([&] { return comm_->is_goodbye_heard(); }));
  EXPECT_FALSE(comm_->is_close_done());
  here_.instance().close(comm_);
  EXPECT_TRUE(here_.can_leave());
}

TEST_F(DeadStream, IsOwedNothingWhenThePeerHasSaidGoodbye) {
  std::vector<uint8_t> data(kGrantPromptBytes + 1);
  Request* request = nullptr;
  EXPECT_EQ(comm_->post(data.data(), data.size(), nullptr, {}, &request), Result::kSuccess);
  EXPECT_FALSE(comm_->is_close_done());  // the grant goes to the dead one
  const FrameHeader again{.type = FrameType::kGrant, .offset = 1};
  EXPECT_TRUE(here_.works_until([&] { return has_heard(*alive_, again); }));
  uint8_t bye[kFrameHeaderBytes];
  encode(kGoodbye, bye);
  alive_->say(bye);
  EXPECT_TRUE(here_.works_until([&] { return comm_->has_failed(); }));
  here_.instance().close(comm_);
  EXPECT_TRUE(here_.can_leave());
}

}  // namespace
}  // namespace lyre::test
