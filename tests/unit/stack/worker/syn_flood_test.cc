#include <gtest/gtest.h>

#include <algorithm>

#include "stack/ip/output.h"
#include "stack/worker/tables/half_open_queue.h"
#include "stack/worker/tables/listeners.h"
#include "tests/support/two_workers.h"
#include "tests/unit/stack/ip/frame_builder.h"

namespace lyre::test {
namespace {

constexpr uint16_t kPort = 5000;
constexpr uint32_t kPlaces = 16;  ///< for connections, at the host that is flooded

HostOptions few_places(bool has_cookies) {
  HostOptions out;
  out.connections_max = kPlaces;
  out.connection.syn_cookies = has_cookies;
  return out;
}

/// SYNs from hosts that do not exist, to the right one of two hosts.
class Flood {
 public:
  explicit Flood(bool has_cookies, Nanos delay = {})
      : hosts({.delay = delay}, {}, few_places(has_cookies)) {
    hosts.client_b->listen(kPort, 1, /*backlog=*/64);
    hosts.run_for(millis(1));
    hosts.client_a->connect({IpAddress::v4(0x0a090002), kPort}, 1);  // the hosts know each other
    LYRE_CHECK(hosts.run_until([&] { return hosts.app_b->stream_count() == 1; }));
  }

  void send(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) send_syn();
    hosts.turn();
  }
  /// Whether `is_done()` comes true while three SYNs arrive every turn.
  template <typename IsDone>
  bool run_until(IsDone is_done) {
    return hosts.run_until(
        [&] {
          if (is_done()) return true;
          for (int i = 0; i < 3; ++i) send_syn();
          return false;
        },
        seconds(5));
  }

  TwoWorkers hosts;

 private:
  void send_syn() {
    ip::TcpOutput syn;
    syn.frame = {.source = mac(0), .destination = mac(1)};
    syn.tuple = {.local = {IpAddress::v4(0x0a090010 + sent_ % 100), static_cast<uint16_t>(sent_)},
                 .remote = {IpAddress::v4(0x0a090002), kPort}};
    syn.header.seq = SeqNum(sent_);
    syn.header.flags.bits = wire::TcpFlags::kSyn;
    syn.header.window = 1000;
    ++sent_;
    const std::vector<uint8_t> frame = ip::tcp_frame(syn);
    io::PacketBuf* packet = nullptr;
    if (hosts.a.memory().alloc_tx(std::span(&packet, 1)) == 0) return;
    std::copy(frame.begin(), frame.end(), packet->data);
    packet->length = static_cast<uint32_t>(frame.size());
    if (hosts.link.queue(0, 0).tx_burst(std::span(&packet, 1)) == 0) {
      hosts.a.memory().release(std::span(&packet, 1));
    }
  }
  MacAddress mac(int end) { return hosts.link.queue(end, 0).capabilities().mac; }

