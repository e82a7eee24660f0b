/// What the engine reports for the trace of a connection.

#include "stack/tcp/change.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>

#include "tests/unit/stack/tcp/peer.h"

namespace lyre::tcp {
namespace {

void expect_changes(Peer& peer, std::initializer_list<Change> expected) {
  const Changes changes = peer.engine.take_changes(peer.conn);
  for (uint32_t i = 0; i < kChangeCount; ++i) {
    const auto change = static_cast<Change>(i);
    const bool is_expected = std::find(expected.begin(), expected.end(), change) != expected.end();
    EXPECT_EQ(changes.has(change), is_expected) << i;
  }
}

TEST(Changes, AreReportedOnce) {
  Peer peer;
  peer.dial();
  EXPECT_TRUE(peer.engine.send_side(peer.conn).has_changes);
  expect_changes(peer, {Change::kState});
  EXPECT_FALSE(peer.engine.send_side(peer.conn).has_changes);
  expect_changes(peer, {});
}

TEST(Changes, DataThatArrivesAndIsAcknowledgedChangesNothing) {
  Peer peer;
  peer.dial();
  peer.engine.take_changes(peer.conn);
  peer.app_send(20'000);
  EXPECT_FALSE(peer.all().empty());
  EXPECT_FALSE(peer.ack(10'000).changes.any());
  EXPECT_FALSE(peer.text(0, 1000).changes.any());
  peer.all();
  EXPECT_FALSE(peer.engine.send_side(peer.conn).has_changes);
}

TEST(Changes, OfALossAndItsRepair) {
  Peer peer;
  peer.dial();
  peer.engine.take_changes(peer.conn);
  peer.app_send(10'000);
  peer.all();
  peer.wait(millis(10));
  EXPECT_TRUE(peer.ack_with_sack(0, {{1000, 5000}}).changes.any());
  expect_changes(peer, {Change::kFastRecovery});
  EXPECT_FALSE(peer.all().empty());
  expect_changes(peer, {Change::kRetransmitted});
  EXPECT_TRUE(peer.ack(10'000).changes.any());
  expect_changes(peer, {Change::kRecovered});
}

TEST(Changes, OfATimeoutAndATailProbe) {
  Peer peer;
  peer.dial();
  peer.wait(millis(10));
  peer.app_send(500);
  peer.all();
  peer.ack(500);
  peer.engine.take_changes(peer.conn);
  peer.app_send(500);
  peer.all();
  EXPECT_TRUE(peer.run_deadline().wants_transmit);
  expect_changes(peer, {Change::kTailProbe});
  peer.all();
  expect_changes(peer, {Change::kRetransmitted});
  peer.run_deadline();
  expect_changes(peer, {Change::kTimeout});
}

TEST(Changes, OfAPeerWithoutRoom) {
  Peer peer;
  peer.dial();
  peer.app_send(1000);
  peer.all();
  peer.window = 0;
  peer.ack(1000);
  peer.engine.take_changes(peer.conn);
  peer.app_send(1000);
  EXPECT_TRUE(peer.all().empty());
  expect_changes(peer, {Change::kSendWindowClosed});
  EXPECT_TRUE(peer.run_deadline().wants_transmit);
  expect_changes(peer, {Change::kWindowProbe});
  peer.all();
  peer.window = 60'000;
  peer.ack(1000);
  expect_changes(peer, {Change::kSendWindowOpen});
}

TEST(Changes, OfAReaderThatStops) {
  ConnectionConfig config = Peer::plain_config();
  config.receive_buffer_bytes = config.receive_buffer_start_bytes = 4 * config.slot_bytes;
  Peer peer(config);
  peer.dial();
  peer.engine.take_changes(peer.conn);
  for (uint32_t at = 0; at < 4000; at += 1000) {
    peer.text(at, 1000);
    peer.all();
  }
  expect_changes(peer, {Change::kReceiveWindowClosed});
  while (peer.queue().take_readable()) {
  }
  peer.release(4 * config.slot_bytes);
  EXPECT_FALSE(peer.all().empty());
  expect_changes(peer, {Change::kReceiveWindowOpen});
}

TEST(Changes, OfAPathThatCarriesLess) {
  Peer peer;
  peer.dial();
  peer.engine.take_changes(peer.conn);
  peer.app_send(5000);
  peer.all();
  peer.effects =
      peer.engine.on_icmp_error(peer.conn, peer.us(0), wire::IcmpVerdict::kSoft, 700, peer.now);
  EXPECT_TRUE(peer.effects.wants_transmit);
  expect_changes(peer, {Change::kPathMtu});
}

// Nothing is sent then: the call itself reports it.
TEST(Changes, OfAFinThatIsAcknowledged) {
  Peer peer;
  peer.dial();
  peer.shutdown();
  peer.all();
  peer.engine.take_changes(peer.conn);
  peer.effects = peer.ack(1);
  EXPECT_FALSE(peer.effects.wants_transmit);
  EXPECT_TRUE(peer.effects.changes.has(Change::kState));
}

TEST(Changes, OfAReset) {
  Peer peer;
  peer.dial();
  peer.engine.take_changes(peer.conn);
  EXPECT_TRUE(peer.send(peer.make(kR, 0, 0)).is_over);
  expect_changes(peer, {Change::kState});
  Peer aborted;
  aborted.dial();
  aborted.engine.take_changes(aborted.conn);
  (void)aborted.engine.on_app_abort(aborted.conn, aborted.now);
  expect_changes(aborted, {Change::kState, Change::kResetSent});
}

}  // namespace
}  // namespace lyre::tcp
