#include <gtest/gtest.h>

#include "tests/support/two_workers.h"

// One worker, whose neighbours are played by the test: their messages count, in whatever order the
// worker reads packets and rings.
namespace lyre::test {
namespace {

using worker::InterWorkerRings;
using worker::WorkerMessage;

constexpr uint32_t kAddress = 0x0a090001;
constexpr uint16_t kPort = 5000;
constexpr uint32_t kDials = 32;

/// A queue on which packets arrive just after another worker has claimed their connections.
class ClaimedIo : public io::PacketIo {
 public:
  ClaimedIo(io::PacketIo& io, InterWorkerRings& rings) : io_(io), rings_(rings) {}

  size_t rx_burst(std::span<io::PacketBuf*> out) override {
    const size_t count = io_.rx_burst(out);
    for (const io::PacketBuf* packet : out.first(count)) claim(*packet);
    return count;
  }
  size_t tx_burst(std::span<io::PacketBuf* const> in) override { return io_.tx_burst(in); }
  void reclaim() override { io_.reclaim(); }
  size_t tx_held() const override { return io_.tx_held(); }
  const io::IoCapabilities& capabilities() const override { return io_.capabilities(); }
  io::IoCounters counters() const override { return io_.counters(); }
  bool is_link_up() const override { return io_.is_link_up(); }
  int wait_fd() const override { return io_.wait_fd(); }

  uint32_t claimed = 0;

 private:
  void claim(const io::PacketBuf& packet) {
    constexpr uint32_t kSourcePortAt = 14 + 20;
    if (packet.data[23] != 6) return;  // ARP
    const auto port =
        static_cast<uint16_t>(packet.data[kSourcePortAt] << 8 | packet.data[kSourcePortAt + 1]);
    const FourTuple tuple{{IpAddress::v4(kAddress), kPort}, {IpAddress::v4(0x0a090002), port}};
    ASSERT_TRUE(rings_.ring(1, 0).try_post({.kind = WorkerMessage::Kind::kClaim, .tuple = tuple}));
    ++claimed;
  }

  io::PacketIo& io_;
  InterWorkerRings& rings_;
};

class InterWorkerTest : public testing::Test {
 protected:
  InterWorkerTest() {
    const worker::PortBinding port{.io = &io,
                                   .addresses = {InterfaceAddress::of(IpAddress::v4(kAddress), 24)},
                                   .mtu_bytes = 1500};
    worker::WorkerConfig config;
    config.worker_count = 3;
    config.rings = &rings;
    config.neighbour_board = &board;
    config.secret = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
    config.engine = {.connections_max = 64, .sent_records_max = 64, .received_runs_max = 64};
    first = std::make_unique<worker::Worker>(config, memory, std::span(&port, 1),
                                             std::span<const worker::RouteBinding>{},
                                             worker::StatsBinding{&stats, {}});
  }

  void turn() {
    link.advance(now);
    first->poll_once(now);
    peer.worker().poll_once(now);
    now += micros(10);
  }
  /// The next message to `to`, neighbour updates apart.
  WorkerMessage taken_by(uint32_t to) {
    WorkerMessage message;
    while (rings.ring(0, to).try_take(message)) {
      if (message.kind != WorkerMessage::Kind::kNeighbourUpdate) return message;
    }
    return {};
  }
  void ask_for(io::PacketBuf& packet) {
    ASSERT_TRUE(rings.ring(1, 0).try_post({.kind = WorkerMessage::Kind::kFindOwner,
                                           .receiver = 1,
                                           .packet = &packet,
                                           .tuple = tuple}));
  }

  const FourTuple tuple{{IpAddress::v4(kAddress), kPort}, {IpAddress::v4(0x0a090002), 40'000}};
  Nanos now = seconds(1);
  io::sim::Link link{{}};
  io::sim::Memory memory{{.rx_slots = 256, .frame_bytes = 1564, .tx_packets = 256}};
  WorkerHost peer{link, {.end = 1, .address = 0x0a090002}};
  InterWorkerRings rings{3};
  link::NeighbourBoard board{{}, 3};
  ClaimedIo io{link.add_queue(0, memory), rings};
  channel::WorkerStats stats{};
  std::unique_ptr<worker::Worker> first;
};

TEST_F(InterWorkerTest, AClaimMadeBeforeThePacketArrivedIsKnown) {
  ChannelClient client(peer.worker(), 0);
  for (uint32_t i = 0; i < kDials; ++i) client.connect({IpAddress::v4(kAddress), kPort}, i);
  for (int i = 0; i < 100; ++i) turn();
  ASSERT_EQ(io.claimed, kDials);
  EXPECT_EQ(stats.tcp_resets_out.get(), 0u);
  // Packets whose home is here went to the owner; the others to their home.
  EXPECT_EQ(stats.redirected_out.get(), kDials);
  uint32_t owned = 0;
  for (WorkerMessage message = taken_by(1); message.kind != WorkerMessage::Kind::kNone;
       message = taken_by(1)) {
    if (message.kind == WorkerMessage::Kind::kDeliver) ++owned;
  }
  EXPECT_GT(owned, 0u);
}

TEST_F(InterWorkerTest, AClaimInARingThatWasReadBeforeIsKnown) {
  io::PacketBuf packet;
  ask_for(packet);
  ASSERT_TRUE(rings.ring(2, 0).try_post({.kind = WorkerMessage::Kind::kClaim, .tuple = tuple}));
  turn();
  EXPECT_EQ(taken_by(1).kind, WorkerMessage::Kind::kNone);
  turn();
  const WorkerMessage onward = taken_by(2);
  EXPECT_EQ(onward.kind, WorkerMessage::Kind::kDeliver);
  EXPECT_EQ(onward.packet, &packet);
}

// As before an upgrade, when the workers make no further turn.
TEST_F(InterWorkerTest, WhatAMessageBringsToAClientIsPublishedWithoutATurn) {
  ChannelClient own(*first, 0);
  ChannelClient client(peer.worker(), 0);
  for (uint32_t i = 0; i < kDials; ++i) client.connect({IpAddress::v4(kAddress), kPort}, i);
  for (int i = 0; i < 100; ++i) turn();
  WorkerMessage away = taken_by(1);
  while (away.kind != WorkerMessage::Kind::kNone && away.packet == nullptr) away = taken_by(1);
  ASSERT_NE(away.packet, nullptr);
  // It comes back with a connection for which there is no route.
  away.kind = WorkerMessage::Kind::kMigrate;
  away.tuple.remote.address = IpAddress::v4(0xc0000201);
  away.body = WorkerMessage::Migration{.context = 0, .cookie = 9};
  ASSERT_TRUE(rings.ring(1, 0).try_post(away));
  EXPECT_GE(first->take_messages(), 1u);
  const channel::Completion told = own.next();
  EXPECT_EQ(told.event, channel::Event::kConnectFailed);
  EXPECT_EQ(told.body.opened.cookie, 9u);
}

TEST_F(InterWorkerTest, APacketOfAnUnclaimedConnectionComesBack) {
  io::PacketBuf packet;
  ask_for(packet);
  turn();
  EXPECT_TRUE(first->has_waiting_work());
  turn();
  const WorkerMessage back = taken_by(1);
  EXPECT_EQ(back.kind, WorkerMessage::Kind::kNotFound);
  EXPECT_EQ(back.packet, &packet);
  EXPECT_FALSE(first->has_waiting_work());
}

}  // namespace
}  // namespace lyre::test
