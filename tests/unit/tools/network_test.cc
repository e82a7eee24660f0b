#include "tools/lyre/network.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/tools/stats_segment.h"

namespace lyre::tools {
namespace {

Snapshot networks_of(FakeSegment& segment, int64_t after_ns = 0) {
  return read_snapshot(segment.data(), segment.bytes(), FakeSegment::kNowNs + after_ns);
}

channel::NeighbourView neighbour(const char* address, uint8_t state, uint32_t worker) {
  channel::NeighbourView view{};
  FakeSegment::put_address(address, view.address);
  view.state = state;
  view.worker = worker;
  return view;
}

channel::RouteView route(const char* prefix, uint8_t bits) {
  channel::RouteView view{};
  FakeSegment::put_address(prefix, view.prefix);
  view.prefix_bits = bits;
  return view;
}

TEST(Ports, HaveTotalsOfAllQueues) {
  FakeSegment segment;
  segment.queue(0).rx_bytes.set(1 << 20);
  segment.queue(1).rx_bytes.set(1 << 20);
  segment.queue(1).rx_packets.set(1500);
  segment.queue(1).rx_missed.set(3);
  segment.port().rx_missed.set(4);
  EXPECT_EQ(ports_text(networks_of(segment), nullptr),
            "port    link  speed  received  packets  sent  packets  missed  port full  not sent\n"
            "memif0  up        -  2.00 MiB     1500   0 B        0       7          0         0\n");
  const auto json = ports_json(networks_of(segment), nullptr);
  EXPECT_EQ(json["ports"][0]["counters"]["rx_packets"], 1500);
  EXPECT_EQ(json["ports"][0]["workers"][0]["rx_bytes"], 1 << 20);
  EXPECT_EQ(json["ports"][0]["device_rx_missed"], 4);
}

TEST(Ports, HaveRatesOfAnInterval) {
  FakeSegment segment;
  segment.queue(0).tx_bytes.set(1 << 20);
  const Snapshot earlier = networks_of(segment);
  segment.queue(0).tx_bytes.add(250'000'000);
  segment.queue(0).tx_packets.add(20'000);
  const Snapshot now = networks_of(segment, 2'000'000'000);
  const std::string text = ports_text(now, &earlier);
  EXPECT_NE(text.find("  1.00 Gb/s  10000/s  "), std::string::npos) << text;
  EXPECT_EQ(ports_json(now, &earlier)["ports"][0]["sent_bits_per_s"], 1e9);
}

TEST(Neighbours, AreSortedAndOnlyOnce) {
  FakeSegment segment;
  auto known = neighbour("10.9.0.2", 2, 0);
  known.mac[0] = 2;
  known.mac[5] = 9;
  known.sessions = 3;
  known.reachable_until_unix_ns = FakeSegment::kNowNs + 1;
  segment.neighbour(0, 1).write(&known);
  segment.neighbour(0, 0).write(&known);  // moved while it was read
  const auto asked = neighbour("10.9.0.1", 1, 1);
  segment.neighbour(1, 0).write(&asked);
  EXPECT_EQ(neighbours_text(networks_of(segment)),
            "address   port    mac                state       worker  sessions\n"
            "10.9.0.1  memif0  -                  incomplete       1         0\n"
            "10.9.0.2  memif0  02:00:00:00:00:09  reachable        0         3\n");
  const auto json = neighbours_json(networks_of(segment));
  EXPECT_EQ(json["neighbours"].size(), 2u);
  EXPECT_TRUE(json["neighbours"][0]["mac"].is_null());
  EXPECT_EQ(neighbours_json(networks_of(segment, 2))["neighbours"][1]["state"], "stale");
}

TEST(Neighbours, OfADomainAreNotShown) {
  FakeSegment segment;
  EXPECT_EQ(neighbours_text(networks_of(segment)), "no neighbours\n");
  segment.header().is_domain = 1;
  EXPECT_TRUE(neighbours_text(networks_of(segment)).starts_with("not shown here"));
  EXPECT_TRUE(routes_text(networks_of(segment)).starts_with("not shown here"));
  EXPECT_TRUE(ports_text(networks_of(segment), nullptr).starts_with("not shown here"));
  EXPECT_TRUE(ports_json(networks_of(segment), nullptr)["ports"].empty());
}

TEST(Routes, AreWrittenAsUsual) {
  FakeSegment segment;
  auto connected = route("10.9.0.1", 120);
  FakeSegment::put_address("10.9.0.1", connected.source);
  segment.route(0).write(&connected);
  auto by_default = route("0.0.0.0", 96);
  FakeSegment::put_address("10.9.0.254", by_default.gateway);
  segment.route(1).write(&by_default);
  auto learned = route("::", 0);
  FakeSegment::put_address("fe80::1", learned.gateway);
  learned.is_learned = 1;
  segment.route(2).write(&learned);
  const auto odd = route("fd00:9::ffff", 121);
  segment.route(3).write(&odd);
  EXPECT_EQ(routes_text(networks_of(segment)),
            "destination       gateway     port    source    origin\n"
            "10.9.0.0/24       -           memif0  10.9.0.1  connected\n"
            "0.0.0.0/0         10.9.0.254  memif0  -         configured\n"
            "::/0              fe80::1     memif0  -         router advertisement\n"
            "fd00:9::ff80/121  -           memif0  -         connected\n");
  EXPECT_EQ(routes_json(networks_of(segment))["routes"][1]["gateway"], "10.9.0.254");
}

}  // namespace
}  // namespace lyre::tools
