#include "nccl_adapter/transport/lane.h"

#include <gtest/gtest.h>

#include "tests/unit/nccl_adapter/support/connected_hosts.h"

namespace lyre::nccl_adapter {
namespace {

class LaneWaiter final : public SessionOwner {
 public:
  void on_ready() override { ++count; }
  int count = 0;
};

/// A lane on one host whose stream ends at a session of the other.
class LaneInAWorld : public ConnectedHosts {
 protected:
  explicit LaneInAWorld(const adapter_sim::NetworkSettings& settings = {.hosts = 2, .rails = 2})
      : ConnectedHosts(settings) {}
  ~LaneInAWorld() override { lane_.drop(); }

  void attach() {
    lane_.attach(std::make_unique<Stream>(connect()), 1, events_.now_ns());
    waiter_.count = 0;
  }
  /// A look every tick, as a comm has it.
  void look_for(int64_t ns) {
    for (int64_t passed = 0; passed < ns; passed += kTickNs) {
      pass(kTickNs);
      lane_.look(events_.now_ns());
    }
  }
  void send(size_t bytes) { lane_.transport->send_small(std::vector<uint8_t>(bytes, 7)); }

  LaneWaiter waiter_;
  Lane lane_{&waiter_, 3};
};

TEST_F(LaneInAWorld, TellsItsWaiterWhatHappensOnItsStream) {
  attach();
  EXPECT_TRUE(lane_.is_up());
  EXPECT_EQ(lane_.attached, 1u);
  far_.send_small(std::vector<uint8_t>(5));
  EXPECT_TRUE(until([&] { return waiter_.count > 0; }));
}

TEST_F(LaneInAWorld, ThatWasClosedNamesNoTransport) {
  attach();
  ASSERT_NE(lane_.reader.source, nullptr);
  lane_.close();
  EXPECT_EQ(lane_.reader.source, nullptr);
}

TEST_F(LaneInAWorld, IsStalledWhenNothingIsAcknowledgedForLong) {
  attach();
  send(100);
  look_for(kSecond / 2);
  EXPECT_EQ(lane_.transport->unacked_bytes(), 0u);
  network_.wires().set_rail({1, 0}, false);
  send(100);
  look_for(lane_.stall_ns() - 10 * kTickNs);
  EXPECT_FALSE(lane_.is_stalled(events_.now_ns()));
  look_for(20 * kTickNs);
  EXPECT_TRUE(lane_.is_stalled(events_.now_ns()));
}

TEST_F(LaneInAWorld, ThatHasNothingToBeAcknowledgedIsNotStalled) {
  attach();
  network_.wires().set_rail({1, 0}, false);
  look_for(10 * kSecond);
  EXPECT_FALSE(lane_.is_stalled(events_.now_ns()));
}

TEST_F(LaneInAWorld, OnAShortPathTheStallLimitIsASecond) {
  attach();
  send(100);
  look_for(kSecond);
  EXPECT_GT(lane_.transport->patience_ns(), 0);
  EXPECT_EQ(lane_.stall_ns(), kStallNs);
}

// The peer's process is stopped: its daemon answers window probes.
TEST_F(LaneInAWorld, WhoseReaderHasNoRoomIsNeitherStalledNorSlow) {
  attach();
  send((1 << 20) + kSlowBacklogBytes);  // what the network keeps for a reader, and more
  for (int64_t passed = 0; passed < 20 * kSecond; passed += kTickNs) {
    look_for(kTickNs);
    ASSERT_FALSE(lane_.is_stalled(events_.now_ns())) << passed;
  }
  EXPECT_GE(lane_.transport->unacked_bytes(), kSlowBacklogBytes);
  EXPECT_TRUE(lane_.transport->is_window_closed());
  EXPECT_TRUE(lane_.is_window_closed) << "not judged by that";
}

TEST_F(LaneInAWorld, WhoseReaderHasNoRoomIsStalledWhenNoProbeIsAnswered) {
  attach();
  send((1 << 20) + 100);
  look_for(2 * kSecond);
  ASSERT_TRUE(lane_.transport->is_window_closed());
  network_.wires().set_rail({1, 0}, false);
  look_for(20 * kSecond);
  EXPECT_FALSE(lane_.transport->is_window_closed());
  EXPECT_TRUE(lane_.is_stalled(events_.now_ns()));
}

class LongLaneInAWorld : public LaneInAWorld {
 protected:
  LongLaneInAWorld() : LaneInAWorld({.hosts = 2, .rails = 2, .delay_ns = kSecond / 2}) {}
};

TEST_F(LongLaneInAWorld, TheStallLimitIsSeveralOfTcpsTimeouts) {
  attach();
  send(100);
  look_for(10 * kSecond);
  EXPECT_GE(lane_.transport->patience_ns(), kStallTimeouts * kSecond);
  EXPECT_EQ(lane_.stall_ns(), lane_.transport->patience_ns());
}

TEST_F(LaneInAWorld, DropForgetsWhatWasKnownOfTheStream) {
  attach();
  for (int i = 0; i < 10; ++i) {
    send(1'000'000);
    look_for(kTickNs);
  }
  EXPECT_GT(lane_.rate_bytes_per_s, 0u);
  lane_.drop();
  EXPECT_FALSE(lane_.is_up());
  EXPECT_EQ(lane_.rate_bytes_per_s, 0u);
  EXPECT_TRUE(until([&] { return far_.state() == LYRE_ENDED; }));
  EXPECT_EQ(far_.error(), LYRE_E_RESET);
}

TEST_F(LaneInAWorld, WhatAPausingCallerSendsDoesNotMakeItsStreamSlow) {
  attach();
  lane_.note_rate(1000, false);
  EXPECT_EQ(lane_.rate_bytes_per_s, 0u) << "it says nothing of the path";
  lane_.note_rate(100'000, true);
  lane_.note_rate(1000, false);
  EXPECT_EQ(lane_.rate_bytes_per_s, 100'000u);
  lane_.note_rate(200'000, false);
  EXPECT_EQ(lane_.rate_bytes_per_s, 200'000u);
  lane_.note_rate(1000, true);
  EXPECT_LT(lane_.rate_bytes_per_s, 200'000u);
}

TEST_F(LaneInAWorld, ASuccessorTakesTheStreamsPlace) {
  attach();
  Stream first = std::move(far_);
  lane_.attach(std::make_unique<Stream>(connect()), 2, events_.now_ns());
  EXPECT_EQ(lane_.attached, 2u);
  EXPECT_EQ(lane_.incarnation, 2u);
  EXPECT_TRUE(until([&] { return first.state() == LYRE_ENDED; }));
}

TEST_F(LaneInAWorld, ForgetsHowOftenItWasTriedAtHomeWhenItWasThereForLong) {
  attach();
  const int64_t since_ns = lane_.attached_ns;
  lane_.returns = 5;
  lane_.forgive(since_ns + kReturnNsMax, true);
  EXPECT_EQ(lane_.returns, 5u) << "the home pair may be lost again at once";
  lane_.forgive(since_ns + 2 * kReturnNsMax, false);
  EXPECT_EQ(lane_.returns, 5u) << "it was elsewhere";
  lane_.forgive(since_ns + kReturnNsMax + 1, true);
  EXPECT_EQ(lane_.returns, 0u);
}

// A dial for another path that failed moves on the pair that is tried next, not the session.
TEST_F(LaneInAWorld, IsAtHomeWhereItsSessionIs) {
  constexpr size_t kPairs = 4;
  attach();
  lane_.home_pair = 0;
  lane_.attached_pair = 3;
  lane_.pair = 0;
  EXPECT_FALSE(lane_.is_at_home(kPairs));
  lane_.attached_pair = 4;  // of a list that was longer
  lane_.pair = 1;
  EXPECT_TRUE(lane_.is_at_home(kPairs));
}

TEST_F(LaneInAWorld, ThatIsWantedAgainBeginsWhereItsSessionIs) {
  attach();
  lane_.attached_pair = 1;
  lane_.pair = 2;
  lane_.redial_ns = kSecond;
  lane_.want_again();
  EXPECT_EQ(lane_.pair, 2u) << "it was wanted all the time";
  EXPECT_EQ(lane_.redial_ns, kSecond);
  lane_.is_unwanted = true;
  lane_.want_again();
  EXPECT_FALSE(lane_.is_unwanted);
  EXPECT_EQ(lane_.pair, 1u);
  EXPECT_EQ(lane_.redial_ns, 0);
  lane_.drop();
  lane_.is_unwanted = true;
  lane_.pair = 2;
  lane_.want_again();
  EXPECT_EQ(lane_.pair, 2u) << "there is no session";
}

TEST_F(LaneInAWorld, ForgetsHowOftenItWasSlowWhenItWasNotForLong) {
  attach();
  lane_.replaced = 6;
  lane_.slow_again = 3;
  lane_.replace_ns = events_.now_ns() + kSlowPauseNsMax;
  lane_.forgive(lane_.replace_ns + kSlowForgetNs, true);
  EXPECT_EQ(lane_.replaced, 6u);
  EXPECT_EQ(lane_.slow_again, 3u);
  lane_.forgive(lane_.replace_ns + kSlowForgetNs + 1, true);
  EXPECT_EQ(lane_.replaced, 0u);
  EXPECT_EQ(lane_.slow_again, 0u);
}

TEST_F(LaneInAWorld, CountsTheStreamsThatWereMadeAgain) {
  attach();
  EXPECT_EQ(lane_.remade, 0u);
  attach();
  lane_.drop();
  attach();
  EXPECT_EQ(lane_.remade, 2u) << "one was replaced, one was missed";
  lane_.drop();
  lane_.is_missed = false;
  attach();
  EXPECT_EQ(lane_.remade, 2u) << "it was given back before";
}

TEST_F(LaneInAWorld, RoomIsWhatTheStreamDeliversInTwoRoundTripsAndAShortQueue) {
  constexpr uint64_t kPiece = kStripeBytesMin;
  attach();
  EXPECT_EQ(lane_.room_bytes(kPiece, false), 2 * kPiece) << "nothing is known";
  EXPECT_GT(lane_.room_bytes(0, false), 0u) << "a message may have no bytes";
  for (int i = 0; i < 100; ++i) {
    send(100'000);
    look_for(kTickNs);
  }
  const uint64_t beside = lane_.room_bytes(kPiece, false);
  EXPECT_GT(beside, 2 * kPiece);
  EXPECT_GE(lane_.room_bytes(kBlockBytes, false), 2 * kBlockBytes);
  EXPECT_GE(lane_.room_bytes(kPiece, true), beside);
  EXPECT_LE(lane_.room_bytes(kPiece, true), kStreamUnackedBytesMax);
}

}  // namespace
}  // namespace lyre::nccl_adapter
