#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "stack/worker/clients/copy_blocks.h"
#include "stack/worker/handover_records.h"
#include "tests/support/handover_bed.h"
#include "tests/unit/stack/ip/frame_builder.h"

namespace lyre::test {
namespace {

std::string file_of(uint32_t version, uint32_t host) {
  return std::string(LYRE_HANDOVER_RECORDS) + "/v" + std::to_string(version) +
         (host == 0 ? "_sender" : "_receiver");
}

TEST(Handover, ASuccessorHasAllSessions) {
  HandoverBed bed;
  for (const uint32_t host : {0u, 1u}) {
    const auto successor = bed.successor(host, bed.records_of(host));
    ASSERT_NE(successor, nullptr) << host;
    EXPECT_EQ(successor->worker().connection_count(), HandoverBed::kSessions);
    bed.run(*successor, 20);
  }
}

TEST(Handover, RefusesSessionsOfAnAddressOrARouteThatIsGone) {
  HandoverBed bed;
  const auto other = InterfaceAddress::of(IpAddress::v4(0x0a090007), 24);
  EXPECT_EQ(bed.successor(0, bed.records_of(0), {other}), nullptr);
  const auto lone = InterfaceAddress::of(IpAddress::v4(0x0a090001), 32);
  EXPECT_EQ(bed.successor(0, bed.records_of(0), {lone}), nullptr);
}

/// Why a worker refuses the records of this client's worker. Empty: it takes them.
std::string_view refusal_of(WorkerHost& successor, const ChannelClient& client,
                            std::span<const uint8_t> records, Nanos now) {
  std::vector<worker::Command> memory;
  client.describe_memory(memory);
  record::Reader in(records);
  if (successor.worker().take_over(memory, in, now)) return {};
  return successor.worker().refusal();
}

// The listener was taken over, and no SYN reached it.
TEST(Handover, RefusesAListenerOfAnAddressThatIsGone) {
  constexpr uint32_t kAddress = 0x0a090002;
  TwoWorkers hosts;
  hosts.client_b->listen_at({IpAddress::v4(kAddress), 6000}, 7);
  hosts.run_for(millis(1));
  record::Writer out;
  hosts.b.worker().write_handover(out);
  for (const uint32_t address : {kAddress, kAddress + 1}) {
    SCOPED_TRACE(address);
    io::sim::Link link{io::sim::LinkOptions{}};
    WorkerHost successor(link, {.address = address, .seed = 2});
    const std::string_view refusal = refusal_of(successor, *hosts.client_b, out.bytes(), hosts.now);
    EXPECT_EQ(refusal,
              address == kAddress ? "" : "its configuration lacks the address of a listener");
  }
}

/// Segments of the earlier MTU would not fit into the new slots.
TEST(Handover, RefusesSessionsWhoseSegmentsExceedTheMtu) {
  HandoverBed bed;
  const std::vector<uint8_t> records = bed.records_of(0);
  for (const uint32_t mtu_bytes : {1400u, 1499u, 1500u, 9000u}) {
    SCOPED_TRACE(mtu_bytes);
    io::sim::Link link{io::sim::LinkOptions{.mtu_bytes = mtu_bytes}};
    WorkerHost successor(link, {.seed = 2});
    const std::string_view refusal =
        refusal_of(successor, *bed.hosts().client_a, records, bed.hosts().now);
    EXPECT_EQ(refusal.find("mtu") != refusal.npos, mtu_bytes < 1500) << refusal;
    EXPECT_EQ(refusal.empty(), mtu_bytes >= 1500) << refusal;
    EXPECT_EQ(successor.worker().sessions_lost(), 0u);
  }
}

/// A client that reads nothing has a session with more unread bytes than the new pool holds.
TEST(Handover, RefusesUnreadBytesThatFindNoSlot) {
  constexpr uint32_t kBytes = 150'000;
  TwoWorkers hosts;
  ChannelClient slow(hosts.b.worker(), 1, /*is_lent=*/false, 1 << 20, worker::kCopyBlockBytes);
  slow.listen(5000, 7);
  hosts.run_for(millis(1));
  hosts.client_a->connect({IpAddress::v4(0x0a090002), 5000}, 9);
  ASSERT_TRUE(hosts.run_until([&] { return hosts.app_a->stream_count() == 1; }));
  hosts.client_a->send(hosts.app_a->only().name, 0, kBytes);
  hosts.run_for(seconds(1));
  record::Writer out;
  hosts.b.worker().write_handover(out);
  std::vector<worker::Command> memory;
  hosts.client_b->describe_memory(memory);
  slow.describe_memory(memory);
  for (const uint32_t rx_slots : {8u, 512u}) {
    SCOPED_TRACE(rx_slots);
    io::sim::Link link{io::sim::LinkOptions{}};
    WorkerHost successor(link, {.address = 0x0a090002, .rx_slots = rx_slots});
    record::Reader in(out.bytes());
    const bool is_taken = successor.worker().take_over(memory, in, hosts.now);
    EXPECT_EQ(is_taken, rx_slots == 512);
    EXPECT_EQ(successor.worker().sessions_lost(), 0u);
    const std::string_view refusal = successor.worker().refusal();
    EXPECT_EQ(refusal.find("rx_slots") != refusal.npos, !is_taken) << refusal;
    if (is_taken) {
      EXPECT_LT(successor.memory().rx_slots_free(), rx_slots - 8);
    }
  }
}

/// `lyre sessions` shows listeners from their rows.
TEST(Handover, AListenerHasItsRow) {
  HandoverBed bed;
  const auto successor = bed.successor(1, bed.records_of(1));
  ASSERT_NE(successor, nullptr);
  channel::SessionView view{};
  ASSERT_TRUE(successor->row(HostOptions{}.connections_max).read(view));
  EXPECT_EQ(view.is_listener, 1);
  EXPECT_EQ(view.local_port, 5000);
}

// A router of IPv6 that was learned is learned again. Its sessions wait for it meanwhile.
TEST(Handover, AnIpv6SessionWithoutARouteWaitsForOne) {
  constexpr IpAddress kLeft{{0xfd, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  constexpr IpAddress kRight{{0xfd, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};
  TwoWorkers hosts({}, {.addresses = {{kLeft, 64}}}, {.addresses = {{kRight, 64}}});
  ASSERT_TRUE(hosts.connect(5000, kRight));
  hosts.app_a->send_pattern(hosts.app_a->only().name, 5, 60'000, 4096);
  hosts.turn();
  record::Writer out;
  hosts.a.worker().write_handover(out);
  io::sim::Link link{io::sim::LinkOptions{}};
  std::vector<worker::Command> memory;
  hosts.client_a->describe_memory(memory);
  record::Reader again(out.bytes());
  WorkerHost deaf(link, {.addresses = {{kLeft, 128}}});
  EXPECT_FALSE(deaf.worker().take_over(memory, again, hosts.now)) << "no router will come";
  WorkerHost successor(link, {.end = 1, .addresses = {{kLeft, 128}}, .takes_routers = true});
  record::Reader in(out.bytes());
  ASSERT_TRUE(successor.worker().take_over(memory, in, hosts.now));
  EXPECT_EQ(successor.worker().connection_count(), 1u);
  for (int i = 0; i < 40; ++i) {
    successor.worker().poll_once(hosts.now + millis(300) * i);
    successor.worker().check_invariants(UINT32_MAX);
  }
  EXPECT_EQ(successor.worker().connection_count(), 1u);
}

TEST(Handover, ATimeWaitIsCountedByTheSuccessor) {
  TwoWorkers hosts;
  ASSERT_TRUE(hosts.connect());
  hosts.client_a->tell(channel::Op::kClose, hosts.app_a->only().name);
  ASSERT_TRUE(hosts.run_until([&] { return hosts.app_b->only().is_finished; }));
  hosts.client_b->tell(channel::Op::kClose, hosts.app_b->only().name);
  ASSERT_TRUE(hosts.run_until([&] { return hosts.a.stats().time_waits.get() == 1; }));
  record::Writer out;
  hosts.a.worker().write_handover(out);
  io::sim::Link link{io::sim::LinkOptions{}};
  std::vector<worker::Command> memory;
  hosts.client_a->describe_memory(memory);
  WorkerHost successor(link, {});
  record::Reader in(out.bytes());
  ASSERT_TRUE(successor.worker().take_over(memory, in, hosts.now));
  EXPECT_EQ(successor.worker().connection_count(), 1u);
  for (int i = 0; i < 40; ++i) successor.worker().poll_once(hosts.now + millis(10) * i);
  EXPECT_EQ(successor.worker().connection_count(), 1u);
  EXPECT_EQ(successor.stats().sessions_open.get(), 1u);
  EXPECT_EQ(successor.stats().time_waits.get(), 1u);
  successor.worker().check_invariants(UINT32_MAX);
}

TEST(Handover, ASessionWithoutARowIsCountedByTheSuccessor) {
  TwoWorkers hosts;
  ASSERT_TRUE(hosts.connect());
  record::Writer out;
  hosts.a.worker().write_handover(out);
  io::sim::Link link{io::sim::LinkOptions{}};
  io::sim::Memory packets(
      {.rx_slots = 512, .frame_bytes = link.options().mtu_bytes + 64, .tx_packets = 256});
  const worker::PortBinding port{.io = &link.add_queue(0, packets),
                                 .addresses = {InterfaceAddress::of(IpAddress::v4(0x0a090001), 24)},
                                 .mtu_bytes = link.options().mtu_bytes};
  worker::WorkerConfig config;
  config.engine = {.connections_max = 64, .sent_records_max = 1024, .received_runs_max = 1024};
  channel::WorkerStats stats;
  worker::Worker successor(config, packets, {&port, 1}, {}, {.worker = &stats});
  std::vector<worker::Command> memory;
  hosts.client_a->describe_memory(memory);
  record::Reader in(out.bytes());
  ASSERT_TRUE(successor.take_over(memory, in, hosts.now));
  for (int i = 0; i < 10; ++i) successor.poll_once(hosts.now + millis(10) * i);
  EXPECT_EQ(stats.sessions_without_row.get(), 1u);
  successor.check_invariants(UINT32_MAX);
}

/// What the application was lent was right, and still was when it gave it back.
void expect_equal(const PatternApp& app) {
  for (const auto& [index, stream] : app.streams()) EXPECT_TRUE(stream.is_equal) << index;
}

TEST(Handover, LeavesTheWorkerAsItIs) {
  HandoverBed bed;
  const std::vector<uint8_t> first = bed.records_of(1);
  EXPECT_EQ(bed.records_of(1), first);
  bed.hosts().app_b->keeps_slots = false;
  EXPECT_TRUE(bed.hosts().run_until([&] {
    uint64_t received = 0;
    for (const auto& [index, stream] : bed.hosts().app_b->streams()) received += stream.received;
    return received == HandoverBed::kSessions * HandoverBed::kBytes + HandoverBed::kLastBytes;
  }));
  expect_equal(*bed.hosts().app_b);
}

/// What a client was lent stays with it: its slots come back to the successor.
TEST(Handover, TakesBackWhatTheEarlierWorkerLent) {
  HandoverBed bed;
  const auto successor = bed.successor(1, bed.records_of(1));
  ASSERT_NE(successor, nullptr);
  EXPECT_FALSE(successor->worker().is_at_rest());
  bed.hosts().app_b->keeps_slots = false;
  for (int i = 0; i < 100; ++i) {
    bed.hosts().app_b->step();
    bed.run(*successor, 1);
  }
  expect_equal(*bed.hosts().app_b);
  worker::Reply reply;
  EXPECT_FALSE(successor->worker().outbox().try_take(reply)) << reply.reason;
}

/// A peer chooses its port, and may not keep a daemon from being replaced.
TEST(Handover, APeerMaySendFromPortZero) {
  HandoverBed bed;
  TwoWorkers& hosts = bed.hosts();
  ip::TcpOutput syn;
  syn.frame = {.source = hosts.link.queue(0, 0).capabilities().mac,
               .destination = hosts.link.queue(1, 0).capabilities().mac};
  syn.tuple = {.local = {IpAddress::v4(0x0a090001), 0},
               .remote = {IpAddress::v4(0x0a090002), 5000}};
  syn.header.flags.set(wire::TcpFlags::kSyn);
  const std::vector<uint8_t> frame = ip::tcp_frame(syn);
  const uint32_t sessions = hosts.b.worker().connection_count();
  for (int i = 0; i < 20 && hosts.b.worker().connection_count() == sessions; ++i) {
    io::PacketBuf* packet = nullptr;
    ASSERT_EQ(hosts.a.memory().alloc_tx(std::span(&packet, 1)), 1u);
    std::copy(frame.begin(), frame.end(), packet->data);
    packet->length = static_cast<uint32_t>(frame.size());
    ASSERT_EQ(hosts.link.queue(0, 0).tx_burst(std::span(&packet, 1)), 1u);
    hosts.run_for(millis(1));
  }
  ASSERT_EQ(hosts.b.worker().connection_count(), sessions + 1);
  EXPECT_NE(bed.successor(1, bed.records_of(1)), nullptr);
}

/// The control thread of the earlier process may have left before it took the answer.
TEST(Handover, AnExpulsionIsSaidAgain) {
  HandoverBed bed;
  bed.hosts().client_b->release(UINT32_MAX);
  bed.hosts().run_for(millis(1));
  const auto successor = bed.successor(1, bed.records_of(1));
  ASSERT_NE(successor, nullptr);
  worker::Reply reply;
  ASSERT_TRUE(successor->worker().outbox().try_take(reply));
  EXPECT_EQ(reply.kind, worker::Reply::Kind::kExpelled);
  EXPECT_EQ(reply.context, 0u);
}

TEST(Handover, RefusesRecordsThatAreCutShort) {
  HandoverBed bed;
  const std::vector<uint8_t> records = bed.records_of(1);
  for (size_t bytes = 0; bytes < records.size(); bytes += 1 + bytes / 8) {
    EXPECT_EQ(bed.successor(1, std::span(records).first(bytes)), nullptr) << bytes;
  }
}

TEST(Handover, RefusesALaterVersion) {
  HandoverBed bed;
  std::vector<uint8_t> records = bed.records_of(0);
  records[2] = 99;  // the version of the first record
  EXPECT_EQ(bed.successor(0, records), nullptr);
}

size_t next_record(const std::vector<uint8_t>& records, size_t at) {
  const size_t bytes = records[at + 4] | records[at + 5] << 8 | records[at + 6] << 16;
  return at + record::kHeaderBytes + bytes;
}

/// Where the first record of this kind begins, from `at` on.
size_t first_of(record::Kind kind, const std::vector<uint8_t>& records, size_t at = 0) {
  while (at < records.size() && records[at] != static_cast<uint8_t>(kind)) {
    at = next_record(records, at);
  }
  return at;
}

/// The successor has all sessions but one, whose client is told.
void expect_one_is_lost(HandoverBed& bed, uint32_t host, std::span<const uint8_t> records) {
  const auto successor = bed.successor(host, records);
  ASSERT_NE(successor, nullptr);
  EXPECT_EQ(successor->worker().sessions_lost(), 1u);
  PatternApp& app = host == 0 ? *bed.hosts().app_a : *bed.hosts().app_b;
  for (int i = 0; i < 20; ++i) {
    bed.run(*successor, 1);
    app.step();
  }
  uint32_t ended = 0;
  for (const auto& [index, stream] : app.streams()) {
    ended += stream.is_ended && stream.status == channel::EndStatus::kAborted;
  }
  EXPECT_EQ(ended, 1u);
  EXPECT_EQ(successor->worker().connection_count(), HandoverBed::kSessions - 1);
}

constexpr size_t kMustAnnounceEnd = 83;  ///< from the start of a session's record

/// The client would be told of the end, and the bytes be dropped that TCP still sends.
TEST(Handover, LosesASessionThatEndsWhileItSends) {
  HandoverBed bed;
  std::vector<uint8_t> records = bed.records_of(0);
  uint8_t& flag = records[first_of(record::Kind::kSession, records) + kMustAnnounceEnd];
  ASSERT_EQ(flag, 0);
  flag = 1;
  expect_one_is_lost(bed, 0, records);
}

/// What the client is told next of the finished sends of a session. kNone: nothing.
channel::Completion next_send_done(ChannelClient& client, uint32_t session) {
  channel::Completion entry = client.next();
  while (entry.event != channel::Event::kNone &&
         (entry.event != channel::Event::kSendDone || entry.session.index != session)) {
    entry = client.next();
  }
  return entry;
}

/// The count alone would say that the peer acknowledged them before the end.
TEST(Handover, ALostSessionsSendsAreFinishedWithTheReason) {
  constexpr size_t kConn = record::kHeaderBytes;
  constexpr size_t kFinishedCount = record::kHeaderBytes + 44;
  HandoverBed bed;
  std::vector<uint8_t> records = bed.records_of(0);
  const auto is_piece = [&](size_t at) {
    return records[at] == static_cast<uint8_t>(record::Kind::kPiece);
  };
  size_t at = first_of(record::Kind::kSession, records);
  while (!is_piece(next_record(records, at))) {
    at = first_of(record::Kind::kSession, records, next_record(records, at));
    ASSERT_LT(at, records.size()) << "no session has unacknowledged bytes";
  }
  records[at + kMustAnnounceEnd] = 1;
  uint64_t sends = records[at + kFinishedCount];
  for (size_t piece = next_record(records, at); is_piece(piece);
       piece = next_record(records, piece)) {
    ++sends;
  }
  const auto successor = bed.successor(0, records);
  ASSERT_NE(successor, nullptr);
  ASSERT_EQ(successor->worker().sessions_lost(), 1u);
  bed.run(*successor, 4);
  const channel::Completion told = next_send_done(*bed.hosts().client_a, records[at + kConn]);
  EXPECT_EQ(told.status, channel::EndStatus::kAborted);
  EXPECT_EQ(told.body.send_done.descriptors, sends);
}

/// There was no room in the completion ring to tell of them.
TEST(Handover, TellsThatSendsWereLostBeforeIt) {
  TwoWorkers hosts;
  ChannelClient caller(hosts.a.worker(), 1);
  hosts.client_b->listen(5000, 7);
  hosts.run_for(millis(1));
  caller.connect({IpAddress::v4(0x0a090002), 5000}, 9);
  hosts.run_for(millis(10));
  channel::SessionName name;
  for (auto entry = caller.next(); entry.event != channel::Event::kNone; entry = caller.next()) {
    name = entry.session;
  }
  hosts.link.set_path(0, {.loss_ppm = 1'000'000});
  caller.send(name, 0, 10'000);
  for (uint32_t i = 0; i < channel::kCompletionEntries; ++i) {
    caller.listen(6000, i);  // all but the first are refused
    hosts.turn();
  }
  hosts.client_b->tell(channel::Op::kAbort, hosts.app_b->only().name);
  hosts.run_for(millis(10));
  record::Writer out;
  hosts.a.worker().write_handover(out);
  std::vector<worker::Command> memory;
  hosts.client_a->describe_memory(memory);
  caller.describe_memory(memory);
  io::sim::Link link{io::sim::LinkOptions{}};
  WorkerHost successor(link, {.seed = 2});
  record::Reader in(out.bytes());
  ASSERT_TRUE(successor.worker().take_over(memory, in, hosts.now));
  ASSERT_EQ(next_send_done(caller, name.index).event, channel::Event::kNone);
  successor.worker().poll_once(hosts.now);
  const channel::Completion told = next_send_done(caller, name.index);
  EXPECT_EQ(told.status, channel::EndStatus::kReset);
  EXPECT_EQ(told.body.send_done.descriptors, 1u);
}

/// A segment that is larger than the handshake allows would not fit into a slot.
TEST(Handover, LosesASessionThatSendsMoreThanItsMss) {
  constexpr std::array<uint8_t, 4> kMss = {0xb4, 0x05, 0xb4, 0x05};  // 1460 now, and at most
  for (const long field : {0, 2}) {
    HandoverBed bed;
    std::vector<uint8_t> records = bed.records_of(0);
    const auto connection =
        records.begin() + static_cast<long>(first_of(record::Kind::kConnection, records));
    const auto mss = std::search(connection, records.end(), kMss.begin(), kMss.end());
    ASSERT_NE(mss, records.end());
    mss[field + 1] = 0x06;
    expect_one_is_lost(bed, 0, records);
  }
}

/// One session that cannot be taken keeps nobody's daemon from being replaced.
TEST(Handover, LosesOnlyTheSessionWhoseRecordsAreWrong) {
  using record::Kind;
  for (const uint32_t host : {0u, 1u}) {
    for (const Kind kind : {Kind::kPiece, Kind::kConnection, Kind::kSent, Kind::kReceived}) {
      SCOPED_TRACE(static_cast<int>(kind));
      HandoverBed bed;
      std::vector<uint8_t> records = bed.records_of(host);
      const size_t at = first_of(kind, records, first_of(Kind::kSession, records));
      if (at >= records.size())
        continue;            // the receiver sends nothing, the sender receives nothing
      records[at + 2] = 99;  // its version
      EXPECT_EQ(bed.successor(host, records), nullptr) << "the earlier daemon goes on";
      records[at + 2] = 0;
      expect_one_is_lost(bed, host, records);
    }
  }
}

/// Damaged records are refused, or are those of another possible state.
TEST(Handover, SurvivesDamagedRecords) {
  HandoverBed bed;
  uint32_t taken = 0;
  for (uint64_t seed = 1; seed <= 1500; ++seed) {
    Rng rng(seed);
    const auto host = static_cast<uint32_t>(rng.below(2));
    std::vector<uint8_t> records = bed.records_of(host);
    for (uint64_t i = rng.below(4) + 1; i > 0; --i) {
      records[rng.below(records.size())] = static_cast<uint8_t>(rng.below(256));
    }
    const auto successor = bed.successor(host, records);
    if (successor == nullptr) continue;
    ++taken;
    bed.run(*successor, 12);
  }
  EXPECT_GT(taken, 0u);
}

/// The records of every version that was released are taken for ever. LYRE_WRITE_RECORDS=1 writes
/// those of the present one.
TEST(Handover, TakesTheRecordsOfEveryVersion) {
  for (uint32_t version = 1; version <= worker::kHandoverVersion; ++version) {
    for (const uint32_t host : {0u, 1u}) {
      HandoverBed bed;
      if (std::getenv("LYRE_WRITE_RECORDS") != nullptr && version == worker::kHandoverVersion) {
        const std::vector<uint8_t> records = bed.records_of(host);
        std::ofstream(file_of(version, host), std::ios::binary)
            .write(reinterpret_cast<const char*>(records.data()),
                   static_cast<std::streamsize>(records.size()));
      }
      std::ifstream file(file_of(version, host), std::ios::binary);
      const std::vector<uint8_t> records((std::istreambuf_iterator<char>(file)), {});
      const auto successor = bed.successor(host, records);
      ASSERT_NE(successor, nullptr) << file_of(version, host);
      EXPECT_EQ(successor->worker().connection_count(), HandoverBed::kSessions);
      bed.run(*successor, 20);
    }
  }
}

}  // namespace
}  // namespace lyre::test
