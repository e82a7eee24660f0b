#include "tests/support/many_workers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "stack/base/checksum.h"
#include "stack/link/arp.h"
#include "stack/wire/arp.h"
#include "stack/wire/bytes.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/icmp.h"
#include "stack/wire/icmpv6.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"

// Several workers on one port: connections are spread by an unknown hash, are found when
// that hash changes, and lose nothing.
namespace lyre::test {
namespace {

using Stats = channel::WorkerStats;

constexpr uint32_t kBytes = 120'000;
constexpr uint32_t kSessions = 48;

struct Shape {
  uint32_t left;
  uint32_t right;
  io::sim::Faults faults;
  bool has_super_packets = false;
  bool is_ipv6 = false;

  Shape over_ipv6() const {
    Shape out = *this;
    out.is_ipv6 = true;
    return out;
  }
};

/// Each of them over IPv4, and over IPv6.
std::vector<Shape> over_both(std::vector<Shape> shapes) {
  for (size_t i = 0, count = shapes.size(); i < count; ++i) shapes.push_back(shapes[i].over_ipv6());
  return shapes;
}

io::sim::LinkOptions link_of(const Shape& shape) {
  io::sim::LinkOptions options{.delay = micros(20), .faults = shape.faults};
  if (shape.has_super_packets) {
    options.checksums = io::sim::Checksums::kTrusted;
    options.tso_bytes_max = 65'000;
    options.has_super_packets = true;
  }
  return options;
}

void PrintTo(const Shape& shape, std::ostream* out) {
  *out << shape.left << " and " << shape.right << (shape.has_super_packets ? ", uncut" : "")
       << (shape.is_ipv6 ? ", IPv6" : "");
}

class Workers : public testing::TestWithParam<Shape> {
 protected:
  /// `ports_each`: local ports of each worker on the left; 0: as many as there are by default.
  explicit Workers(uint32_t ports_each = 0)
      : link(link_of(GetParam())),
        a(link, 0, GetParam().left,
          {.rx_slots = 1024,
           .local_ports = ports_each * GetParam().left,
           .is_ipv6 = GetParam().is_ipv6}),
        b(link, 1, GetParam().right, {.rx_slots = 1024, .is_ipv6 = GetParam().is_ipv6}) {}

  bool run_until(const std::function<bool()>& is_done, Nanos limit = seconds(120)) {
    const Nanos end = now + limit;
    while (now < end && !is_done()) {
      link.advance(now);
      if (a.poll(now) + b.poll(now) > 0) {
        now += micros(1);
        continue;
      }
      const Nanos next =
          earlier(link.next_deadline(), earlier(a.next_deadline(), b.next_deadline()));
      now = later(now + micros(1), next == kNever ? now + millis(10) : next);
    }
    return is_done();
  }
  void listen() {
    // An open before that waits with its SYN, and does not move to another worker afterwards.
    if (GetParam().is_ipv6) {
      ASSERT_TRUE(run_until([&] { return is_address_verified(); }));
    }
    for (const auto& seat : b.seats) seat->client->listen(5000, 7);
    ASSERT_TRUE(run_until([&] {
      return std::all_of(b.seats.begin(), b.seats.end(),
                         [](const auto& seat) { return !seat->app->others.empty(); });
    }));
  }
  /// At each worker.
  bool is_address_verified() const {
    for (const ManyWorkers* host : {&a, &b}) {
      for (const auto& seat : host->seats) {
        const std::vector<IpAddress> verified = seat->worker->verified_addresses(0);
        if (std::ranges::find(verified, host->address()) == verified.end()) return false;
      }
    }
    return true;
  }
  void connect_all() {
    for (uint32_t i = 0; i < kSessions; ++i) {
      // A few at a time: the backlog of a listener is short.
      a.seats[i % a.seats.size()]->client->connect({b.address(), 5000}, 100 + i);
      if (i % 8 == 7) run_until([&] { return a.stream_count() == i + 1; }, seconds(10));
    }
    ASSERT_TRUE(
        run_until([&] { return a.stream_count() == kSessions && b.stream_count() == kSessions; }));
  }
  void send_all(uint32_t from, uint32_t bytes) {
    for (const auto& seat : a.seats) {
      for (uint32_t i = 0; i < kBytes; ++i) seat->client->arena()[i] = pattern(1, i);
      for (const auto& [index, stream] : seat->app->streams()) {
        ASSERT_TRUE(seat->client->send(stream.name, from, bytes));
      }
    }
  }
  bool all_received(uint64_t bytes) const {
    for (const auto& seat : b.seats) {
      for (const auto& [index, stream] : seat->app->streams()) {
        if (stream.received != bytes) return false;
      }
    }
    return true;
  }
  void expect_equal() const {
    for (const auto& seat : b.seats) {
      for (const auto& [index, stream] : seat->app->streams()) EXPECT_TRUE(stream.is_equal);
    }
  }
  static void expect_spread(const ManyWorkers& host) {
    for (const auto& seat : host.seats) EXPECT_GT(seat->app->stream_count(), 0u);
  }
  void close_all() {
    for (ManyWorkers* host : {&a, &b}) {
      for (const auto& seat : host->seats) {
        for (const auto& [index, stream] : seat->app->streams()) {
          ASSERT_TRUE(seat->client->tell(channel::Op::kAbort, stream.name));
        }
      }
    }
  }
  static bool has_all_slots(const ManyWorkers& host) {
    return std::all_of(host.seats.begin(), host.seats.end(), [](const auto& seat) {
      return seat->memory->rx_slots_free() == seat->memory->rx_slot_count();
    });
  }

