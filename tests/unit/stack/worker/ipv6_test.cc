#include <gtest/gtest.h>

#include <algorithm>

#include "stack/base/derived_key.h"
#include "stack/base/ipv6_address.h"
#include "stack/link/neighbour_cache.h"
#include "stack/wire/bytes.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/tcp_segment.h"
#include "stack/worker/flow_label.h"
#include "stack/worker/flow_table.h"
#include "tests/support/two_workers.h"

// Both families through the real worker, on a simulated wire.
namespace lyre::test {
namespace {

constexpr uint32_t kBytes = 600'000;
constexpr IpAddress kLeft{{0xfd, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
constexpr IpAddress kRight{{0xfd, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};
constexpr IpAddress kBoth{{0xfd, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3}};

HostOptions host_with(std::vector<InterfaceAddress> addresses) {
  HostOptions out;
  out.addresses = std::move(addresses);
  return out;
}

TEST(Ipv6, BytesArriveAndTheWaitForTheAddressIsTheWorkers) {
  TwoWorkers hosts({}, host_with({{kLeft, 64}}), host_with({{kRight, 64}}));
  hosts.app_b->receive_seed = 5;
  ASSERT_TRUE(hosts.connect(5000, kRight));
  EXPECT_GE(hosts.now, seconds(1) + lyre::link::kRetransmitTime)
      << "nothing leaves before the probe";
  hosts.app_a->send_pattern(hosts.app_a->only().name, 5, kBytes, 10'000);
  EXPECT_TRUE(hosts.run_until([&] { return hosts.app_a->only().sends_done == kBytes / 10'000; }));
  EXPECT_EQ(hosts.app_b->only().received, kBytes);
  EXPECT_TRUE(hosts.app_b->only().is_equal);
  EXPECT_EQ(hosts.a.stats().copied_tx_bytes.get(), 0u);
  for (size_t i = 0; i < kDropCount; ++i) {
    // Multicasts of the other host that no application here needs.
    const auto reason = static_cast<Drop>(i);
    if (reason == Drop::kIpNotForUs || reason == Drop::kNdpNotForUs) continue;
    EXPECT_EQ(hosts.a.drops(reason), 0u) << kDropTexts[i].key;
    EXPECT_EQ(hosts.b.drops(reason), 0u) << kDropTexts[i].key;
  }
}

// ENA has TSO over IPv4 only, and its driver refuses the others.
TEST(Ipv6, APortThatCutsIpv4OnlyIsGivenNothingToCut) {
  TwoWorkers hosts(
      {.checksums = io::sim::Checksums::kHardware, .tso_bytes_max = 60'000, .has_ipv6_tso = false},
      host_with({{kLeft, 64}}), host_with({{kRight, 64}}));
  hosts.app_b->receive_seed = 5;
  ASSERT_TRUE(hosts.connect(5000, kRight));
  hosts.app_a->send_pattern(hosts.app_a->only().name, 5, kBytes, 60'000);
  EXPECT_TRUE(hosts.run_until([&] { return hosts.app_b->only().received == kBytes; }));
  EXPECT_TRUE(hosts.app_b->only().is_equal);
}

TEST(Ipv6, SurvivesLossReorderingDuplicationAndCorruption) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    TwoWorkers hosts({.seed = seed,
                      .delay = micros(50),
                      .faults = {.loss_ppm = 20'000,
                                 .duplicate_ppm = 10'000,
                                 .corrupt_ppm = 10'000,
                                 .reorder_ppm = 50'000}},
                     host_with({{kLeft, 64}}), host_with({{kRight, 64}}));
    hosts.app_b->receive_seed = seed;
    ASSERT_TRUE(hosts.connect(5000, kRight)) << "seed " << seed;
    hosts.app_a->send_pattern(hosts.app_a->only().name, seed, kBytes, 20'000);
    EXPECT_TRUE(
        hosts.run_until([&] { return hosts.app_b->only().received == kBytes; }, seconds(120)))
        << "seed " << seed << ": " << hosts.app_b->only().received;
    EXPECT_TRUE(hosts.app_b->only().is_equal) << "seed " << seed;
    EXPECT_GT(hosts.b.drops(Drop::kTcpBadChecksum), 0u);
  }
}

TEST(Ipv6, BothFamiliesShareAPort) {
  const IpAddress left4 = IpAddress::v4(0x0a090001);
  const IpAddress right4 = IpAddress::v4(0x0a090002);
  TwoWorkers hosts({}, host_with({InterfaceAddress::of(left4, 24), {kLeft, 64}}),
                   host_with({InterfaceAddress::of(right4, 24), {kRight, 64}}));
  ASSERT_TRUE(hosts.connect());
  hosts.client_a->connect({kRight, 5000}, 10);
  EXPECT_TRUE(hosts.run_until([&] { return hosts.app_b->stream_count() == 2; }))
      << "a listener on any address hears both";
}

TEST(Ipv6, LinkLocalAddressesAreDerived) {
  // RFC 4291 2.1.
  TwoWorkers hosts({}, host_with({{kLeft, 64}}), host_with({{kRight, 64}}));
  const MacAddress mac = hosts.link.queue(1, 0).capabilities().mac;
  EXPECT_TRUE(hosts.connect(5000, link_local_address(mac)));
}

/// The next IPv6 packet of TCP that host b would receive, which is lost by this.
std::vector<uint8_t> steal_packet(TwoWorkers& hosts) {
  io::PacketIo& wire = hosts.link.queue(1, 0);
  io::PacketBuf* frame = nullptr;
  for (int i = 0; i < 1000; ++i) {
    hosts.now += micros(10);
    hosts.a.worker().poll_once(hosts.now);
    hosts.link.advance(hosts.now);
    if (wire.rx_burst(std::span(&frame, 1)) == 0) continue;
    const std::span<const uint8_t> ip = frame->bytes().subspan(wire::kEthernetHeaderBytes);
    const std::vector<uint8_t> packet(ip.begin(), ip.end());
    hosts.b.memory().release(std::span(&frame, 1));
    if (packet[6] == wire::kIpProtocolTcp) return packet;
  }
  return std::vector<uint8_t>(wire::kIpv6HeaderBytes + wire::kTcpHeaderBytesMin);
}

uint32_t label_of(const std::vector<uint8_t>& packet) {
  return wire::read_be32(packet.data()) & 0xfffff;
}

/// As its sender sees it.
FourTuple tuple_of(const std::vector<uint8_t>& packet) {
  FourTuple tuple;
  std::copy_n(packet.begin() + 8, 16, tuple.local.address.bytes.begin());
  std::copy_n(packet.begin() + 24, 16, tuple.remote.address.bytes.begin());
  tuple.local.port = wire::read_be16(packet.data() + wire::kIpv6HeaderBytes);
  tuple.remote.port = wire::read_be16(packet.data() + wire::kIpv6HeaderBytes + 2);
  return tuple;
}

TEST(Ipv6, AConnectionKeepsItsFlowLabel) {
  // RFC 6437 3.
  TwoWorkers hosts({}, host_with({{kLeft, 64}}), host_with({{kRight, 64}}));
  ASSERT_TRUE(hosts.connect(5000, kRight));
  hosts.client_a->connect({kRight, 5000}, 10);
  ASSERT_TRUE(hosts.run_until([&] { return hosts.app_b->stream_count() == 2; }));
  std::vector<uint32_t> labels;
  for (int round = 0; round < 2; ++round) {
    for (const auto& [index, stream] : hosts.app_a->streams()) {
      hosts.app_a->send_pattern(stream.name, 0, 100, 100);
      labels.push_back(label_of(steal_packet(hosts)));
    }
  }
  EXPECT_NE(labels[0], 0u);
  EXPECT_NE(labels[0], labels[1]);
  EXPECT_EQ(labels[0], labels[2]);
  EXPECT_EQ(labels[1], labels[3]);
}

TEST(Ipv6, FlowLabelsComeFromAKeyOfTheirOwn) {
  // RFC 6437 3 and 6.1: a label is public and must tell nothing about other keys.
  TwoWorkers hosts({}, host_with({{kLeft, 64}}), host_with({{kRight, 64}}));
  ASSERT_TRUE(hosts.connect(5000, kRight));
  hosts.app_a->send_pattern(hosts.app_a->only().name, 0, 100, 100);
  const std::vector<uint8_t> packet = steal_packet(hosts);
  const FourTuple tuple = tuple_of(packet);
  ASSERT_EQ(tuple.remote.port, 5000);
  const uint64_t seed = HostOptions{}.seed * 2;  // of the first host, as TwoWorkers numbers them
  const SipKey secret{seed, ~seed};
  EXPECT_NE(label_of(packet), worker::FlowTable(1, secret).hash(tuple) & 0xfffff);
  EXPECT_EQ(label_of(packet), worker::flow_label_of(tuple, derive_key(secret, "flow labels")));
}

TEST(Ipv6, AnAddressThatAnotherHasIsGivenUp) {
  TwoWorkers hosts({}, host_with({{kBoth, 64}, {kLeft, 64}}),
                   host_with({{kBoth, 64}, {kRight, 64}}));
  hosts.client_a->connect({kRight, 5000}, 1, {kBoth, 0});
  hosts.client_b->connect({kLeft, 5000}, 2, {kBoth, 0});
  hosts.run_for(seconds(5));
  const uint64_t conflicts = hosts.a.drops(Drop::kNdpConflict) + hosts.b.drops(Drop::kNdpConflict);
  EXPECT_GE(conflicts, 1u);
  const auto& said_to_a = hosts.app_a->others;
  const auto& said_to_b = hosts.app_b->others;
  const auto& loser = said_to_a.empty() || said_to_a[0].status != channel::EndStatus::kUnreachable
                          ? said_to_b
                          : said_to_a;
  ASSERT_FALSE(loser.empty());
  EXPECT_EQ(loser[0].status, channel::EndStatus::kUnreachable);
  EXPECT_EQ(loser[0].exact, channel::EndStatus::kAddressLost);
  EXPECT_TRUE(hosts.connect(5001, kRight)) << "the other address is as good as ever";
  const auto verified = [&](WorkerHost& host) { return host.worker().verified_addresses(0); };
  const auto count_of = [](const std::vector<IpAddress>& in, const IpAddress& address) {
    return std::count(in.begin(), in.end(), address);
  };
  const std::vector<IpAddress> of_a = verified(hosts.a);
  EXPECT_EQ(count_of(of_a, kLeft), 1);
  EXPECT_EQ(count_of(of_a, link_local_address(hosts.link.queue(0, 0).capabilities().mac)), 1);
  EXPECT_LE(count_of(of_a, kBoth) + count_of(verified(hosts.b), kBoth), 1)
      << "whoever lost it says so to its successor";
}

TEST(Ipv6, AnAddressThatIsProbedForIsNotVerified) {
  TwoWorkers hosts({}, host_with({{kLeft, 64}}), host_with({{kRight, 64}}));
  hosts.run_for(millis(1));
  EXPECT_TRUE(hosts.a.worker().verified_addresses(0).empty());
  hosts.run_for(seconds(3));
  EXPECT_EQ(hosts.a.worker().verified_addresses(0).size(), 2u);
}

TEST(Ipv6, FamiliesDoNotMix) {
  const IpAddress left4 = IpAddress::v4(0x0a090001);
  TwoWorkers hosts({}, host_with({InterfaceAddress::of(left4, 24), {kLeft, 64}}),
                   host_with({{kRight, 64}}));
  hosts.client_a->connect({kRight, 5000}, 1, {left4, 0});
  ASSERT_TRUE(hosts.run_until([&] { return !hosts.app_a->others.empty(); }));
  EXPECT_EQ(hosts.app_a->others[0].status, channel::EndStatus::kUnreachable);
}

TEST(Routes, NeighboursAreReachedDirectlyBesideAGateway) {
  // Once the prefix was taken to be of 128 bits, and all went to the gateway, which is not here.
  HostOptions options;
  options.gateways = {IpAddress::v4(0x0a0900fe)};
  TwoWorkers hosts({}, options);
  EXPECT_TRUE(hosts.connect());
}

}  // namespace
}  // namespace lyre::test
