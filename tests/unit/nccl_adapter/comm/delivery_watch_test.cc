#include "nccl_adapter/comm/delivery_watch.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <span>

#include "nccl_adapter/limits.h"
#include "tests/unit/nccl_adapter/idle_transport.h"

namespace lyre::nccl_adapter {
namespace {

constexpr int64_t kFirstNs = 100 * kNsPerSecond;

struct NobodyWaits final : SessionOwner {
  void on_ready() override {}
};

/// One lane with data under way.
class DeliveryWatchTest : public ::testing::Test {
 protected:
  DeliveryWatchTest() { attach(); }

  void attach() {
    lane().attach(std::make_unique<IdleTransport>(), 1, kFirstNs);
    lane().path_text = "rail0 > 10.9.0.2:1";
    lane().sent.push_back({.message = 5, .offset = 0, .bytes = 100'000});
    lane().unacked_bytes = 100'000;
  }
  /// So many sessions stall one after the other.
  void stall(uint32_t times) {
    for (uint32_t i = 0; i < times; ++i) {
      watch_.note_stall(lane());
      attach();
      look();
    }
  }
  void look(uint64_t placed = 5, bool is_awaiting = true) {
    watch_.look(lanes_, {.placed = placed, .is_awaiting = is_awaiting});
  }
  bool gives_up(int64_t after_s) {
    return watch_.judge(settings_, kFirstNs + after_s * kNsPerSecond).has_value();
  }
  Lane& lane() { return lanes_[0]; }

  Settings settings_{.peer_timeout_s = 30};
  NobodyWaits waiter_;
  Lanes lanes_{&waiter_, 1};
  DeliveryWatch watch_;
};

TEST_F(DeliveryWatchTest, GivesUpAfterThePeersTimeoutWithoutData) {
  look();
  stall(kUndeliveredStreamsMin);
  EXPECT_FALSE(gives_up(30));
  EXPECT_TRUE(gives_up(31));
  EXPECT_EQ(watch_.judge(settings_, kFirstNs + 31 * kNsPerSecond),
            "it is connected, but no data arrives (rail0 > 10.9.0.2:1): the path may drop large "
            "packets; given up after 31 s and 3 connections");
}

TEST_F(DeliveryWatchTest, FewStallsMayHaveAnotherReason) {
  look();
  stall(kUndeliveredStreamsMin - 1);
  EXPECT_FALSE(gives_up(1000));
}

TEST_F(DeliveryWatchTest, ASessionThatDeliveredDataDoesNotCount) {
  look();
  for (uint32_t i = 0; i < 10; ++i) {
    lane().acked_bytes = kDeliveredBytesMin;
    watch_.note_stall(lane());
    attach();
  }
  EXPECT_FALSE(gives_up(1000));
}

TEST_F(DeliveryWatchTest, WhateverArrivesBeginsTheTimeAnew) {
  const std::function<void()> arrivals[] = {[this] { look(6); },
                                            [this] {
                                              lane().acked_bytes = kDeliveredBytesMin;
                                              lane().gained_bytes = 1;
                                              look();
                                            },
                                            [this] {
                                              lane().unacked_bytes = 0;
                                              look();
                                            },
                                            [this] {
                                              lane().is_window_closed = true;
                                              look();
                                            },
                                            [this] { look(5, false); },
                                            [this] {
                                              lanes_.drop_all();
                                              look();
                                            }};
  for (const auto& arrive : arrivals) {
    look();
    stall(kUndeliveredStreamsMin);
    EXPECT_TRUE(gives_up(31));
    arrive();
    EXPECT_FALSE(gives_up(1000));
    attach();
  }
}

TEST_F(DeliveryWatchTest, HeadersAndPingsAreNoData) {
  look();
  stall(kUndeliveredStreamsMin);
  lane().acked_bytes = lane().gained_bytes = kDeliveredBytesMin - 1;
  look();
  EXPECT_TRUE(gives_up(31));
}

TEST_F(DeliveryWatchTest, EachSessionGetsTwiceTheTimeUntilOneDelivers) {
  EXPECT_EQ(DeliveryWatch::pause_ns(lane(), settings_), 0);
  for (const int64_t more_s : {1, 3, 7, 7}) {
    stall(1);
    EXPECT_EQ(DeliveryWatch::pause_ns(lane(), settings_), more_s * kNsPerSecond);
  }
  lane().acked_bytes = kDeliveredBytesMin;
  look();
  EXPECT_EQ(DeliveryWatch::pause_ns(lane(), settings_), 0);
  EXPECT_EQ(lane().undelivered, 0u);
}

TEST_F(DeliveryWatchTest, ASessionIsReplacedBeforeTcpGivesItUp) {
  settings_.peer_timeout_s = 6;
  stall(5);
  EXPECT_EQ(DeliveryWatch::pause_ns(lane(), settings_), kNsPerSecond);
  settings_.peer_timeout_s = 3;
  EXPECT_EQ(DeliveryWatch::pause_ns(lane(), settings_), 0);
}

}  // namespace
}  // namespace lyre::nccl_adapter
