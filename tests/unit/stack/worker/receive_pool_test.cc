#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "stack/worker/turn_limits.h"
#include "stack/worker/worker_state.h"
#include "tests/support/two_workers.h"
#include "tests/unit/stack/worker/hand_made_peer.h"
#include "tests/unit/stack/worker/replies.h"

// A client, or a peer, that takes receive slots and gives none back, beside a transfer that needs
// some.
namespace lyre::test {
namespace {

constexpr uint16_t kPort = 5000;
constexpr uint16_t kOtherPort = 6000;
constexpr uint32_t kStreamBytes = 900'000;

/// Two hosts with a correct session from left to right, and a second client of the right host.
class ReceivePool : public testing::Test {
 protected:
  static constexpr uint32_t kSlots = 1024;

  ReceivePool() : hosts({}, many(), many()), greedy(hosts.b.worker(), 1), greedy_app(greedy) {
    hosts.app_b->receive_seed = 1;
    LYRE_CHECK(hosts.connect(kPort));
    main = hosts.app_a->only().name;
    greedy_app.checks_bytes = false;
    greedy_app.keeps_slots = true;
    hosts.more_apps.push_back(&greedy_app);
  }
  static HostOptions many() {
    HostOptions out;
    out.rx_slots = kSlots;
    out.connections_max = 1500;
    return out;
  }
  uint32_t free_slots() { return hosts.b.memory().rx_slots_free(); }