  uint32_t sent_ = 1024;
};

TEST(SynFlood, LeavesPlacesForOpensOfOneself) {
  Flood flood(/*has_cookies=*/false);
  flood.hosts.client_a->listen(6000, 1);
  flood.send(100);
  flood.hosts.client_b->connect({IpAddress::v4(0x0a090001), 6000}, 2);
  EXPECT_TRUE(flood.run_until([&] { return flood.hosts.app_b->stream_count() == 2; }));
}

TEST(SynFlood, ACookieThatComesBackFindsAPlace) {  // RFC 4987 3.6
  Flood flood(/*has_cookies=*/true);
  flood.send(100);
  for (uint32_t i = 2; i < 2 + kPlaces / 2; ++i) {
    flood.hosts.client_a->connect({IpAddress::v4(0x0a090002), kPort}, i);
    EXPECT_TRUE(flood.run_until([&] { return flood.hosts.app_b->stream_count() == i; }));
  }
}

TEST(SynFlood, WithoutCookiesTheOldestHandshakeGivesWay) {  // RFC 4987 3.4
  Flood flood(/*has_cookies=*/false);
  flood.send(100);
  EXPECT_GT(flood.hosts.b.stats().half_opens_cut.get(), 90u);
  flood.hosts.client_a->connect({IpAddress::v4(0x0a090002), kPort}, 2);
  EXPECT_TRUE(flood.hosts.run_until([&] { return flood.hosts.app_b->stream_count() == 2; }));
}

TEST(SynFlood, HandshakesOfStrangersTakeAShareOfThePlaces) {
  Flood flood(/*has_cookies=*/false);
  flood.send(100);
  uint32_t open = 0;
  for (uint32_t i = 0; i < kPlaces; ++i) {
    channel::SessionView view;
    open += flood.hosts.b.row(i).read(view);
  }
  EXPECT_LE(open, 1 + kPlaces / worker::kHalfOpenShare);
}

/// The flood goes to another listener than the handshake of the neighbour, which takes long enough
/// that the flood takes its share twice meanwhile.
TEST(SynFlood, OfOneListenerLeavesTheHandshakesOfAnother) {
  constexpr uint16_t kQuietPort = 5001;
  Flood flood(/*has_cookies=*/false, /*delay=*/millis(1));
  flood.hosts.client_b->listen(kQuietPort, 2, /*backlog=*/4);
  flood.hosts.run_for(millis(1));
  flood.hosts.client_a->connect({IpAddress::v4(0x0a090002), kQuietPort}, 2);
  EXPECT_TRUE(flood.run_until([&] { return flood.hosts.app_b->stream_count() == 2; }));
  EXPECT_GT(flood.hosts.b.stats().half_opens_cut.get(), kPlaces);
  EXPECT_EQ(flood.hosts.a.stats().connect_failures.get(), 0u);
  EXPECT_EQ(flood.hosts.a.stats().tcp_resets_in.get(), 0u)
      << "it was still known when its ACK came";
}

// A client that does not take what it accepted. All handshakes are under way at once, so the ACKs
// of most come when the backlog is full. Its ring and a burst of cookies held 1152 more.
TEST(SynFlood, BeyondTheBacklogHandshakesAreReset) {
  constexpr uint32_t kSessions = 800;
  HostOptions host;
  host.connections_max = 1000;
  host.rx_slots = 4096;
  TwoWorkers hosts({.delay = millis(20)}, host, host);
  ChannelClient deaf(hosts.b.worker(), 1);
  deaf.listen(kPort, 1, /*backlog=*/1);
  hosts.run_for(millis(1));
  for (uint64_t i = 0; i < kSessions; ++i) {
    ASSERT_TRUE(hosts.run_until([&] { return hosts.client_a->submission_room() > 0; }));
    hosts.client_a->connect({IpAddress::v4(0x0a090002), kPort}, i);
  }
  hosts.run_for(millis(500));
  uint32_t open = 0;
  uint32_t reset = 0;
  for (const auto& [index, stream] : hosts.app_a->streams()) {
    open += !stream.is_ended;
    reset += stream.is_ended && stream.status == channel::EndStatus::kReset;
  }
  EXPECT_EQ(open, 1 + worker::kBeyondBacklog);
  EXPECT_EQ(open + reset, kSessions) << "each knows of its session, or heard of its end";

  // There is room again when the client has read of them.
  while (deaf.next().event != channel::Event::kNone) {
  }
  hosts.client_a->connect({IpAddress::v4(0x0a090002), kPort}, kSessions);
  hosts.run_for(millis(100));
  uint32_t now_open = 0;
  for (const auto& [index, stream] : hosts.app_a->streams()) now_open += !stream.is_ended;
  EXPECT_EQ(now_open, open + 1);
}

TEST(SynFlood, WhoWaitsForTheFirstWordIsOpenOrReset) {
  constexpr uint32_t kSessions = 40;
  TwoWorkers hosts;
  hosts.client_b->listen(kPort, 1, /*backlog=*/1);
  hosts.run_for(millis(1));
  for (uint64_t i = 0; i < kSessions; ++i) {
    hosts.client_a->connect({IpAddress::v4(0x0a090002), kPort}, i);
  }
  // All but one come by cookie, some at a time. None of them sends anything after its ACK.
  hosts.run_for(millis(500));
  size_t open = 0;
  for (const auto& [index, stream] : hosts.app_a->streams()) open += !stream.is_ended;
  EXPECT_GE(open, 1u);
  EXPECT_EQ(open, hosts.app_b->stream_count());
}

}  // namespace
}  // namespace lyre::test
