#include <gtest/gtest.h>
#include <poll.h>

#include <vector>

#include "tests/io_contract/io_contract.h"

namespace lyre::io::contract {
namespace {

/// A sleeper's wake-ups: the worker's protocol is to poll until nothing comes, arm, and sleep.
class IoContractWait : public IoContract {
 protected:
  void SetUp() override {
    IoContract::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    fd_ = io(1).wait_fd();
    if (fd_ < 0 && !backend().must_wait) GTEST_SKIP() << "this NIC has no receive interrupts";
    ASSERT_EQ(fd_ >= 0, backend().has_wait_fd);
    if (fd_ < 0) GTEST_SKIP() << "does not apply: such a port cannot be waited for";
  }

  bool is_told(int timeout_ms) const {
    pollfd waiting{fd_, POLLIN, 0};
    return poll(&waiting, 1, timeout_ms) == 1;
  }
  /// Polls and arms until no packet waits, as a worker that goes to sleep.
  Arming fall_asleep() {
    drain(1);
    io(1).disarm(Woken::kByPackets);
    const ContractDeadline deadline;
    Arming arming = io(1).arm();
    while (arming == Arming::kPackets && !deadline.is_over()) {
      drain(1);
      arming = io(1).arm();
    }
    EXPECT_NE(arming, Arming::kPackets);
    return arming;
  }
  void expect_packet() {
    std::vector<PacketBuf*> got = receive(1);
    EXPECT_EQ(got.size(), 1u);
    memory(1).release(got);
  }

  static constexpr int kPatienceMs = 4000;
  int fd_ = -1;
};

TEST_P(IoContractWait, AnArmedQueueTellsOfPackets) {
  for (uint32_t round = 0; round < 100; ++round) {
    fall_asleep();
    ASSERT_TRUE(send(packet_with(frame(round, 40))));
    ASSERT_TRUE(is_told(kPatienceMs)) << "round " << round;
    io(1).disarm(Woken::kByPackets);
    expect_packet();
    if (HasFailure()) return;
  }
}

TEST_P(IoContractWait, AQueueThatStaysArmedTellsAgain) {
  fall_asleep();
  for (uint32_t round = 0; round < 10; ++round) {
    ASSERT_TRUE(send(packet_with(frame(round, 40))));
    ASSERT_TRUE(is_told(kPatienceMs)) << "round " << round;
    expect_packet();
    io(1).disarm(Woken::kByPackets);
    ASSERT_NE(io(1).arm(), Arming::kPackets);
  }
}

// Once the last poll found nothing, a packet that arrives before the queue is armed is found by
// arming it, or is told of.
TEST_P(IoContractWait, APacketBetweenPollAndArmingIsNotLost) {
  for (uint32_t round = 0; round < 100; ++round) {
    drain(1);
    io(1).disarm(Woken::kByPackets);
    ASSERT_TRUE(send(packet_with(frame(round, 40))));
    for (uint32_t i = 0; i < round % 4; ++i) wire_->pass_time();
    const Arming arming = io(1).arm();
    ASSERT_TRUE(arming == Arming::kPackets || is_told(kPatienceMs)) << "round " << round;
    io(1).disarm(Woken::kByPackets);
    expect_packet();
    if (HasFailure()) return;
  }
}

TEST_P(IoContractWait, AnArmedQueueIsQuietWithoutPackets) {
  fall_asleep();
  io(1).disarm(Woken::kByTimeout);
  fall_asleep();
  EXPECT_FALSE(is_told(20));
}

TEST_P(IoContractWait, AQueueThatHasToldIsTrustedWhenArmedTwice) {
  fall_asleep();
  ASSERT_TRUE(send(packet_with(frame(1, 40))));
  ASSERT_TRUE(is_told(kPatienceMs));
  io(1).disarm(Woken::kByPackets);
  expect_packet();
  fall_asleep();
  EXPECT_EQ(io(1).arm(), Arming::kArmed);
}

// Either end: the two ends of a memif have different rings.
INSTANTIATE_TEST_SUITE_P(Io, IoContractWait, ::testing::Bool(), [](const auto& end) {
  return std::string(backend().name) + (end.param ? "_left" : "_right");
});

}  // namespace
}  // namespace lyre::io::contract
