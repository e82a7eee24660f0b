#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "nccl_adapter/limits.h"
#include "tests/unit/nccl_adapter/support/comms.h"

// How a sending comm finds its rails, and leaves a slow one.
namespace lyre::nccl_adapter {
namespace {

constexpr size_t kSeparateRails = 8;
constexpr size_t kSeparateStreams = 10;

/// Rails that are networks of their own, which no prefix shows. The parameter is the device of the
/// receiver; the sender's is the first.
class CommsOnSeparateRails : public Comms, public ::testing::WithParamInterface<size_t> {
 protected:
  CommsOnSeparateRails()
      : Comms(
            {.hosts = 2, .rails = kSeparateRails, .is_routed = false, .are_single_addresses = true},
            kSeparateStreams) {}
  /// All streams are there, and nothing was dialled in vain.
  void expect_no_vain_dial() {
    make_sender_to(GetParam());
    connect();
    ASSERT_TRUE(works_until([&] { return receiver_->facts().streams.size() == kSeparateStreams; }));
    EXPECT_EQ(network_.connections().size(), kSeparateStreams);
    send_and_receive();
  }
  void make_sender_to(size_t device) {
    Handle to = handle();
    to.address = address_of(there().ports()[device]);
    to.others = further_addresses(there().ports(), device);
    to.places = places_of(there().ports(), device, to.others);
    sender_ = std::make_unique<SendComm>(&here(), Nonce{1}, 0, to);
  }
};

TEST_P(CommsOnSeparateRails, DialNoPairInVain) { expect_no_vain_dial(); }

TEST_P(CommsOnSeparateRails, DialNoPairInVainWhereAllRailsAreUsed) {
  here().use_all_rails();
  expect_no_vain_dial();
}

INSTANTIATE_TEST_SUITE_P(EachDevice, CommsOnSeparateRails,
                         ::testing::Range<size_t>(0, kSeparateRails));

constexpr uint64_t kFastBytesPerS = 20'000'000;
constexpr int64_t kSlowRailTestNs = 300 * kSecond;

/// Two streams of hosts with two rails, which carry more than they can.
class BusyComms : public Comms {
 protected:
  explicit BusyComms(const adapter_sim::NetworkSettings& settings) : Comms(settings) {}

  void send_and_receive_much() {
    constexpr size_t kMessageBytes = 500'000;
    constexpr size_t kMessages = 8;
    std::vector<uint8_t> out(kMessageBytes);
    std::vector<std::vector<uint8_t>> in(kMessages, std::vector<uint8_t>(kMessageBytes));
    std::vector<Request*> receives;
    for (auto& data : in) receives.push_back(post(*receiver_, data));
    std::vector<Request*> sends;
    for (size_t i = 0; i < kMessages; ++i) sends.push_back(post(*sender_, out));
    for (Request* send : sends) ASSERT_EQ(finish(*sender_, send), Result::kSuccess);
    for (Request* receive : receives) ASSERT_EQ(finish(*receiver_, receive), Result::kSuccess);
  }
  bool are_both_over_the_first_rail() const {
    const std::vector<StreamFacts> streams = sender_->facts().streams;
    return streams.size() == 2 && std::all_of(streams.begin(), streams.end(), [](const auto& own) {
             return own.is_up && own.rail == "over rail0";
           });
  }
};

/// The second rail has a hundredth of the first one's rate.
class CommsWithASlowRail : public BusyComms {
 protected:
  CommsWithASlowRail()
      : BusyComms({.hosts = 2,
                   .rails = 2,
                   .bytes_per_s = kFastBytesPerS,
                   .rail_bytes_per_s = {kFastBytesPerS, kFastBytesPerS / 100},
                   .segment_bytes_max = 8'960}) {
    here().use_all_rails();
    make_sender();
  }
};

TEST_F(CommsWithASlowRail, LeaveItWhenOtherSourcePortsDoNotHelp) {
  connect();
  settle();
  EXPECT_FALSE(are_both_over_the_first_rail());
  const int64_t end_ns = events_.now_ns() + kSlowRailTestNs;
  while (!are_both_over_the_first_rail() && events_.now_ns() < end_ns) {
    ASSERT_NO_FATAL_FAILURE(send_and_receive_much());
  }
  EXPECT_TRUE(are_both_over_the_first_rail());
}

/// Each source port but that of the first stream gets a slow path of the fabric.
class CommsWithSlowSourcePorts : public BusyComms {
 protected:
  CommsWithSlowSourcePorts()
      : BusyComms(
            {.hosts = 2, .rails = 2, .bytes_per_s = kFastBytesPerS, .segment_bytes_max = 8'960}) {}
  void slow_down() {
    const auto& all = network_.connections();
    for (size_t i = 1; i < all.size(); ++i) all[i]->slowness = 100;
  }
};

TEST_F(CommsWithSlowSourcePorts, StayOnTheirRail) {
  connect();
  settle();
  constexpr size_t kConnections = 2 + kSlowAgainMax + 3;
  const int64_t end_ns = events_.now_ns() + kSlowRailTestNs;
  while (network_.connections().size() < kConnections && events_.now_ns() < end_ns) {
    slow_down();
    ASSERT_NO_FATAL_FAILURE(send_and_receive_much());
  }
  EXPECT_GE(network_.connections().size(), kConnections) << "the stream was not replaced so often";
  for (const auto& connection : network_.connections()) {
    EXPECT_EQ(connection->ends[0].rail, 0u);
    EXPECT_EQ(connection->ends[1].rail, 0u);
  }
}

}  // namespace
}  // namespace lyre::nccl_adapter
