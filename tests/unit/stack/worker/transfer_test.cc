#include <gtest/gtest.h>

#include <tuple>
#include <utility>

#include "tests/support/two_workers.h"

// The real worker, TCP, session and channel on a simulated wire: bytes from one client's arena to
// the other client's eyes.
namespace lyre::test {
namespace {

constexpr uint32_t kBytes = 600'000;

TEST(Transfer, BytesArriveInOrderAndSendsAreFinished) {
  TwoWorkers hosts;
  hosts.app_b->receive_seed = 5;
  ASSERT_TRUE(hosts.connect());
  hosts.app_a->send_pattern(hosts.app_a->only().name, 5, kBytes, 10'000);
  EXPECT_TRUE(hosts.run_until([&] { return hosts.app_a->only().sends_done == kBytes / 10'000; }));
  EXPECT_EQ(hosts.app_b->only().received, kBytes);
  EXPECT_TRUE(hosts.app_b->only().is_equal);
  EXPECT_EQ(hosts.a.stats().copied_tx_bytes.get(), 0u);
  EXPECT_EQ(hosts.b.stats().copied_rx_bytes.get(), 0u);
  EXPECT_EQ(hosts.a.stats().tcp_payload_out.get(), kBytes);
}

TEST(Transfer, ALongSendIsAcknowledgedBitByBitOnASlowWire) {
  constexpr uint32_t kLongBytes = 500'000;
  TwoWorkers hosts({.delay = millis(10), .rate_bytes_per_s = 100'000});
  ASSERT_TRUE(hosts.connect());
  const PatternApp::Stream& sender = hosts.app_a->only();
  hosts.app_a->send_pattern(sender.name, 5, kLongBytes, kLongBytes);
  uint32_t acked_bytes = 0;
  Nanos acked_at = hosts.now;
  Nanos longest_silence;
  ASSERT_TRUE(hosts.run_until([&] {
    if (sender.acked_bytes > acked_bytes) {
      acked_bytes = sender.acked_bytes;
      longest_silence = later(longest_silence, hosts.now - acked_at);
      acked_at = hosts.now;
    }
    return sender.sends_done == 1;
  }));
  EXPECT_LT(longest_silence, millis(300));
  EXPECT_GT(acked_bytes, kLongBytes / 2);
  EXPECT_EQ(sender.acked_bytes, 0u) << "there is no next one";
  EXPECT_GE(sender.rtt_min_us, 20'000u);
  EXPECT_LT(sender.rtt_min_us, 40'000u);
  EXPECT_GT(sender.rto_us, sender.rtt_min_us);
}

TEST(Transfer, AnAckOfASessionThatSentIsRepeatedAndNotAnswered) {
  TwoWorkers hosts;
  ASSERT_TRUE(hosts.connect());
  hosts.a.worker().repeat_an_ack();
  const auto segments_out = [&] {
    return std::pair(hosts.a.stats().tcp_segments_out.get(),
                     hosts.b.stats().tcp_segments_out.get());
  };
  auto [a, b] = segments_out();
  hosts.run_for(millis(1));
  EXPECT_EQ(segments_out(), std::pair(a, b)) << "nothing was sent yet";

  hosts.app_a->send_pattern(hosts.app_a->only().name, 5, kBytes, 10'000);
  ASSERT_TRUE(hosts.run_until([&] { return hosts.app_a->only().sends_done == kBytes / 10'000; }));
  hosts.run_for(millis(100));
  std::tie(a, b) = segments_out();
  for (uint64_t i = 1; i <= 20; ++i) {
    hosts.a.worker().repeat_an_ack();
    hosts.b.worker().repeat_an_ack();  // it only received
    hosts.run_for(millis(1));
    EXPECT_EQ(segments_out(), std::pair(a + i, b));
  }
  EXPECT_EQ(hosts.app_b->only().received, kBytes);
}

TEST(Transfer, TheClientIsToldThatThePeerHasNoRoomAndWhenThatIsOver) {
  TwoWorkers hosts({}, {}, {.rx_slots = 256});
  ASSERT_TRUE(hosts.connect());
  const PatternApp::Stream& sender = hosts.app_a->only();
  hosts.app_b->keeps_slots = true;
  hosts.app_a->send_pattern(sender.name, 0, kBytes, 60'000);
  ASSERT_TRUE(hosts.run_until([&] { return sender.is_window_closed; }));
  EXPECT_LT(hosts.app_b->only().received, kBytes);
  hosts.app_b->keeps_slots = false;
  ASSERT_TRUE(hosts.run_until([&] { return hosts.app_b->only().received == kBytes; }));
  EXPECT_FALSE(sender.is_window_closed);
  EXPECT_TRUE(hosts.app_b->only().is_equal);
}

TEST(Transfer, EndsInOrderOnBothSidesAndReturnsEverySlot) {
  TwoWorkers hosts;
  const uint32_t free_before = hosts.b.memory().rx_slots_free();
  ASSERT_TRUE(hosts.connect());
  const channel::SessionName left = hosts.app_a->only().name;
  const channel::SessionName right = hosts.app_b->only().name;
  hosts.app_a->send_pattern(left, 0, 50'000, 50'000);
  hosts.client_a->tell(channel::Op::kShutdown, left);
  ASSERT_TRUE(hosts.run_until([&] { return hosts.app_b->only().is_finished; }));
  EXPECT_EQ(hosts.app_b->only().received, 50'000u) << "the end comes behind all bytes";
  hosts.client_b->tell(channel::Op::kClose, right);
  ASSERT_TRUE(hosts.run_until([&] { return hosts.app_a->only().is_finished; }));
  hosts.client_a->tell(channel::Op::kClose, left);
  ASSERT_TRUE(hosts.run_until(
      [&] { return hosts.app_a->only().is_ended && hosts.app_b->only().is_ended; }));
  EXPECT_EQ(hosts.app_a->only().status, channel::EndStatus::kOk);
  hosts.run_for(seconds(70));  // over TIME-WAIT
  EXPECT_EQ(hosts.b.memory().rx_slots_free(), free_before);
  SUCCEED();
}

TEST(Transfer, SurvivesLossReorderingDuplicationAndCorruption) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    TwoWorkers hosts({.seed = seed,
                      .delay = micros(50),
                      .faults = {.loss_ppm = 20'000,
                                 .duplicate_ppm = 10'000,
                                 .corrupt_ppm = 10'000,
                                 .reorder_ppm = 50'000}});
    hosts.app_b->receive_seed = seed;
    ASSERT_TRUE(hosts.connect()) << "seed " << seed;
    hosts.app_a->send_pattern(hosts.app_a->only().name, seed, kBytes, 20'000);
    EXPECT_TRUE(
        hosts.run_until([&] { return hosts.app_b->only().received == kBytes; }, seconds(120)))
        << "seed " << seed << ": " << hosts.app_b->only().received;
    EXPECT_TRUE(hosts.app_b->only().is_equal) << "seed " << seed;
    EXPECT_GT(hosts.b.drops(Drop::kTcpBadChecksum) + hosts.b.drops(Drop::kIpBadChecksum), 0u);
  }
}

TEST(Transfer, ReachesThisHostItself) {
  TwoWorkers hosts;
  ChannelClient other(hosts.a.worker(), 1);
  PatternApp app(other);
  app.pool = hosts.a.memory().rx_memory();
  app.receive_seed = 3;
  hosts.more_apps.push_back(&app);
  other.listen(6000, 1);
  hosts.run_for(millis(1));
  hosts.client_a->connect({IpAddress::v4(0x0a090001), 6000}, 2);
  ASSERT_TRUE(
      hosts.run_until([&] { return app.stream_count() == 1 && hosts.app_a->stream_count() == 1; }));
  hosts.app_a->send_pattern(hosts.app_a->only().name, 3, kBytes, 60'000);
  EXPECT_TRUE(hosts.run_until([&] { return app.only().received == kBytes; }));
  EXPECT_TRUE(app.only().is_equal);
  EXPECT_EQ(hosts.a.stats().tx_packets.get(), hosts.b.stats().rx_packets.get());
  EXPECT_GT(hosts.a.stats().loopback_packets.get(), 0u);
  other.detach();
  hosts.run_for(millis(10));
}

TEST(Transfer, CopiesForAClientThatMayNotSeeThePool) {
  TwoWorkers hosts;
  ChannelClient outsider(hosts.b.worker(), 1, /*is_lent=*/false);
  PatternApp app(outsider);
  app.receive_seed = 8;
  hosts.more_apps.push_back(&app);
  outsider.listen(6000, 1);
  hosts.run_for(millis(1));
  hosts.client_a->connect({IpAddress::v4(0x0a090002), 6000}, 2);
  ASSERT_TRUE(
      hosts.run_until([&] { return app.stream_count() == 1 && hosts.app_a->stream_count() == 1; }));
  hosts.app_a->send_pattern(hosts.app_a->only().name, 8, kBytes, 60'000);
  EXPECT_TRUE(hosts.run_until([&] { return app.only().received == kBytes; }));
  EXPECT_TRUE(app.only().is_equal);
  EXPECT_EQ(hosts.b.stats().copied_rx_bytes.get(), kBytes);
  outsider.detach();
  hosts.run_for(millis(10));
}

// Small messages, of which each takes a block of the area into which they are copied.
TEST(Transfer, ASessionThatIsNotReadDoesNotStopTheOthersOfItsClient) {
  constexpr uint32_t kMessages = 20;
  TwoWorkers hosts;
  ChannelClient outsider(hosts.b.worker(), 1, /*is_lent=*/false);
  PatternApp app(outsider);
  app.keeps_slots = true;
  hosts.more_apps.push_back(&app);
  outsider.listen(6000, 1);
  hosts.run_for(millis(1));
  for (uint64_t cookie : {1, 2}) hosts.client_a->connect({IpAddress::v4(0x0a090002), 6000}, cookie);
  ASSERT_TRUE(
      hosts.run_until([&] { return app.stream_count() == 2 && hosts.app_a->stream_count() == 2; }));
  const channel::SessionName unread = hosts.app_a->streams().begin()->second.name;
  const channel::SessionName other = hosts.app_a->streams().rbegin()->second.name;
  for (uint32_t i = 0; i < kMessages; ++i) {
    hosts.client_a->arena()[i] = pattern(0, i);
    hosts.client_a->send(unread, i, 1);
    ASSERT_TRUE(hosts.run_until(
        [&] { return hosts.app_a->stream(unread.index)->sends_done == uint64_t{i} + 1; }));
  }
  const auto reached = [&](uint64_t bytes) {
    return std::count_if(app.streams().begin(), app.streams().end(),
                         [&](const auto& entry) { return entry.second.received >= bytes; });
  };
  EXPECT_EQ(reached(1), 1);
  EXPECT_EQ(reached(kMessages), 0);
  hosts.client_a->send(other, 0, 1);
  EXPECT_TRUE(hosts.run_until([&] { return reached(1) == 2; }, seconds(5)));
  app.keeps_slots = false;
  EXPECT_TRUE(hosts.run_until([&] { return reached(kMessages) == 1; }));
  for (const auto& [index, stream] : app.streams()) EXPECT_TRUE(stream.is_equal);
  outsider.detach();
  hosts.run_for(millis(10));
}

TEST(Transfer, ManySmallSendsAreGatheredOrCopiedButAllArrive) {
  TwoWorkers hosts;
  hosts.app_b->receive_seed = 4;
  ASSERT_TRUE(hosts.connect());
  hosts.app_a->send_pattern(hosts.app_a->only().name, 4, 1'000, 5);
  EXPECT_TRUE(hosts.run_until([&] { return hosts.app_b->only().received == 1'000; }));
  EXPECT_TRUE(hosts.app_b->only().is_equal);
}

TEST(Transfer, AFullCompletionRingDelaysAndLosesNothing) {
  TwoWorkers hosts({}, {}, {.rx_slots = 4096});
  hosts.app_b->receive_seed = 6;
  ASSERT_TRUE(hosts.connect());
  // b's completions are not read while each small segment needs one.
  hosts.app_a->send_pattern(hosts.app_a->only().name, 6, 2'000, 10);
  for (int i = 0; i < 20'000; ++i) {
    hosts.link.advance(hosts.now);
    hosts.a.worker().poll_once(hosts.now);
    hosts.b.worker().poll_once(hosts.now);
    hosts.now += micros(1);
  }
  EXPECT_TRUE(hosts.run_until([&] { return hosts.app_b->only().received == 2'000; }));
  EXPECT_TRUE(hosts.app_b->only().is_equal);
}

// The client may have its memory back when the bytes are acknowledged, though a driver has not
// freed what was sent again.
TEST(Transfer, BytesThatAreSentAgainAreCopied) {
  TwoWorkers hosts({.delay = micros(50),
                    .faults = {.loss_ppm = 100'000},
                    .tx_release = io::sim::TxRelease::kOnReclaim});
  hosts.app_b->receive_seed = 2;
  ASSERT_TRUE(hosts.connect());
  hosts.app_a->send_pattern(hosts.app_a->only().name, 2, 200'000, 10'000);
  EXPECT_TRUE(hosts.run_until([&] { return hosts.app_a->only().sends_done == 20; }));
  EXPECT_TRUE(hosts.app_b->only().is_equal);
  EXPECT_GT(hosts.a.stats().tcp_payload_retransmitted.get(), 0u);
  EXPECT_EQ(hosts.a.stats().copied_tx_bytes.get(), hosts.a.stats().tcp_payload_retransmitted.get());
}

TEST(Transfer, ASlowReaderClosesItsWindowAndLeavesRoomForOthers) {
  TwoWorkers hosts({}, {}, {.rx_slots = 256});
  ASSERT_TRUE(hosts.connect());
  hosts.app_b->keeps_slots = true;
  hosts.app_a->send_pattern(hosts.app_a->only().name, 0, kBytes, 60'000);
  hosts.run_for(millis(500));
  const uint64_t stuck = hosts.app_b->only().received;
  EXPECT_LT(stuck, kBytes);

  ChannelClient second(hosts.b.worker(), 1);
  PatternApp app(second);
  app.pool = hosts.b.memory().rx_memory();
  hosts.more_apps.push_back(&app);
  second.listen(6000, 1);
  hosts.run_for(millis(1));
  hosts.client_a->connect({IpAddress::v4(0x0a090002), 6000}, 3);
  ASSERT_TRUE(hosts.run_until([&] { return app.stream_count() == 1; }));
  const auto name = hosts.app_a->stream(1) ? hosts.app_a->stream(1)->name : channel::SessionName{};
  ASSERT_TRUE(hosts.client_a->send(name, 0, 40'000));
  EXPECT_TRUE(hosts.run_until([&] { return app.only().received == 40'000; }));

  hosts.app_b->keeps_slots = false;
  EXPECT_TRUE(hosts.run_until([&] { return hosts.app_b->only().received == kBytes; }));
  EXPECT_TRUE(hosts.app_b->only().is_equal);
  second.detach();
  hosts.run_for(millis(10));
}

}  // namespace
}  // namespace lyre::test