  Nanos now = seconds(1);
  io::sim::Link link;
  ManyWorkers a;
  ManyWorkers b;
};

TEST_P(Workers, ShareAPortWhoseHashIsUnknown) {
  listen();
  connect_all();
  expect_spread(a);
  expect_spread(b);
  send_all(0, kBytes);
  EXPECT_TRUE(run_until([&] { return all_received(kBytes); }));
  expect_equal();
  // Both ends are where their packets arrive, so that only handshakes were redirected.
  EXPECT_LT(a.sum(&Stats::redirected_in), 10u * kSessions);
  EXPECT_LT(b.sum(&Stats::redirected_in), 10u * kSessions);
  EXPECT_EQ(a.sum(&Stats::handed_over) > 0, a.seats.size() > 1);
}

// A connection moves to the worker where the answer to its SYN arrives, but not with bytes queued.
TEST_P(Workers, SendWhatWasQueuedBeforeTheHandshake) {
  constexpr uint32_t kEarlyBytes = 1'000;
  listen();
  for (uint32_t i = 0; i < kSessions; ++i) {
    const auto& seat = a.seats[i % a.seats.size()];
    for (uint32_t byte = 0; byte < kEarlyBytes; ++byte) {
      seat->client->arena()[byte] = pattern(1, byte);
    }
    seat->app->connecting = {};
    seat->client->connect({b.address(), 5000}, 100 + i);
    ASSERT_TRUE(run_until([&] { return seat->app->connecting.generation != 0; }));
    ASSERT_TRUE(seat->client->send(seat->app->connecting, 0, kEarlyBytes));
    ASSERT_TRUE(run_until([&] { return b.stream_count() == i + 1; }));
  }
  EXPECT_TRUE(run_until([&] { return all_received(kEarlyBytes); }, seconds(10)));
  expect_equal();
  for (const auto& seat : a.seats) seat->worker->check_invariants(UINT32_MAX);
}

TEST_P(Workers, FindConnectionsWhosePacketsMoved) {
  listen();
  connect_all();
  send_all(0, kBytes / 2);
  ASSERT_TRUE(run_until([&] { return b.sum(&Stats::tcp_payload_in) > kBytes; }));
  link.redistribute(0, 99);
  link.redistribute(1, 77);
  send_all(kBytes / 2, kBytes / 2);
  EXPECT_TRUE(run_until([&] { return all_received(kBytes); }));
  expect_equal();
  EXPECT_EQ(a.sum(&Stats::tcp_resets_in) + b.sum(&Stats::tcp_resets_in), 0u);
  EXPECT_EQ(b.sum(&Stats::redirected_in) > 0, b.seats.size() > 1);

  close_all();
  EXPECT_TRUE(run_until([&] { return has_all_slots(a) && has_all_slots(b); }));
}

/// Packets arrive at other workers than before: the new ones know whose they are.
TEST_P(Workers, LoseNothingWhenOthersTakeTheirPlace) {
  listen();
  connect_all();
  send_all(0, kBytes / 2);
  ASSERT_TRUE(run_until([&] { return b.sum(&Stats::tcp_payload_in) > kBytes; }));
  link.redistribute(0, 99);
  link.redistribute(1, 77);
  ASSERT_TRUE(b.hand_over(now));
  ASSERT_TRUE(a.hand_over(now));
  send_all(kBytes / 2, kBytes / 2);
  EXPECT_TRUE(run_until([&] { return all_received(kBytes); }));
  expect_equal();
  EXPECT_EQ(a.sum(&Stats::tcp_resets_in) + b.sum(&Stats::tcp_resets_in), 0u);
  EXPECT_EQ(b.sum(&Stats::redirected_in) > 0, b.seats.size() > 1);
  for (const auto& seat : b.seats) seat->worker->check_invariants(UINT32_MAX);

  close_all();
  EXPECT_TRUE(run_until([&] { return has_all_slots(a) && has_all_slots(b); }));
}

// Another client's session would get the other one's packets, and lose its own with its end.
TEST_P(Workers, ALocalPortThatASessionOfAnotherWorkerHasIsInUse) {
  const Endpoint local{a.address(), 7'000};
  listen();
  a.seats[0]->client->connect({b.address(), 5000}, 100, local);
  ASSERT_TRUE(run_until([&] { return a.stream_count() == 1 && b.stream_count() == 1; }));
  for (const auto& seat : a.seats) {
    seat->client->connect({b.address(), 5000}, 101, local);
  }
  const auto has_failed = [](const auto& seat) { return seat->app->others.size() == 1; };
  EXPECT_TRUE(run_until([&] { return std::all_of(a.seats.begin(), a.seats.end(), has_failed); },
                        seconds(1)));
  for (const auto& seat : a.seats) {
    ASSERT_EQ(seat->app->others.size(), 1u);
    EXPECT_EQ(seat->app->others[0].status, channel::EndStatus::kAddressInUse);
  }
  link.redistribute(0, 99);
  send_all(0, kBytes);
  EXPECT_TRUE(run_until([&] { return all_received(kBytes); }));
  EXPECT_EQ(a.sum(&Stats::tcp_resets_in) + b.sum(&Stats::tcp_resets_in), 0u);
}

/// Each worker has a few times as many local ports as it opens sessions.
class FewPorts : public Workers {
 protected:
  static constexpr uint32_t kSessionsEach = 40;

  FewPorts() : Workers(kSessionsEach * 5) {}
};

// Most sessions move to another worker, where the one that opened them does not see their ports.
TEST_P(FewPorts, AnOpenChoosesNoneThatAnotherWorkerHas) {
  listen();
  const Endpoint remote{b.address(), 5000};
  const auto count = static_cast<uint32_t>(kSessionsEach * a.seats.size());
  for (uint32_t i = 0; i < count; ++i) {
    ASSERT_TRUE(a.seats[i % a.seats.size()]->client->connect(remote, 100 + i));
    if (i % 8 != 7) continue;  // the backlog of a listener is short
    ASSERT_TRUE(run_until([&] { return a.stream_count() == i + 1; }, seconds(10))) << i;
  }
  EXPECT_TRUE(run_until([&] { return b.stream_count() == count; }, seconds(10)));
  EXPECT_GT(a.sum(&Stats::handed_over), kSessionsEach) << "they moved";
  for (const auto& seat : a.seats) EXPECT_TRUE(seat->app->others.empty()) << "refused";
}

INSTANTIATE_TEST_SUITE_P(Counts, FewPorts, testing::ValuesIn(over_both({{3, 3, {}}, {4, 4, {}}})));

/// A router that says of packets of the left host that they are too big.
class RouterMessages : public Workers {
 protected:
  using Frame = std::vector<uint8_t>;

  /// Runs the left host's workers, and takes what they send from the wire.
  std::vector<Frame> steal(Nanos span) {
    std::vector<Frame> frames;
    for (const Nanos end = now + span; now < end; now += micros(20)) {
      a.poll(now);
      link.advance(now);
      for (const auto& seat : b.seats) take_all(*seat, frames);
    }
    return frames;
  }
  static void take_all(ManyWorkers::Seat& seat, std::vector<Frame>& out) {
    io::PacketBuf* packet = nullptr;
    while (seat.queue->rx_burst(std::span(&packet, 1)) == 1) {
      out.emplace_back(packet->data, packet->data + packet->length);
      seat.memory->release({&packet, 1});
    }
  }
  /// In answer to `frame`, to its sender. It comes from the right host's port.
  void complain(const Frame& frame, uint32_t mtu_bytes) {
    const Frame answer =
        GetParam().is_ipv6 ? too_big6(frame, mtu_bytes) : too_big4(frame, mtu_bytes);
    ManyWorkers::Seat& seat = *b.seats[0];
    io::PacketBuf* packet = nullptr;
    ASSERT_EQ(seat.memory->alloc_tx(std::span(&packet, 1)), 1u);
    ASSERT_LE(answer.size(), packet->tailroom);
    std::copy(answer.begin(), answer.end(), packet->data);
    packet->length = static_cast<uint32_t>(answer.size());
    ASSERT_EQ(seat.queue->tx_burst(std::span(&packet, 1)), 1u);
  }
  /// The Ethernet and IP headers of an answer to `frame` with `body` in its packet.
  Frame answer_to(const Frame& frame, uint8_t protocol, const Frame& body) const {
    const size_t ip_bytes = GetParam().is_ipv6 ? wire::kIpv6HeaderBytes : wire::kIpv4HeaderBytesMin;
    Frame out(wire::kEthernetHeaderBytes + ip_bytes);
    std::copy_n(frame.begin() + 6, 6, out.begin());
    std::copy_n(frame.begin(), 6, out.begin() + 6);
    std::copy_n(frame.begin() + 12, 2, out.begin() + 12);
    const std::span ip = std::span(out).subspan(wire::kEthernetHeaderBytes);
    if (GetParam().is_ipv6) {
      wire::write_ipv6({.source = b.address(),
                        .destination = a.address(),
                        .payload_bytes = static_cast<uint16_t>(body.size()),
                        .next_header = protocol},
                       ip.first<wire::kIpv6HeaderBytes>());
    } else {
      wire::write_ipv4({.source = b.address(),
                        .destination = a.address(),
                        .total_bytes = static_cast<uint16_t>(ip_bytes + body.size()),
                        .protocol = protocol},
                       wire::ChecksumField::kComputed, ip.first<wire::kIpv4HeaderBytesMin>());
    }
    out.insert(out.end(), body.begin(), body.end());
    return out;
  }
  /// An ICMP message without its checksum, which quotes both headers of `frame`.
  static Frame quoting(const Frame& frame, size_t ip_bytes) {
    Frame body(wire::kIcmpHeaderBytes);
    const auto quoted = frame.begin() + wire::kEthernetHeaderBytes;
    body.insert(body.end(), quoted, quoted + static_cast<ptrdiff_t>(ip_bytes) + 20);
    return body;
  }
  /// Destination unreachable: fragmentation needed.
  Frame too_big4(const Frame& frame, uint32_t mtu_bytes) const {
    Frame body = quoting(frame, wire::kIpv4HeaderBytesMin);
    body[0] = wire::kIcmpUnreachable;
    body[1] = wire::kUnreachableTooBig;
    wire::write_be16(body.data() + 6, static_cast<uint16_t>(mtu_bytes));
    ChecksumSum sum;
    sum.add(body);
    wire::write_raw16(body.data() + 2, sum.finish());
    return answer_to(frame, wire::kIpProtocolIcmp, body);
  }
  /// Packet too big.
  Frame too_big6(const Frame& frame, uint32_t mtu_bytes) const {
    Frame body = quoting(frame, wire::kIpv6HeaderBytes);
    body[0] = wire::kIcmpv6TooBig;
    wire::write_be32(body.data() + 4, mtu_bytes);
    wire::complete_icmpv6({b.address(), a.address()}, body);
    return answer_to(frame, wire::kIpProtocolIcmpv6, body);
  }
  static size_t largest(const std::vector<Frame>& frames) {
    size_t most = 0;
    for (const Frame& frame : frames) most = std::max(most, frame.size());
    return most;
  }
};

// RFC 1191 4, RFC 4443 3.2 and RFC 8201 4. The message has no ports, so that it comes to the first
// worker, whoever has the connection.
TEST_P(RouterMessages, ReachTheWorkerThatHasTheConnection) {
  constexpr uint32_t kPathMtuBytes = 1300;
  listen();
  connect_all();
  run_until([] { return false; }, seconds(1));
  ManyWorkers::Seat& owner = *a.seats.back();
  ASSERT_GT(owner.app->stream_count(), 0u);
  for (uint32_t i = 0; i < kBytes; ++i) owner.client->arena()[i] = pattern(1, i);
  const PatternApp::Stream& stream = owner.app->streams().begin()->second;
  ASSERT_TRUE(owner.client->send(stream.name, 0, kBytes));
  const std::vector<Frame> sent = steal(millis(1));
  ASSERT_EQ(largest(sent), link.options().mtu_bytes + wire::kEthernetHeaderBytes);
  const auto full = std::ranges::find(sent, largest(sent), &Frame::size);
  const uint64_t redirected = owner.stats->redirected_in.get();
  complain(*full, kPathMtuBytes);
  const std::vector<Frame> again = steal(millis(100));  // less than a retransmission timeout
  ASSERT_FALSE(again.empty());
  EXPECT_EQ(largest(again), kPathMtuBytes + wire::kEthernetHeaderBytes);
  EXPECT_EQ(owner.stats->redirected_in.get() - redirected, 1u);
  EXPECT_EQ(a.drops(Drop::kIcmpBadQuote), 0u);
  EXPECT_TRUE(run_until([&] { return stream.sends_done == 1; }));
  expect_equal();
}

INSTANTIATE_TEST_SUITE_P(Families, RouterMessages, testing::ValuesIn(over_both({{3, 3, {}}})));

TEST_P(Workers, NewConnectionsAfterAMoveAreNotMistakenForOldOnes) {
  listen();
  connect_all();
  close_all();
  run_until([] { return false; }, seconds(1));
  link.redistribute(1, 5);
  for (const auto& seat : a.seats) {
    seat->client->connect({b.address(), 5000}, 1'000);
  }
  const uint64_t before = b.sum(&Stats::accepts);
  EXPECT_TRUE(run_until([&] { return b.sum(&Stats::accepts) == before + a.seats.size(); }));
}

/// The start of a host with so many workers, as the other end of the wire sees it.
class StartOfWorkers : public testing::TestWithParam<uint32_t> {
 protected:
  /// The ARP packets that are received while `span` passes.
  std::vector<wire::ArpPacket> arp_while(Nanos span) {
    std::vector<wire::ArpPacket> all;
    for (const Nanos end = now + span; now < end; now += millis(10)) {
      link.advance(now);
      host.poll(now);
      io::PacketBuf* packets[16];
      while (const size_t count = far.rx_burst(packets)) {
        for (io::PacketBuf* packet : std::span(packets).first(count)) {
          Drop drop{};
          const auto body = packet->bytes().subspan(wire::kEthernetHeaderBytes);
          if (const auto arp = wire::parse_arp(body, drop)) all.push_back(*arp);
        }
        memory.release({packets, count});
      }
    }
    return all;
  }

  Nanos now = seconds(1);
  io::sim::Link link{{}};
  io::sim::Memory memory{{.rx_slots = 256, .frame_bytes = 1564, .tx_packets = 16}};
  io::PacketIo& far = link.add_queue(1, memory);
  ManyWorkers host{link, 0, GetParam()};
};

// Each worker announced the address and probed for it.
TEST_P(StartOfWorkers, OneOfThemSpeaks) {
  for (int start = 0; start < 2; ++start) {
    const auto received = arp_while(seconds(10));
    const auto probes = std::count_if(received.begin(), received.end(), [](const auto& arp) {
      return arp.sender_ip == IpAddress::v4(0);
    });
    EXPECT_EQ(probes, link::kArpProbeCount);
    EXPECT_EQ(received.size(), size_t{link::kArpProbeCount} + link::kArpAnnounceCount);
    for (const auto& seat : host.seats) {  // the next start: a link that comes up
      ASSERT_TRUE(seat->worker->inbox().try_post({.kind = worker::Command::Kind::kLinkUp}));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Counts, StartOfWorkers, testing::Values(1u, 4u, 8u));

INSTANTIATE_TEST_SUITE_P(
    Counts, Workers,
    testing::ValuesIn(
        over_both({{3, 3, {}},
                   {1, 4, {}},
                   {4, 1, {}},
                   {3, 3, {}, true},
                   {2, 3, {.loss_ppm = 5'000, .duplicate_ppm = 2'000, .reorder_ppm = 5'000}}})));

}  // namespace
}  // namespace lyre::test