  /// Takes slots until some have to be taken back, but users below their floor get more.
  std::vector<io::PacketBuf*> exhaust() {
    std::vector<io::PacketBuf*> taken;
    while (free_slots() >= kSlots / 16 * 5 / 8) taken.push_back(hosts.b.memory().alloc_rx());
    return taken;
  }
  /// `count` sessions from `dialer` to the greedy client, which reads none of what is sent on them.
  void fill_unread(ChannelClient& dialer, PatternApp& app, uint32_t count) {
    greedy.listen(kOtherPort, 1, /*backlog=*/4096);
    hosts.run_for(millis(1));
    const size_t before = app.stream_count();
    for (uint32_t i = 0; i < count; ++i) {
      ASSERT_TRUE(hosts.run_until([&] { return dialer.submission_room() > 8; }));
      dialer.connect({IpAddress::v4(0x0a090002), kOtherPort}, 1);
    }
    ASSERT_TRUE(hosts.run_until([&] { return app.stream_count() >= before + count; }));
    for (const auto& [index, stream] : app.streams()) {
      ASSERT_TRUE(hosts.run_until([&] { return dialer.submission_room() > 8; }));
      if (stream.name == hosts.app_a->streams().begin()->second.name) continue;
      dialer.send(stream.name, 0, 200'000);
    }
    hosts.run_for(seconds(2));
  }
  uint32_t slots_lent_to(uint32_t context) {
    channel::ClientView view{};
    LYRE_CHECK(hosts.b.client_row(context).read(view));
    return view.rx_slots_lent;
  }
  /// The left end of a new session.
  channel::SessionName connect_to(uint16_t port) {
    std::vector<uint32_t> known;
    for (const auto& [index, stream] : hosts.app_a->streams()) known.push_back(index);
    hosts.client_a->connect({IpAddress::v4(0x0a090002), port}, 1);
    hosts.run_until([&] { return hosts.app_a->stream_count() > known.size(); });
    for (const auto& [index, stream] : hosts.app_a->streams()) {
      if (std::find(known.begin(), known.end(), index) == known.end()) return stream.name;
    }
    return {};
  }
  void expect_transfer() {
    PatternApp::Stream* stream = hosts.app_b->stream(hosts.app_b->only().name.index);
    hosts.app_a->send_pattern(hosts.app_a->only().name, 1, kStreamBytes, 60'000);
    EXPECT_TRUE(hosts.run_until([&] { return stream->received == kStreamBytes; }, seconds(20)))
        << stream->received;
    EXPECT_TRUE(stream->is_equal);
  }

  /// As the control thread does it.
  void detach_expelled(const std::vector<std::unique_ptr<ChannelClient>>& clients) {
    for (const worker::Reply& reply : take_replies(hosts.b.worker())) {
      if (reply.kind == worker::Reply::Kind::kExpelled) clients.at(reply.context - 2)->detach();
    }
  }

  TwoWorkers hosts;
  ChannelClient greedy;
  PatternApp greedy_app;
  channel::SessionName main;  ///< the left end of the correct session
};

// Hundreds of sessions of one client with itself, none of which is read. They took every slot, and
// no packet came in any more, ARP included.
TEST_F(ReceivePool, UnreadLoopbackSessionsLeaveSlotsToOthers) {
  fill_unread(greedy, greedy_app, 300);
  EXPECT_GE(free_slots(), kSlots / 8);
  expect_transfer();
  EXPECT_GT(hosts.b.drops(Drop::kRxPoolLow), 0u);
  channel::ClientView view{};
  ASSERT_TRUE(hosts.b.client_row(1).read(view));
  EXPECT_GE(view.rx_slots_held, view.rx_slots_lent);
  EXPECT_GT(view.rx_slots_lent, 0u);
  EXPECT_GT(view.rx_slots_max, 0u);
  EXPECT_EQ(view.sessions, 600u);
}

// A server that was stopped, with many sessions of a peer that goes on sending.
TEST_F(ReceivePool, AServerThatStandsStillLeavesSlotsToOthers) {
  fill_unread(*hosts.client_a, *hosts.app_a, 64);
  EXPECT_GE(free_slots(), kSlots / 8);
  const uint64_t copied_before = hosts.b.stats().copied_rx_bytes.get();
  expect_transfer();
  EXPECT_LT(hosts.b.stats().copied_rx_bytes.get() - copied_before, kStreamBytes / 1000)
      << "what others receive is lent to them as before, but for small segments";
}

// A process that is stopped for a minute, by a debugger or a full disk, loses no session: its peers
// see that it has no room.
TEST_F(ReceivePool, AServerThatStandsStillForLongKeepsItsSessions) {
  greedy_app.checks_bytes = true;
  greedy_app.pool = hosts.b.memory().rx_memory();
  greedy_app.receive_seed = 1;
  for (uint32_t i = 0; i < 200'000; ++i) hosts.client_a->arena()[i] = pattern(1, i);
  fill_unread(*hosts.client_a, *hosts.app_a, 64);
  ASSERT_GT(hosts.b.drops(Drop::kRxPoolLow), 0u) << "there was room for everything";
  hosts.run_for(seconds(60));
  greedy_app.keeps_slots = false;
  const auto has_all = [](const auto& entry) { return entry.second.received == 200'000; };
  const auto& streams = greedy_app.streams();
  EXPECT_TRUE(hosts.run_until([&] { return std::all_of(streams.begin(), streams.end(), has_all); },
                              seconds(20)));
  EXPECT_EQ(streams.size(), 64u);
  for (const auto& [index, stream] : streams) {
    EXPECT_TRUE(stream.is_equal);
    EXPECT_FALSE(stream.is_ended) << static_cast<int>(stream.status);
  }
}

// It has nothing whose release would open its window. Its peer's probes come rarely after a while.
TEST_F(ReceivePool, ARefusedSessionGoesOnWhenOthersOfItsClientReleaseTheirSlots) {
  fill_unread(*hosts.client_a, *hosts.app_a, 64);
  const channel::SessionName late = connect_to(kOtherPort);
  std::vector<io::PacketBuf*> taken;
  while (free_slots() > kSlots / 16 + 8) taken.push_back(hosts.b.memory().alloc_rx());
  hosts.client_a->send(late, 0, 1000);
  hosts.run_for(seconds(20));
  const PatternApp::Stream* sender = hosts.app_a->stream(late.index);
  ASSERT_NE(sender, nullptr);
  ASSERT_EQ(sender->sends_done, 0u) << "there was room for it";
  greedy_app.keeps_slots = false;
  EXPECT_TRUE(hosts.run_until([&] { return sender->sends_done == 1; }, millis(100)));
  hosts.b.memory().release(taken);
}

/// Eight users of the right host with a client each, which keeps what it is lent.
class ReceivePoolUsers : public ReceivePool {
 protected:
  ReceivePoolUsers() {
    for (uint32_t i = 0; i < 8; ++i) add_user(i);
  }
  void add_user(uint32_t i) {
    const auto port = static_cast<uint16_t>(7000 + i);
    clients.push_back(std::make_unique<ChannelClient>(hosts.b.worker(), 2 + i, true, 1 << 20,
                                                      /*copy_bytes=*/0, /*uid=*/100 + i));
    apps.push_back(std::make_unique<PatternApp>(*clients.back()));
    apps.back()->checks_bytes = false;
    apps.back()->keeps_slots = true;
    hosts.more_apps.push_back(apps.back().get());
    clients.back()->listen(port, 1, /*backlog=*/64);
    hosts.run_for(millis(1));
    const size_t before = hosts.app_a->stream_count();
    for (uint32_t session = 0; session < kSessions; ++session) {
      hosts.client_a->connect({IpAddress::v4(0x0a090002), port}, 1);
    }
    LYRE_CHECK(hosts.run_until([&] { return hosts.app_a->stream_count() == before + kSessions; }));
  }
  void run_and_look(Nanos time) {
    hosts.run_until(
        [&] {
          least_free = std::min(least_free, free_slots());
          detach_expelled(clients);
          return false;
        },
        time);
  }

  static constexpr uint32_t kSessions = 8;
  std::vector<std::unique_ptr<ChannelClient>> clients;
  std::vector<std::unique_ptr<PatternApp>> apps;
  uint32_t least_free = kSlots;
};

// They come one after the other and take all they can, the later ones their floors, until little of
// the reserve is left. Those with most lose it again.
TEST_F(ReceivePoolUsers, ThatTakeTheWholePoolTogetherGiveSomeBack) {
  uint32_t sending = 0;
  const auto& senders = hosts.app_a->streams();
  for (const auto& [index, stream] : senders) {
    if (stream.name == main) continue;
    ASSERT_TRUE(hosts.run_until([&] { return hosts.client_a->submission_room() > 8; }));
    hosts.client_a->send(stream.name, 0, 400'000);
    if (++sending % kSessions == 0) run_and_look(millis(100));
  }
  run_and_look(seconds(4));
  EXPECT_LT(least_free, kSlots / 16 * 5 / 8) << "the test takes too little";
  EXPECT_GE(least_free, kSlots / 64);
  EXPECT_TRUE(hosts.run_until(
      [&] {
        detach_expelled(clients);
        return free_slots() >= kSlots / 16;
      },
      seconds(4)));
  EXPECT_TRUE(std::any_of(senders.begin(), senders.end(), [](const auto& entry) {
    return entry.second.status == channel::EndStatus::kReset;
  })) << "unread sessions are reset";
  expect_transfer();
}

// All at once they stay within their shares: nothing is taken from them, however long they pause.
TEST_F(ReceivePoolUsers, WithinTheirSharesLoseNothing) {
  for (const auto& [index, stream] : hosts.app_a->streams()) {
    if (stream.name == main) continue;
    ASSERT_TRUE(hosts.run_until([&] { return hosts.client_a->submission_room() > 8; }));
    hosts.client_a->send(stream.name, 0, 400'000);
  }
  run_and_look(seconds(4));
  EXPECT_LT(least_free, kSlots / 8) << "the test takes too little";
  EXPECT_EQ(hosts.b.stats().clients_expelled.get(), 0u);
  for (const auto& [index, stream] : hosts.app_a->streams()) EXPECT_FALSE(stream.is_ended);
  expect_transfer();
}

// Receive rings of ports take slots of the pool before a worker begins: shares are of the others.
TEST(ReceivePoolShares, AreOfTheSlotsThatNoRingHas) {
  io::sim::Memory memory({.rx_slots = 64});
  std::vector<io::PacketBuf*> in_rings;
  for (int i = 0; i < 40; ++i) in_rings.push_back(memory.alloc_rx());
  channel::WorkerStats stats{};
  worker::WorkerConfig config;
  config.engine = {.connections_max = 4, .sent_records_max = 64, .received_runs_max = 64};
  const worker::WorkerState state(config, memory, 1, {.worker = &stats});
  EXPECT_TRUE(state.accounts.is_plentiful(memory.rx_slots_free()));
  memory.release(in_rings);
}

/// A client of the right host that has received more than it gives back blocks for, from a peer
/// that has finished.
class UnreadToTheEnd : public ReceivePool {
 protected:
  static constexpr uint32_t kBytes = 100'000;

  UnreadToTheEnd()
      : slow(hosts.b.worker(), 2, /*is_lent=*/false, 1 << 20, /*copy_bytes=*/1 << 17),
        slow_app(slow) {
    slow_app.keeps_slots = true;
    hosts.more_apps.push_back(&slow_app);
    slow.listen(kOtherPort, 1);
    hosts.run_for(millis(1));
    hosts.client_a->connect({IpAddress::v4(0x0a090002), kOtherPort}, 1);
    LYRE_CHECK(hosts.run_until([&] { return slow_app.stream_count() == 1; }));
    for (const auto& [index, stream] : hosts.app_a->streams()) {
      if (stream.name.index != main.index) sender = stream.name;
    }
    for (uint32_t at = 0; at < kBytes; at += 20'000) hosts.client_a->send(sender, at, 20'000);
    hosts.client_a->tell(channel::Op::kShutdown, sender);
    hosts.run_for(millis(200));
    LYRE_CHECK(reader().received < kBytes && !reader().is_finished);
  }
  PatternApp::Stream& reader() { return slow_app.only(); }
  bool is_ended() {
    return hosts.run_until([&] { return reader().is_ended; }, seconds(5));
  }

  ChannelClient slow;
  PatternApp slow_app;
  channel::SessionName sender;
};

// Bytes that are taken back are not followed by the end of the stream: their reader would take a
// part for the whole.
TEST_F(UnreadToTheEnd, AReaderOfASessionThatIsResetForItsSlotsGetsAnError) {
  std::vector<io::PacketBuf*> taken = exhaust();
  hosts.app_a->send_pattern(main, 1, 1000, 1000);  // the worker looks at the pool
  EXPECT_TRUE(is_ended());
  EXPECT_EQ(reader().status, channel::EndStatus::kNoResources);
  EXPECT_LT(reader().received, kBytes);
  EXPECT_FALSE(reader().is_finished);
  hosts.b.memory().release(taken);
}

TEST_F(UnreadToTheEnd, AReaderOfASessionThatEndsWithTheDaemonGetsAnError) {
  slow.tell(channel::Op::kShutdown, reader().name);  // TCP is done with it
  hosts.run_for(millis(50));
  ASSERT_TRUE(hosts.b.worker().inbox().try_post({.kind = worker::Command::Kind::kShutdown}));
  EXPECT_TRUE(is_ended());
  EXPECT_EQ(reader().status, channel::EndStatus::kShutdown);
  EXPECT_LT(reader().received, kBytes);
  EXPECT_FALSE(reader().is_finished);
}

// Slots are taken back from sessions in the order of their client's list, and so does a detach: it
// closes each of them, those whose bytes are not acknowledged too.
TEST_F(ReceivePool, AClientThatLeavesInAShortageClosesAllItsSessions) {
  constexpr uint32_t kSessions = 300;
  hosts.client_a->listen(kOtherPort, 1, /*backlog=*/512);
  hosts.run_for(millis(1));
  while (hosts.app_b->stream_count() < 1 + kSessions) {
    if (hosts.b.worker().connection_count() < 1 + kSessions) {
      hosts.client_b->connect({IpAddress::v4(0x0a090001), kOtherPort}, 1);
    }
    hosts.turn();
  }
  hosts.link.set_path(1, {.loss_ppm = 1'000'000});
  for (const auto& [index, stream] : hosts.app_b->streams()) {
    ASSERT_TRUE(hosts.run_until([&] { return hosts.client_b->submission_room() > 8; }));
    hosts.client_b->send(stream.name, 0, 100);
  }
  hosts.run_for(millis(1));
  std::vector<io::PacketBuf*> taken = exhaust();
  hosts.client_a->send(main, 0, 100);  // over the limit of its reader
  hosts.client_b->detach();
  hosts.run_for(millis(10));
  hosts.b.memory().release(taken);
  hosts.link.set_path(1, {});
  EXPECT_TRUE(hosts.run_until(
      [&] { return has_reply(hosts.b.worker(), worker::Reply::Kind::kDetached, 0); }));
  hosts.run_for(seconds(2));
  uint32_t finished = 0;
  for (const auto& [index, stream] : hosts.app_a->streams()) {
    EXPECT_NE(stream.status, channel::EndStatus::kReset);
    finished += stream.is_finished;
  }
  EXPECT_EQ(finished, 1 + kSessions);
}

// Who has taken most in the last moment has not kept it.
TEST_F(ReceivePool, TheClientThatIsDisconnectedHasKeptSlotsAllTheTime) {
  constexpr uint32_t kKeeper = 2;
  constexpr uint32_t kLate = 3;
  constexpr uint32_t kLateSessions = 16;
  ChannelClient keeper(hosts.b.worker(), kKeeper);
  ChannelClient late(hosts.b.worker(), kLate, /*is_lent=*/true, 1 << 20, /*copy_bytes=*/0,
                     /*uid=*/1);
  PatternApp keeper_app(keeper);
  PatternApp late_app(late);
  for (PatternApp* app : {&keeper_app, &late_app}) {
    app->keeps_slots = true;
    app->checks_bytes = false;
    hosts.more_apps.push_back(app);
  }
  keeper.listen(7000, 1);
  late.listen(7001, 1, /*backlog=*/64);
  hosts.run_for(millis(1));
  const auto to_keeper = connect_to(7000);
  std::vector<channel::SessionName> to_late;
  for (uint32_t i = 0; i < kLateSessions; ++i) to_late.push_back(connect_to(7001));
  for (int i = 0; i < 17; ++i) {
    hosts.client_a->send(to_keeper, 0, 1400);
    hosts.run_for(millis(1));
  }
  std::vector<io::PacketBuf*> taken = exhaust();
  hosts.client_a->send(main, 0, 100);  // the worker looks at the pool
  hosts.run_for(worker::kGreedGrace - millis(200));
  while (free_slots() < kSlots / 16 - 2) {
    hosts.b.memory().release({&taken.back(), 1});
    taken.pop_back();
  }
  // Up to its floor, which the last segments pass: they are merged, and taken as one.
  for (const auto& name : to_late) {
    hosts.client_a->send(name, 0, name == to_late.back() ? 14'000 : 1400);
  }
  hosts.run_for(millis(100));
  ASSERT_GT(slots_lent_to(kLate), slots_lent_to(kKeeper));
  hosts.run_for(millis(200));
  std::vector<uint32_t> expelled;
  for (const worker::Reply& reply : take_replies(hosts.b.worker())) {
    if (reply.kind == worker::Reply::Kind::kExpelled) expelled.push_back(reply.context);
  }
  EXPECT_EQ(expelled, std::vector<uint32_t>{kKeeper});
  hosts.b.memory().release(taken);
}

/// One segment of the peer with `bytes` of text, `ahead` of what the connection expects.
HandMadePeer::Frame text_ahead(const HandMadePeer& peer, uint32_t ahead, uint32_t bytes) {
  ip::TcpOutput out = peer.text;
  out.header.seq += ahead;
  out.payload_bytes = bytes;
  return ip::tcp_frame(out);
}

// 10 200 one-byte segments behind gaps left others a small part of the pool, for ever.
TEST(ReceivePoolOnTheWire, TextBehindAGapTakesNoMoreThanAShareAndGivesWay) {
  HandMadePeer peer(/*over_ipv6=*/false);
  const uint32_t free_before = peer.hosts().b.memory().rx_slots_free();
  for (uint32_t i = 0; i < 1000; ++i) peer.give(text_ahead(peer, 1 + 2 * i, 1));
  EXPECT_LT(peer.hosts().b.memory().rx_slots_free(), free_before * 2 / 3) << "it is kept at first";
  EXPECT_GE(peer.hosts().b.memory().rx_slots_free(), free_before / 4);
  // What is next in order is taken, and what waited behind it is let go: it counts as dropped.
  peer.forget_drops();
  EXPECT_EQ(peer.give(text_ahead(peer, 0, 1)), "ACK ");
  EXPECT_TRUE(peer.drops().starts_with("rx_pool_low ")) << peer.drops();
  EXPECT_GE(peer.hosts().b.memory().rx_slots_free(), free_before - 2);
}

// RFC 9293 3.8.6: what a window allows is taken, in however small segments it comes.
TEST(ReceivePoolOnTheWire, SmallSegmentsOfTheWindowAreNotRefused) {
  HandMadePeer peer(/*over_ipv6=*/false);
  const uint32_t free_before = peer.hosts().b.memory().rx_slots_free();
  peer.forget_drops();
  for (uint32_t i = 0; i < 5000; ++i) peer.give(text_ahead(peer, i, 1));
  EXPECT_EQ(peer.drops(), "");
  EXPECT_GE(peer.hosts().b.memory().rx_slots_free(), free_before / 4);
  PatternApp& reader = *peer.hosts().app_b;
  reader.checks_bytes = false;
  TwoWorkers& hosts = peer.hosts();
  hosts.run_until([&] { return hosts.b.memory().rx_slots_free() == free_before; }, seconds(1));
  EXPECT_EQ(hosts.b.memory().rx_slots_free(), free_before);
  EXPECT_EQ(hosts.b.stats().tcp_payload_in.get(), 5000u);
}

}  // namespace
}  // namespace lyre::test
