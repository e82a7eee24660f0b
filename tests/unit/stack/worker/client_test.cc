#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "stack/tcp/state.h"
#include "stack/worker/clients/copy_blocks.h"
#include "tests/support/two_workers.h"
#include "tests/unit/stack/worker/replies.h"

// What clients may do, what happens when they do something else, and how they leave.
namespace lyre::test {
namespace {

struct BrokenRule {
  const char* name;
  std::function<void(ChannelClient&, channel::SessionName)> breach;
};

void PrintTo(const BrokenRule& rule, std::ostream* out) { *out << rule.name; }

class Expulsion : public testing::TestWithParam<BrokenRule> {};

// Each breach ends the client that commits it, and a transfer beside it does not notice.
TEST_P(Expulsion, HitsTheOffenderAndNobodyElse) {
  TwoWorkers hosts;
  hosts.app_b->receive_seed = 1;
  ASSERT_TRUE(hosts.connect());
  ChannelClient liar(hosts.a.worker(), 1);
  PatternApp liar_app(liar);
  hosts.more_apps.push_back(&liar_app);
  liar.connect({IpAddress::v4(0x0a090002), 5000}, 2);
  ASSERT_TRUE(hosts.run_until([&] { return liar_app.stream_count() == 1; }));
  take_replies(hosts.a.worker());

  hosts.app_a->send_pattern(hosts.app_a->only().name, 1, 300'000, 30'000);
  GetParam().breach(liar, liar_app.only().name);
  bool is_expelled = false;
  hosts.run_until(
      [&] {
        is_expelled |= has_reply(hosts.a.worker(), worker::Reply::Kind::kExpelled, 1);
        return is_expelled;
      },
      seconds(1));
  EXPECT_TRUE(is_expelled);
  EXPECT_EQ(hosts.a.stats().clients_expelled.get(), 1u);
  liar.detach();
  bool is_detached = false;
  EXPECT_TRUE(hosts.run_until([&] {
    is_detached |= has_reply(hosts.a.worker(), worker::Reply::Kind::kDetached, 1);
    return is_detached;
  }));
  PatternApp::Stream* stream = hosts.app_b->stream(0);
  ASSERT_NE(stream, nullptr);
  EXPECT_TRUE(hosts.run_until([&] { return stream->received == 300'000; }));
  EXPECT_TRUE(stream->is_equal);
}

channel::Submission raw_send(channel::SessionName session, uint32_t region, uint64_t offset,
                             uint32_t bytes) {
  channel::Submission entry{.op = channel::Op::kSend, .session = session};
  entry.body.send = {.region = region, .bytes = bytes, .offset = offset};
  return entry;
}

const BrokenRule kBrokenRules[] = {
    {"UnknownOperation",
     [](ChannelClient& c, channel::SessionName s) {
       c.submit({.op = static_cast<channel::Op>(200), .session = s});
     }},
    {"UnknownOption",
     [](ChannelClient& c, channel::SessionName s) {
       c.set_option(s, channel::SessionOption::kCount, 1);
     }},
    {"ForbiddenOptionValue",
     [](ChannelClient& c, channel::SessionName s) {
       c.set_option(s, channel::SessionOption::kUserTimeoutMs, 0);
     }},
    {"NoOperation", [](ChannelClient& c, channel::SessionName) { c.submit({}); }},
    {"SendBeyondTheArena",
     [](ChannelClient& c, channel::SessionName s) {
       c.submit(raw_send(s, 0, ChannelClient::kArenaBytes - 10, 11));
     }},
    {"SendOffsetThatWraps",
     [](ChannelClient& c, channel::SessionName s) {
       c.submit(raw_send(s, 0, UINT64_MAX - 5, 10));
     }},
    {"SendOfNothing",
     [](ChannelClient& c, channel::SessionName s) { c.submit(raw_send(s, 0, 0, 0)); }},
    {"SendTooLong",
     [](ChannelClient& c, channel::SessionName s) {
       c.submit(raw_send(s, 0, 0, channel::kSendBytesMax + 1));
     }},
    {"SendFromAnotherRegion",
     [](ChannelClient& c, channel::SessionName s) { c.submit(raw_send(s, 1, 0, 8)); }},
    {"TooManySends",
     [](ChannelClient& c, channel::SessionName s) {
       for (uint32_t i = 0; i <= channel::kSendsOutstandingMax; ++i) {
         c.submit(raw_send(s, 0, 0, 1 << 20));
       }
     }},
    {"SendAfterShutdown",
     [](ChannelClient& c, channel::SessionName s) {
       c.tell(channel::Op::kShutdown, s);
       c.submit(raw_send(s, 0, 0, 8));
     }},
    {"ReleaseOfASlotNeverLent", [](ChannelClient& c, channel::SessionName) { c.release(3); }},
    {"ReleaseOfASlotThatDoesNotExist",
     [](ChannelClient& c, channel::SessionName) { c.release(0x7fff'ffff); }},
    {"ReleaseOfACopyBlockNeverGiven",
     [](ChannelClient& c, channel::SessionName) { c.release(0x8000'0001); }},
    {"ReleaseOfTooManySlots",
     [](ChannelClient& c, channel::SessionName) {
       c.submit({.op = channel::Op::kRelease, .count = 255});
     }},
    {"SubmissionIndexOutOfRange",
     [](ChannelClient& c, channel::SessionName) {
       c.rings().submission_indices.tail.store(0x4000'0000);
     }},
};

INSTANTIATE_TEST_SUITE_P(Rules, Expulsion, testing::ValuesIn(kBrokenRules),
                         [](const auto& rule) { return rule.param.name; });

TEST(Names, OfEndedSessionsAreIgnored) {
  TwoWorkers hosts;
  ASSERT_TRUE(hosts.connect());
  channel::SessionName stale = hosts.app_a->only().name;
  stale.generation += 1;
  hosts.client_a->send(stale, 0, 100);
  hosts.client_a->tell(channel::Op::kAbort, stale);
  hosts.client_a->tell(channel::Op::kClose, {.index = 0x7fff'ffff, .generation = 1});
  hosts.run_for(millis(10));
  EXPECT_TRUE(take_replies(hosts.a.worker()).empty());
  EXPECT_FALSE(hosts.app_a->only().is_ended);
}

TEST(Shutdown, OfManySessionsIsSpreadOverTurns) {
  TwoWorkers hosts({}, {.connections_max = 2000});
  open_many(hosts, 1500);
  ASSERT_TRUE(hosts.a.worker().inbox().try_post({.kind = worker::Command::Kind::kShutdown}));
  hosts.turn();
  EXPECT_FALSE(has_reply(hosts.a.worker(), worker::Reply::Kind::kShutDown, 0));
  EXPECT_TRUE(hosts.a.worker().has_waiting_work());
  EXPECT_TRUE(hosts.run_until(
      [&] { return has_reply(hosts.a.worker(), worker::Reply::Kind::kShutDown, 0); }));
  EXPECT_EQ(hosts.app_a->stream_count(), 0u);
}

TEST(Attach, OfMemoryThatThePortsCannotReadEndsThatClientOnly) {
  TwoWorkers hosts;
  ASSERT_TRUE(hosts.connect());
  uint8_t taken[16];
  ASSERT_TRUE(hosts.a.memory().add_region(1, {taken, sizeof taken}));
  ChannelClient unlucky(hosts.a.worker(), 1);
  hosts.run_for(millis(1));
  EXPECT_TRUE(has_reply(hosts.a.worker(), worker::Reply::Kind::kExpelled, 1));
  unlucky.detach();
  hosts.run_for(millis(1));
  EXPECT_TRUE(has_reply(hosts.a.worker(), worker::Reply::Kind::kDetached, 1));
  EXPECT_FALSE(hosts.app_a->only().is_ended);
}

TEST(Open, IsRefusedWhereNobodyListens) {
  TwoWorkers hosts;
  hosts.client_a->connect({IpAddress::v4(0x0a090002), 4444}, 77);
  ASSERT_TRUE(hosts.run_until([&] { return !hosts.app_a->others.empty(); }));
  EXPECT_EQ(hosts.app_a->others[0].event, channel::Event::kConnectFailed);
  EXPECT_EQ(hosts.app_a->others[0].status, channel::EndStatus::kRefused);
  EXPECT_EQ(hosts.app_a->others[0].body.opened.cookie, 77u);
  EXPECT_EQ(hosts.b.drops(Drop::kTcpNoConnection), 1u);
  EXPECT_EQ(hosts.b.drops(Drop::kTxUnresolved), 0u);
}

TEST(Open, FailsWhereNobodyAnswersArpOrNoRouteLeads) {
  TwoWorkers hosts;
  hosts.client_a->connect({IpAddress::v4(0x0a090063), 4444}, 1);
  hosts.client_a->connect({IpAddress::v4(0x08080808), 4444}, 2);
  ASSERT_TRUE(hosts.run_until([&] { return hosts.app_a->others.size() == 2; }));
  for (const channel::Completion& entry : hosts.app_a->others) {
    EXPECT_EQ(entry.event, channel::Event::kConnectFailed);
    EXPECT_EQ(entry.status, channel::EndStatus::kUnreachable);
    EXPECT_EQ(entry.exact, entry.body.opened.cookie == 1 ? channel::EndStatus::kNoNeighbour
                                                         : channel::EndStatus::kNoRoute);
  }
}

TEST(Open, IsCalledOffBeforeItsHandshake) {
  TwoWorkers hosts({.faults = {.loss_ppm = 1'000'000}});
  const Endpoint local{IpAddress::v4(0x0a090001), 4000};
  const Endpoint remote{IpAddress::v4(0x0a090002), 5000};
  for (uint64_t cookie = 1; cookie <= 2; ++cookie) {  // the second time only if the first is gone
    hosts.client_a->connect(remote, cookie, local);
    hosts.app_a->connecting = {};
    hosts.run_for(millis(1));
    hosts.client_a->tell(channel::Op::kAbort, hosts.app_a->connecting);
    hosts.run_for(millis(1));
    ASSERT_EQ(hosts.app_a->others.size(), cookie);
    const channel::Completion& last = hosts.app_a->others.back();
    EXPECT_EQ(last.event, channel::Event::kConnectFailed);
    EXPECT_EQ(last.status, channel::EndStatus::kAborted);
    EXPECT_EQ(last.body.opened.cookie, cookie);
  }
}

TEST(Open, TwoListenersOnOnePortAreOneTooMany) {
  TwoWorkers hosts;
  hosts.client_a->listen(5000, 1);
  hosts.client_a->listen(5000, 2);
  ASSERT_TRUE(hosts.run_until([&] { return hosts.app_a->others.size() == 2; }));
  EXPECT_EQ(hosts.app_a->others[0].event, channel::Event::kListening);
  EXPECT_EQ(hosts.app_a->others[1].event, channel::Event::kListenFailed);
  EXPECT_EQ(hosts.app_a->others[1].status, channel::EndStatus::kAddressInUse);
}

TEST(Open, PortsAreDrawnFromTheirRange) {  // RFC 6056 3.3.1
  constexpr uint64_t kCount = 20;
  TwoWorkers hosts;
  hosts.client_b->listen(5000, 1, /*backlog=*/kCount);
  hosts.run_for(millis(1));
  for (uint64_t i = 0; i < kCount; ++i) {
    hosts.client_a->connect({IpAddress::v4(0x0a090002), 5000}, i);
  }
  ASSERT_TRUE(hosts.run_until([&] { return hosts.app_a->stream_count() == kCount; }));
  hosts.run_for(millis(200));
  const worker::WorkerConfig range;
  std::vector<uint16_t> ports;
  for (const auto& [index, stream] : hosts.app_a->streams()) {
    channel::SessionView view;
    ASSERT_TRUE(hosts.a.row(index).read(view));
    EXPECT_GE(view.local_port, range.ephemeral_port_first);
    EXPECT_LE(view.local_port, range.ephemeral_port_last);
    ports.push_back(view.local_port);
  }
  std::sort(ports.begin(), ports.end());
  EXPECT_EQ(std::unique(ports.begin(), ports.end()), ports.end());
  EXPECT_GT(ports.back() - ports.front(), 1000) << "a row would be easy to guess";
}

TEST(Open, SynsBeyondTheBacklogAreDroppedAndSucceedLater) {
  HostOptions without_cookies;
  without_cookies.connection.syn_cookies = false;
  TwoWorkers hosts({}, {}, without_cookies);
  hosts.client_b->listen(5000, 1, /*backlog=*/1);
  hosts.run_for(millis(1));
  for (uint64_t i = 0; i < 4; ++i) hosts.client_a->connect({IpAddress::v4(0x0a090002), 5000}, i);
  EXPECT_TRUE(hosts.run_until([&] { return hosts.app_a->stream_count() == 4; }));
  EXPECT_GT(hosts.b.drops(Drop::kTcpBacklogFull), 0u);
}

/// All that client a may send on so many sessions, and no peer acknowledges.
void fill_sessions(TwoWorkers& hosts, uint32_t count) {
  ASSERT_TRUE(hosts.connect());
  for (uint32_t i = 1; i < count; ++i) {
    hosts.client_a->connect({IpAddress::v4(0x0a090002), 5000}, i);
    ASSERT_TRUE(hosts.run_until([&] { return hosts.app_a->stream_count() == i + 1; }));
  }
  hosts.link.set_up(false);
  for (const auto& [index, stream] : hosts.app_a->streams()) {
    for (uint32_t i = 0; i < channel::kSendsOutstandingMax; ++i) {
      if (hosts.client_a->submission_room() == 0) hosts.run_for(millis(1));
      hosts.client_a->send(stream.name, 0, 1);
    }
  }
  hosts.run_for(millis(1));
}

TEST(Sends, WithoutAnAnswerStallNoOtherClient) {
  TwoWorkers hosts;
  fill_sessions(hosts, 8);
  ChannelClient other(hosts.a.worker(), 1);
  PatternApp app(other);
  hosts.more_apps.push_back(&app);
  other.listen(6000, 1);
  EXPECT_TRUE(hosts.run_until([&] { return !app.others.empty(); }, millis(10)));
}

TEST(Sends, OfOneClientHaveABoundOverAllItsSessions) {
  constexpr uint32_t kFull = channel::kSendsPerContextMax / channel::kSendsOutstandingMax;
  for (const uint32_t sessions : {kFull, kFull + 1}) {
    const HostOptions options{.connections_max = sessions};
    TwoWorkers hosts({}, options, options);
    fill_sessions(hosts, sessions);
    EXPECT_EQ(hosts.a.stats().clients_expelled.get(), sessions > kFull ? 1u : 0u);
  }
}

TEST(Close, ByAClientThatStillHasBytesQueuedSendsThemFirst) {
  TwoWorkers hosts;
  ASSERT_TRUE(hosts.connect());
  const channel::SessionName name = hosts.app_a->only().name;
  hosts.app_a->send_pattern(name, 3, 200'000, 20'000);
  hosts.client_a->tell(channel::Op::kClose, name);
  EXPECT_TRUE(hosts.run_until([&] { return hosts.app_b->only().is_finished; }));
  EXPECT_EQ(hosts.app_b->only().received, 200'000u);
  EXPECT_TRUE(hosts.app_b->only().is_equal);
  EXPECT_TRUE(hosts.run_until([&] { return hosts.app_a->only().is_ended; }));
  EXPECT_EQ(hosts.app_a->only().sends_done, 10u);
}

channel::SessionName open_one_of(const PatternApp& app) {
  for (const auto& [index, stream] : app.streams()) {
    if (!stream.is_ended) return stream.name;
  }
  return {};
}

HostOptions four_places() {
  HostOptions few;
  few.connections_max = 4;
  return few;
}

/// a connects to b's port 5000 and closes first.
void leave_a_time_wait(TwoWorkers& hosts) {
  hosts.client_a->connect({IpAddress::v4(0x0a090002), 5000}, 1);
  channel::SessionName near;
  channel::SessionName far;
  ASSERT_TRUE(hosts.run_until([&] {
    near = open_one_of(*hosts.app_a);
    far = open_one_of(*hosts.app_b);
    return !(near == channel::SessionName{}) && !(far == channel::SessionName{});
  }));
  hosts.client_a->tell(channel::Op::kClose, near);
  ASSERT_TRUE(hosts.run_until([&] { return hosts.app_b->stream(far.index)->is_finished; }));
  hosts.client_b->tell(channel::Op::kClose, far);
  ASSERT_TRUE(hosts.run_until([&] { return hosts.app_a->stream(near.index)->is_ended; }));
}

TEST(Close, TheOldestTimeWaitGivesWayWhenAllPlacesAreTaken) {
  TwoWorkers hosts({}, four_places());
  hosts.client_b->listen(5000, 1);
  hosts.run_for(millis(1));
  for (int dialog = 1; dialog <= 10; ++dialog) {
    SCOPED_TRACE(dialog);
    ASSERT_NO_FATAL_FAILURE(leave_a_time_wait(hosts));
  }
  EXPECT_TRUE(hosts.app_a->others.empty()) << "a connect failed";
  EXPECT_EQ(hosts.a.stats().time_waits_cut.get(), 6u);
  hosts.run_for(millis(200));
  EXPECT_EQ(hosts.a.stats().time_waits.get(), 4u);
  EXPECT_EQ(hosts.b.stats().time_waits.get(), 0u);
  hosts.a.worker().check_invariants(UINT32_MAX);
  hosts.run_for(seconds(70));
  EXPECT_EQ(hosts.a.stats().time_waits.get(), 0u);
  hosts.a.worker().check_invariants(UINT32_MAX);
  EXPECT_EQ(hosts.a.stats().time_waits_cut.get(), 6u);
  EXPECT_TRUE(open_one_of(*hosts.app_a) == channel::SessionName{});
}

TEST(Close, NoTimeWaitGivesWayToASegmentThatProvesNothing) {
  const io::sim::PathOptions cut{.loss_ppm = 1'000'000};
  TwoWorkers hosts({}, four_places());
  ChannelClient caller(hosts.b.worker(), 1);
  PatternApp calls(caller);
  hosts.more_apps.push_back(&calls);
  hosts.client_a->listen(6000, 1);
  hosts.client_b->listen(5000, 1);
  hosts.run_for(millis(1));
  caller.connect({IpAddress::v4(0x0a090001), 6000}, 1);
  ASSERT_TRUE(hosts.run_until([&] { return hosts.app_a->stream_count() == 1; }));
  // b never hears of the end: what it sends is an ACK for a's listener, and of no connection.
  hosts.link.set_path(0, cut);
  hosts.client_a->tell(channel::Op::kAbort, hosts.app_a->only().name);
  hosts.run_for(millis(10));
  hosts.link.set_path(0, {});
  for (int i = 0; i < 4; ++i) ASSERT_NO_FATAL_FAILURE(leave_a_time_wait(hosts));

  hosts.link.set_path(0, cut);
  hosts.client_b->connect({IpAddress::v4(0x0a090001), 6000}, 2);
  calls.send_pattern(calls.only().name, 3, 100, 100);
  hosts.run_for(millis(100));
  EXPECT_EQ(hosts.a.stats().time_waits_cut.get(), 0u);
  hosts.link.set_path(0, {});
  EXPECT_TRUE(hosts.run_until([&] { return calls.only().is_ended; })) << "no RST";
  EXPECT_EQ(hosts.a.stats().time_waits_cut.get(), 0u);
  // The SYN goes out again, and now its sender brings the cookie back.
  EXPECT_TRUE(
      hosts.run_until([&] { return !(open_one_of(*hosts.app_a) == channel::SessionName{}); }));
  EXPECT_EQ(hosts.a.stats().time_waits_cut.get(), 1u);
}

TEST(Close, ByAbortResetsThePeerAndFinishesEverySend) {
  TwoWorkers hosts;
  ASSERT_TRUE(hosts.connect());
  const channel::SessionName name = hosts.app_a->only().name;
  hosts.app_a->send_pattern(name, 0, 400'000, 40'000);
  hosts.client_a->tell(channel::Op::kAbort, name);
  EXPECT_TRUE(hosts.run_until(
      [&] { return hosts.app_a->only().is_ended && hosts.app_b->only().is_ended; }));
  EXPECT_EQ(hosts.app_a->only().sends_done, 10u);
  EXPECT_EQ(hosts.app_b->only().status, channel::EndStatus::kReset);
}

TEST(Cable, ThatIsCutEndsTheSessionWithinTheUserTimeout) {
  HostOptions options;
  options.connection.user_timeout_ms = 3000;
  TwoWorkers hosts({}, options, options);
  ASSERT_TRUE(hosts.connect());
  hosts.link.set_up(false);
  hosts.app_a->send_pattern(hosts.app_a->only().name, 0, 10'000, 10'000);
  const Nanos cut_at = hosts.now;
  ASSERT_TRUE(hosts.run_until([&] { return hosts.app_a->only().is_ended; }, seconds(30)));
  EXPECT_EQ(hosts.app_a->only().status, channel::EndStatus::kTimedOut);
  EXPECT_LT(hosts.now - cut_at, seconds(5));
}

/// What the client was told since the last call.
std::vector<channel::Completion> completions_of(ChannelClient& client) {
  std::vector<channel::Completion> entries;
  for (auto entry = client.next(); entry.event != channel::Event::kNone; entry = client.next()) {
    entries.push_back(entry);
  }
  return entries;
}

/// The session of the first such event.
channel::SessionName session_of(channel::Event event,
                                const std::vector<channel::Completion>& entries) {
  for (const channel::Completion& entry : entries) {
    if (entry.event == event) return entry.session;
  }
  return {};
}

// All were counted as if they had been acknowledged, so no client could tell what was lost.
TEST(Cable, ThatIsCutIsTheStatusOfTheSendsThatAreLost) {
  HostOptions options;
  options.connection.user_timeout_ms = 3000;
  TwoWorkers hosts({}, options, options);
  ChannelClient caller(hosts.a.worker(), 1);
  hosts.client_b->listen(5000, 7);
  hosts.run_for(millis(1));
  caller.connect({IpAddress::v4(0x0a090002), 5000}, 9);
  hosts.run_for(millis(10));
  const auto name = session_of(channel::Event::kConnected, completions_of(caller));
  for (uint32_t i = 0; i < 2; ++i) caller.send(name, 0, 10'000);
  hosts.run_for(seconds(1));
  const auto acked = completions_of(caller);
  ASSERT_FALSE(acked.empty());
  EXPECT_EQ(acked.back().body.send_done.descriptors, 2u);
  EXPECT_EQ(acked.back().status, channel::EndStatus::kOk);
  hosts.link.set_up(false);
  for (uint32_t i = 0; i < 3; ++i) caller.send(name, 0, 10'000);
  hosts.run_for(seconds(30));
  const auto lost = completions_of(caller);
  ASSERT_EQ(lost.size(), 2u);
  EXPECT_EQ(lost[0].event, channel::Event::kSendDone);
  EXPECT_EQ(lost[0].status, channel::EndStatus::kTimedOut);
  EXPECT_EQ(lost[0].body.send_done.descriptors, 5u);
  EXPECT_EQ(lost[1].event, channel::Event::kEnded);
}

// The end waits behind bytes for which no copy block is free. A server that reads nothing until its
// sends are finished would wait for ever.
TEST(Reset, FinishesTheSendsOfAClientThatReadsNothing) {
  TwoWorkers hosts;
  ChannelClient server(hosts.b.worker(), 1, /*is_lent=*/false, 1 << 20, worker::kCopyBlockBytes);
  server.listen(5000, 7);
  hosts.run_for(millis(1));
  hosts.client_a->connect({IpAddress::v4(0x0a090002), 5000}, 9);
  ASSERT_TRUE(hosts.run_until([&] { return hosts.app_a->stream_count() == 1; }));
  const PatternApp::Stream& peer = hosts.app_a->only();
  hosts.app_a->send_pattern(peer.name, 0, 40'000, 10'000);
  ASSERT_TRUE(hosts.run_until([&] { return peer.sends_done == 4; }));
  const auto name = session_of(channel::Event::kAccepted, completions_of(server));
  hosts.link.set_path(1, {.loss_ppm = 1'000'000});
  for (uint32_t i = 0; i < 3; ++i) server.send(name, 0, 10'000);
  hosts.run_for(millis(1));
  hosts.client_a->tell(channel::Op::kAbort, peer.name);
  hosts.run_for(millis(100));
  const auto told = completions_of(server);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].event, channel::Event::kSendDone);
  EXPECT_EQ(told[0].status, channel::EndStatus::kReset);
  EXPECT_EQ(told[0].body.send_done.descriptors, 3u);
}

TEST(Shutdown, TellsEveryClientAndResetsEveryPeer) {
  TwoWorkers hosts;
  ASSERT_TRUE(hosts.connect());
  ASSERT_TRUE(hosts.a.worker().inbox().try_post({.kind = worker::Command::Kind::kShutdown}));
  EXPECT_TRUE(hosts.run_until(
      [&] { return hosts.app_a->only().is_ended && hosts.app_b->only().is_ended; }));
  EXPECT_EQ(hosts.app_a->only().status, channel::EndStatus::kShutdown);
  EXPECT_EQ(hosts.app_b->only().status, channel::EndStatus::kReset);
  EXPECT_TRUE(has_reply(hosts.a.worker(), worker::Reply::Kind::kShutDown, 0));
}

TEST(Links, OneThatComesUpIsGreeted) {
  TwoWorkers hosts;
  ASSERT_TRUE(hosts.connect());
  hosts.run_for(seconds(200));  // no host announces itself, or asks, any more
  const uint64_t before = hosts.b.stats().rx_packets.get();
  hosts.run_for(seconds(5));
  ASSERT_EQ(hosts.b.stats().rx_packets.get(), before);
  LYRE_CHECK(hosts.a.worker().inbox().try_post({.kind = worker::Command::Kind::kLinkUp}));
  hosts.run_for(millis(1));
  EXPECT_EQ(hosts.b.stats().rx_packets.get(), before + 2) << "an announcement and a probe";
  hosts.app_a->send_pattern(hosts.app_a->only().name, 0, 1'000, 1'000);
  EXPECT_TRUE(hosts.run_until([&] { return hosts.app_a->only().sends_done == 1; }));
}

// Its submissions wait for room in its completion ring, and the worker looks for room seldom.
TEST(CompletionRing, OfAClientThatReadsNothingDoesNotKeepTheWorkerAwake) {
  TwoWorkers hosts;
  worker::Worker& worker = hosts.a.worker();
  ChannelClient deaf(worker, 1);
  constexpr uint32_t kListens = channel::kCompletionEntries + channel::kSubmissionEntries;
  for (uint32_t i = 0; i < kListens; ++i) {
    ASSERT_TRUE(deaf.listen(6000, i));  // all but the first are refused
    worker.poll_once(hosts.now += micros(1));
  }
  ASSERT_EQ(deaf.submission_room(), 0u);
  EXPECT_FALSE(worker.has_waiting_work());
  const Nanos end = hosts.now + seconds(1);
  int turns = 0;
  for (; hosts.now < end; ++turns) {
    worker.poll_once(hosts.now);
    ASSERT_GT(worker.next_deadline(), hosts.now);
    hosts.now = worker.next_deadline();
  }
  EXPECT_LT(turns, 1000);
  uint32_t answers = 0;
  const auto has_all = [&] {
    while (deaf.next().event != channel::Event::kNone) ++answers;
    return answers == kListens;
  };
  EXPECT_TRUE(hosts.run_until(has_all, millis(100))) << answers;
}

TEST(Stats, ARowShowsWhatTheSessionDoes) {
  TwoWorkers hosts;
  ASSERT_TRUE(hosts.connect());
  hosts.app_a->send_pattern(hosts.app_a->only().name, 0, 100'000, 10'000);
  ASSERT_TRUE(hosts.run_until([&] { return hosts.app_a->only().sends_done == 10; }));
  hosts.run_for(millis(200));
  channel::SessionView view;
  ASSERT_TRUE(hosts.a.row(hosts.app_a->only().name.index).read(view));
  EXPECT_EQ(view.bytes_acked, 100'000u);
  EXPECT_EQ(view.remote_port, 5000u);
  EXPECT_EQ(view.state, static_cast<uint8_t>(tcp::State::kEstablished));
}

TEST(Stats, CopiesThatAClientMadeWhenReceivingAreItsSessions) {
  TwoWorkers hosts;
  ASSERT_TRUE(hosts.connect());
  const channel::SessionName reader = hosts.app_a->only().name;
  channel::SessionName stale = reader;
  stale.generation += 1;
  hosts.client_a->submit({.op = channel::Op::kRelease, .copied_bytes = 300, .session = reader});
  hosts.client_a->submit({.op = channel::Op::kRelease, .copied_bytes = 20, .session = stale});
  hosts.run_for(millis(200));
  EXPECT_EQ(hosts.a.stats().client_copied_rx_bytes.get(), 320u);
  channel::SessionView view;
  ASSERT_TRUE(hosts.a.row(reader.index).read(view));
  EXPECT_EQ(view.client_copied_rx_bytes, 300u);
  EXPECT_EQ(view.client_copied_tx_bytes, 0u);
}

TEST(Stats, AListenerHasARowWhileItIsOpen) {
  TwoWorkers hosts;
  hosts.client_a->listen(5000, 1);
  ASSERT_TRUE(hosts.run_until([&] { return !hosts.app_a->others.empty(); }));
  channel::SessionView view;
  ASSERT_TRUE(hosts.a.row(64).read(view));
  EXPECT_EQ(view.is_listener, 1u);
  EXPECT_EQ(view.local_port, 5000u);
  hosts.client_a->tell(channel::Op::kCloseListen, hosts.app_a->others[0].session);
  hosts.run_for(millis(1));
  EXPECT_FALSE(hosts.a.row(64).read(view));
}

}  // namespace
}  // namespace lyre::test
