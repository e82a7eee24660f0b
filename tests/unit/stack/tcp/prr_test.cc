#include <gtest/gtest.h>

#include "tests/unit/stack/tcp/peer.h"

namespace lyre::tcp {
namespace {

/// Sequence positions of all segments that are sent now, each by its first byte.
std::vector<uint32_t> sent(Peer& peer) {
  std::vector<uint32_t> positions;
  for (const SegmentOut& segment : peer.all()) positions.push_back(peer.at(segment.seq));
  return positions;
}

using Positions = std::vector<uint32_t>;

TEST(Prr, OneLostOfTenSendsOneForEachThatArrives) {  // RFC 6937 3.1, slow start part
  Peer peer;
  peer.dial();
  peer.app_send(10000);
  ASSERT_EQ(peer.all().size(), 10u);
  peer.now += millis(110);
  peer.ack_with_sack(0, {{1000, 2000}});
  peer.ack_with_sack(0, {{1000, 3000}});
  EXPECT_EQ(sent(peer), Positions{});
  peer.ack_with_sack(0, {{1000, 4000}});
  EXPECT_EQ(sent(peer), Positions{0});
  EXPECT_EQ(peer.info().ssthresh_bytes, 7000u);  // RFC 5681 3.2: FlightSize counts what is SACKed
  peer.app_send(7000);
  for (uint32_t i = 0; i < 6; ++i) {
    peer.now += millis(10);
    peer.ack_with_sack(0, {{1000, 5000 + i * 1000}});
    EXPECT_EQ(sent(peer), Positions{10000 + i * 1000});
  }
  peer.now += millis(20);
  peer.ack(10000);
  EXPECT_EQ(sent(peer), Positions{16000});
  EXPECT_EQ(peer.info().cwnd_bytes, 7000u);
}

TEST(Prr, ManyLostGoAgainOneByOneAndNewDataFollows) {
  Peer peer;
  peer.dial();
  peer.app_send(20000);
  ASSERT_EQ(peer.all().size(), 10u);
  const auto arrives = [&](Nanos after, uint32_t ack, uint32_t start, uint32_t end) {
    peer.now += after;
    peer.ack_with_sack(ack, {{start, end}});
    return sent(peer);
  };
  EXPECT_EQ(arrives(millis(10), 0, 4000, 5000), Positions{10000});  // RFC 3042 2
  EXPECT_EQ(arrives(millis(2), 0, 4000, 6000), Positions{11000});
  EXPECT_EQ(arrives(millis(2), 0, 4000, 7000), Positions{0});
  EXPECT_EQ(arrives(millis(2), 0, 4000, 8000), Positions{1000});
  EXPECT_EQ(arrives(millis(2), 0, 4000, 9000), Positions{2000});
  EXPECT_EQ(arrives(millis(2), 0, 4000, 10000), Positions{3000});
  EXPECT_EQ(arrives(millis(2), 0, 4000, 11000), Positions{12000});
  EXPECT_EQ(arrives(millis(2), 0, 4000, 12000), Positions{13000});
  // SND.UNA moves and no new loss is found: one segment more.
  EXPECT_EQ(arrives(millis(10), 1000, 4000, 12000), (Positions{14000, 15000}));
  // 2000 and 3000 arrived; 1000, which was sent before them, did not.
  EXPECT_EQ(arrives(millis(2), 1000, 2000, 12000), (Positions{1000, 16000}));
  EXPECT_EQ(arrives(millis(2), 1000, 2000, 13000), Positions{17000});
  EXPECT_EQ(peer.info().timeouts, 0u);
}

TEST(Prr, AboveSsthreshItSendsInProportion) {  // RFC 6937 3.1
  Peer peer;
  peer.dial();
  peer.app_send(60000);
  peer.all();
  peer.now += millis(10);
  peer.ack(10000);
  ASSERT_EQ(sent(peer).size(), 20u);  // the window is 20
  peer.now += millis(10);
  peer.ack_with_sack(10000, {{11000, 14000}});
  uint32_t count = static_cast<uint32_t>(sent(peer).size());
  for (uint32_t end = 15000; end <= 30000; end += 1000) {
    peer.ack_with_sack(10000, {{11000, end}});
    count += static_cast<uint32_t>(sent(peer).size());
  }
  EXPECT_EQ(peer.info().ssthresh_bytes, 14000u);
  // 19 of 20 arrived: 0.7 of that was sent, including the retransmission.
  EXPECT_NEAR(count, 14, 1);
}

TEST(Prr, OvertakenAckStillTellsItsSacks) {  // RFC 2018 5: SACK blocks always count
  Peer peer;
  peer.dial();
  peer.app_send(10000);
  ASSERT_EQ(peer.all().size(), 10u);
  peer.now += millis(10);
  peer.ack_with_sack(0, {{1000, 2000}});
  peer.ack_with_sack(0, {{1000, 3000}});
  peer.ack_with_sack(0, {{1000, 3000}, {8000, 9000}});
  EXPECT_EQ(sent(peer), Positions{0});
  peer.now += millis(12);
  peer.ack_with_sack(4000, {{8000, 9000}});
  EXPECT_EQ(sent(peer), (Positions{4000, 5000, 6000}));
  peer.app_send(10000);
  peer.now += millis(2);
  peer.ack_with_sack(3000, {{5000, 7000}});  // below SND.UNA
  EXPECT_EQ(sent(peer), (Positions{7000, 10000}));
}

TEST(Growth, WhatWasSackedBeforeDoesNotCountAgain) {  // RFC 6937 3: DeliveredData
  for (const bool has_sack : {true, false}) {
    ConnectionConfig config = Peer::plain_config();
    config.sack = has_sack;
    Peer peer(config);
    peer.dial();
    peer.app_send(15000);
    ASSERT_EQ(peer.all().size(), 10u);
    peer.now += millis(110);
    has_sack ? peer.ack_with_sack(0, {{1000, 2000}}) : peer.ack(0);
    EXPECT_EQ(sent(peer), Positions{10000});
    peer.now += millis(10);
    has_sack ? peer.ack_with_sack(0, {{1000, 3000}}) : peer.ack(0);
    EXPECT_EQ(sent(peer), Positions{11000});
    peer.now += millis(10);
    peer.ack(3000);
    EXPECT_EQ(sent(peer), (Positions{12000, 13000}));
  }
}

}  // namespace
}  // namespace lyre::tcp
