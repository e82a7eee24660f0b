#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "stack/tcp/config.h"
#include "stack/tcp/state.h"
#include "tests/unit/tools/stats_segment.h"
#include "tools/lyre/clients.h"
#include "tools/lyre/failure.h"
#include "tools/lyre/sessions.h"
#include "tools/lyre/snapshot.h"
#include "tools/lyre/stats.h"
#include "tools/lyre/status.h"
#include "tools/lyre/text_table.h"
#include "tools/lyre/units.h"

namespace lyre::tools {
namespace {

Snapshot look(FakeSegment& segment) {
  return read_snapshot(segment.data(), segment.bytes(), FakeSegment::kNowNs);
}

TEST(Status, IsATableForPeople) {
  FakeSegment segment;
  segment.worker(0).sessions_open.set(3);
  segment.worker(0).rx_slots_free.set(8000);
  segment.worker(0).rx_slots_total.set(8192);
  segment.worker(0).polls.set(1000);
  segment.worker(0).busy_polls.set(125);
  segment.worker(1).tcp_payload_in.set(uint64_t{3} << 29);
  EXPECT_EQ(
      "lyred 0.1.0 'host-a', pid 4711, up 3m 12s\n"
      "2 workers (adaptive), ordinary pages, 1 client (5 since start)\n"
      "\n"
      "port    address       mac                 mtu  speed  a flow  link  device\n"
      "memif0  10.9.0.1/24   02:00:00:00:00:00  1500      -       -  up    net_memif0\n"
      "        fd00:9::1/64\n"
      "\n"
      "worker  sessions  time-wait  free slots  slots  received  sent  retransmitted  busy turns\n"
      "     0         3          0        8000   8192       0 B   0 B            0 B      12.5 %\n"
      "     1         0          0           0      0  1.50 GiB   0 B            0 B           -\n",
      status_text(look(segment), nullptr));
}

/// A client at two workers.
void put_client(FakeSegment& segment) {
  channel::ClientView view{};
  view.context = 1;
  view.pid = 123;
  view.uid = 1000;
  std::strcpy(view.label, "trainer");
  view.is_lent = 1;
  view.sessions = 3;
  view.listeners = 2;
  view.sends_under_way = 5;
  view.sends_max = 16384;
  view.rx_slots_held = 70;
  view.rx_slots_lent = 40;
  view.rx_slots_max = 5000;
  view.sessions_max = 3072;
  view.listeners_max = 512;
  view.regions = 2;
  view.regions_max = 4608;
  view.arena_bytes = 64 << 20;
  view.registered_bytes = 3 << 20;
  view.registered_bytes_max = uint64_t{64} << 30;
  view.user = 1000;
  view.user_contexts_max = 192;
  view.user_sessions_max = 3584;
  view.user_listeners_max = 768;
  view.user_regions_max = 5376;
  view.user_arena_bytes_max = uint64_t{16} << 30;
  view.user_registered_bytes_max = uint64_t{768} << 30;
  segment.client(0, 1).write(&view);
  view.worker = 1;
  view.rx_slots_held = 30;
  segment.client(1, 1).write(&view);
}

TEST(Clients, AreATableOfSumsForPeople) {
  FakeSegment segment;
  EXPECT_EQ("no clients\n", clients_text(look(segment), nullptr));
  put_client(segment);
  EXPECT_EQ(
      "client        uid  sessions    of  listeners   of  sends     of  slots  lent     of  full  "
      "received bytes\n"
      "trainer/123  1000         6  6144          2  512     10  32768    100    80  10000   1 %  "
      "lent\n"
      "\n"
      "client          arena  regions    of  registered        of  user\n"
      "trainer/123  64.0 MiB        2  4608    3.00 MiB  64.0 GiB  uid 1000\n"
      "\n"
      "user      contexts   of  sessions    of  listeners   of  regions    of    arenas        of  "
      "registered       of\n"
      "uid 1000         1  192         6  7168          2  768        2  5376  64.0 MiB  16.0 GiB  "
      "  3.00 MiB  768 GiB\n",
      clients_text(look(segment), nullptr));
}

// The sums are 4960 of 12960 slots: 38 %.
TEST(Clients, AtTheLimitOfOneWorkerAreFull) {
  FakeSegment segment;
  channel::ClientView view{};
  view.context = 1;
  view.rx_slots_max = 8000;
  segment.client(0, 1).write(&view);
  view.worker = 1;
  view.rx_slots_held = 4960;
  view.rx_slots_max = 4960;
  segment.client(1, 1).write(&view);
  EXPECT_NE(clients_text(look(segment), nullptr).find(" 4960     0  12960  100 %  copied\n"),
            std::string::npos)
      << clients_text(look(segment), nullptr);
}

TEST(Clients, AreJsonWithAnAccountOfEachWorker) {
  FakeSegment segment;
  put_client(segment);
  const auto json = clients_json(look(segment), nullptr);
  ASSERT_EQ(1u, json["clients"].size());
  EXPECT_EQ(1000u, json["clients"][0]["uid"]);
  EXPECT_EQ(100u, json["clients"][0]["rx_slots_held"]);
  EXPECT_EQ(30u, json["clients"][0]["workers"][1]["rx_slots_held"]);
  EXPECT_EQ(5000u, json["clients"][0]["workers"][1]["rx_slots_max"]);
  EXPECT_EQ(6144u, json["clients"][0]["sessions_max"]);
  EXPECT_EQ(512u, json["clients"][0]["listeners_max"]);
  EXPECT_EQ(3u << 20, json["clients"][0]["registered_bytes"]);
  EXPECT_EQ(4608u, json["clients"][0]["regions_max"]);
}

TEST(Clients, OfOneUserShareItsLimits) {
  FakeSegment segment;
  put_client(segment);
  channel::ClientView view{};
  ASSERT_TRUE(segment.client(0, 1).read(view));
  view.context = 0;
  view.pid = 124;
  segment.client(0, 0).write(&view);
  const auto json = clients_json(look(segment), nullptr);
  ASSERT_EQ(1u, json["users"].size());
  const auto& user = json["users"][0];
  EXPECT_EQ("uid 1000", user["user"]);
  EXPECT_EQ(2u, user["contexts"]);
  EXPECT_EQ(192u, user["contexts_max"]);
  EXPECT_EQ(128u << 20, user["arena_bytes"]);
  EXPECT_EQ(uint64_t{16} << 30, user["arena_bytes_max"]);
  EXPECT_EQ(6u << 20, user["registered_bytes"]);
  EXPECT_EQ(4u, user["regions"]);
}

TEST(Clients, OfADomainAreNotThoseOfAUid) {
  FakeSegment segment;
  put_client(segment);
  channel::ClientView view{};
  ASSERT_TRUE(segment.client(0, 1).read(view));
  view.context = 0;
  view.user = (uint64_t{1} << 32) + 1;
  segment.client(0, 0).write(&view);
  const auto json = clients_json(look(segment), nullptr);
  ASSERT_EQ(2u, json["users"].size());
  EXPECT_EQ("domain 2", json["users"][1]["user"]);
  EXPECT_EQ(1u, json["users"][1]["contexts"]);
}

TEST(Status, ShowsWhatBecameOfADevice) {
  FakeSegment segment;
  segment.port().state.store(1);
  EXPECT_NE(std::string::npos, status_text(look(segment), nullptr).find(" resetting "));
  segment.port().state.store(3);
  EXPECT_EQ("away", status_json(look(segment), nullptr)["ports"][0]["link"]);
}

TEST(Status, IsJsonForScripts) {
  FakeSegment segment;
  const auto json = status_json(look(segment), nullptr);
  EXPECT_EQ("host-a", json["name"]);
  EXPECT_EQ(192'000'000'000, json["uptime_ns"]);
  EXPECT_EQ("10.9.0.1/24", json["ports"][0]["addresses"][0]);
  EXPECT_EQ("fd00:9::1/64", json["ports"][0]["addresses"][1]);
  EXPECT_EQ(true, json["ports"][0]["link_up"]);
  EXPECT_EQ(2u, json["workers"].size());
}

TEST(Stats, LeavesZerosOut) {
  FakeSegment segment;
  segment.worker(0).rx_packets.set(10);
  segment.worker(1).rx_packets.set(5);
  segment.worker(1).drops[static_cast<size_t>(Drop::kTcpPaws)].set(2);
  EXPECT_EQ(
      "counter     worker 0  worker 1  total\n"
      "rx_packets        10         5     15  packets received\n"
      "\n"
      "dropped   worker 0  worker 1  total\n"
      "tcp_paws         0         2      2  timestamp is older than the newest seen (PAWS)\n",
      stats_text(look(segment), nullptr, {}));
}

class ManyWorkers : public ::testing::Test {
 protected:
  ManyWorkers() {
    now_.taken_unix_ns = earlier_.taken_unix_ns + 1'000'000'000;
    earlier_.workers.resize(kManyWorkers);
    now_.workers.resize(kManyWorkers);
    for (WorkerSnapshot& worker : now_.workers) {
      worker.counters.fill(1'000'000'000'000);
      worker.drops.fill(1'000'000'000'000);
    }
    now_.workers[37].counters.fill(2'000'000'000'000);
  }
  static size_t widest(const std::string& text) {
    std::istringstream lines(text);
    size_t columns = 0;
    for (std::string line; std::getline(lines, line);) columns = std::max(columns, line.size());
    return columns;
  }

  static constexpr size_t kManyWorkers = 64;
  Snapshot earlier_;
  Snapshot now_;
};

TEST_F(ManyWorkers, HaveNoColumnEach) {
  const std::string text = stats_text(now_, &earlier_, {});
  EXPECT_LE(widest(text), kStatsColumns) << text;
  EXPECT_EQ(text.find("worker 0"), std::string::npos) << text;
  EXPECT_NE(
      text.find("  65000000000000  65000000000000  2000000000000      37  packets received\n"),
      std::string::npos)
      << text;
  // The longest text goes on in the next line.
  EXPECT_NE(text.find("bytes copied because the port"), std::string::npos) << text;
}

TEST_F(ManyWorkers, HaveAColumnEachWhenAsked) {
  const std::string text = stats_text(now_, nullptr, {.has_workers = true});
  EXPECT_NE(text.find("  worker 37  "), std::string::npos) << text;
  EXPECT_EQ(text.find("largest"), std::string::npos) << text;
  EXPECT_GT(widest(text), kStatsColumns);
}

TEST_F(ManyWorkers, OfWhatNoneCountedNoneHasMost) {
  for (WorkerSnapshot& worker : now_.workers) worker = {};
  EXPECT_EQ(stats_text(now_, nullptr, {}),
            "counter  total  largest  worker\n\nnothing was dropped\n");
  const std::string text = stats_text(now_, nullptr, {.has_zeros = true});
  EXPECT_NE(text.find("polls                          0        0       -  turns of the worker's"),
            std::string::npos)
      << text;
}

TEST(TextTable, TheLastColumnGoesOnInFurtherLines) {
  TextTable table;
  table.add_column("key");
  table.add_column("");
  table.add_row({"a", "one two three"});
  table.add_row({"b", "notlessthantwentycolumns x"});
  table.add_row({"c", ""});
  EXPECT_EQ(table.text(12),
            "key\na    one two\n     three\nb    notlessthantwentycolumns\n     x\nc\n");
  EXPECT_EQ(table.text(), "key\na    one two three\nb    notlessthantwentycolumns x\nc\n");
}

TEST(Stats, ShowsWhatDevicesLost) {
  FakeSegment segment;
  const char* heading = "port    rx_missed\n";
  EXPECT_EQ(std::string::npos, stats_text(look(segment), nullptr, {}).find(heading));
  segment.port().rx_missed.set(12);
  const std::string text = stats_text(look(segment), nullptr, {});
  EXPECT_NE(std::string::npos, text.find(heading)) << text;
  EXPECT_NE(
      std::string::npos,
      text.find("memif0         12  packets that the device lost because it had no free buffer\n"))
      << text;
  const auto json = stats_json(look(segment), nullptr);
  EXPECT_EQ("memif0", json["ports"][0]["name"]);
  EXPECT_EQ(12, json["ports"][0]["rx_missed"]);
}

// A port that is away discards what it is given.
TEST(Stats, WhatAPortDoesNotSendIsNotNothing) {
  FakeSegment segment;
  segment.worker(1).tx_dropped.set(7);
  const std::string text = stats_text(look(segment), nullptr, {});
  EXPECT_EQ(text,
            "counter     worker 0  worker 1  total\n"
            "tx_dropped         0         7      7  packets taken and never sent\n");
  EXPECT_EQ(stats_json(look(segment), nullptr)["workers"][1]["counters"]["tx_dropped"], 7);
}

TEST(Stats, ShowsWhatTheDriversOfPortsCount) {
  FakeSegment segment;
  EXPECT_TRUE(stats_json(look(segment), nullptr)["ports"][0]["device"].empty());
  channel::StatsPort& port = segment.port();
  std::strcpy(port.device_counters[0].name, "rx_q0_errors");  // zero by now
  std::strcpy(port.device_counters[1].name, "bw_out_allowance_exceeded");
  port.device_counters[1].value.set(31);
  port.device_counter_count.store(2);
  const std::string text = stats_text(look(segment), nullptr, {});
  EXPECT_NE(std::string::npos, text.find("memif0  bw_out_allowance_exceeded     31\n")) << text;
  EXPECT_EQ(std::string::npos, text.find("rx_q0_errors"));
  EXPECT_EQ(31,
            stats_json(look(segment), nullptr)["ports"][0]["device"]["bw_out_allowance_exceeded"]);
  port.device_counter_count.store(UINT32_MAX);  // a daemon that lies
  EXPECT_EQ(1u, look(segment).ports[0].device_counters.size());
}

TEST(Stats, ShowsEveryCounterWhenAsked) {
  FakeSegment segment;
  EXPECT_NE(std::string::npos, stats_text(look(segment), nullptr, {}).find("nothing was dropped"));
  const std::string all = stats_text(look(segment), nullptr, {.has_zeros = true});
  for (const CounterText& counter : kWorkerCounters) {
    EXPECT_NE(std::string::npos, all.find(counter.text)) << counter.key;
  }
  for (const DropText& drop : kDropTexts) EXPECT_NE(std::string::npos, all.find(drop.key));
  const auto json = stats_json(look(segment), nullptr);
  EXPECT_EQ(kWorkerCounterCount, json["workers"][1]["counters"].size());
  EXPECT_EQ(kDropCount, json["workers"][1]["drops"].size());
}

TEST(Sessions, LookLikeSs) {
  FakeSegment segment;
  const channel::SessionView view = FakeSegment::connection();
  segment.row(1, 2).write(&view);
  channel::SessionView listener{};
  FakeSegment::put_address("10.9.0.1", listener.local_address);
  listener.local_port = 5000;
  listener.is_listener = 1;
  listener.pid = 123;
  std::strcpy(listener.label, "trainer");
  segment.row(0, 0).write(&listener);
  EXPECT_EQ(
      "LISTEN       10.9.0.1:5000  worker 0  trainer/123\n"
      "ESTABLISHED  10.9.0.1:5000 -> 10.9.0.2:43210  worker 1  trainer/123\n"
      "    newreno  cwnd 1.00 MiB  rtt 23.4 us (min 12.0 us)  rto 200 ms  mss 1448  in flight 64.0 "
      "KiB  "
      "queued 0 B (unsent 0 B)  peer's window 3.00 MiB  limited by application\n"
      "    sent 10.0 GiB (acknowledged 10.00 GiB) at 8.59 Gb/s  received 1.16 GiB at 1.00 Gb/s  "
      "retransmitted 0 B (0 timeouts, 0 recoveries, 0 undone, 0 marks)\n"
      "    waits for window probe 150 ms (2 backoffs)  ssthresh 512 KiB  rtt var 3.40 us  age 10.0 "
      "s"
      "  sent 5.00 ms ago  heard never\n"
      "    segments 7000000 out, 900000 in, 12 out of order, 3 duplicate  timestamps scaling  "
      "received and kept 0 B  uid 1000\n"
      "    lent 7 slots  window 2.00 MiB  zero copy 100.0 %\n"
      "    copied 0 B out and 0 B in by the worker, 0 B out and 0 B in by the client\n"
      "in all, since the daemon started: copied 0 B out and 0 B in by the workers, 0 B out and 0 B "
      "in "
      "by the clients, 0 B out by ports (what a virtual wire copies is not counted)\n",
      sessions_text(look(segment), nullptr));
}

TEST(Sessions, RatesComeFromTwoLooks) {
  FakeSegment segment;
  channel::SessionView view = FakeSegment::connection();
  segment.row(1, 2).write(&view);
  const Snapshot earlier = look(segment);
  view.bytes_sent += 1'000'000;
  view.updated_unix_ns += 1'000'000'000;
  segment.row(1, 2).write(&view);
  const int64_t taken_ns = view.updated_unix_ns;
  const SessionRates rates = rates_of(view, taken_ns, &earlier);
  EXPECT_DOUBLE_EQ(8e6, rates.sent_bits_per_s);
  EXPECT_DOUBLE_EQ(0, rates.received_bits_per_s);
  EXPECT_EQ(8e6, session_json(view, taken_ns, &earlier)["sent_bits_per_s"]);
  EXPECT_FALSE(session_json(view, taken_ns, nullptr).contains("sent_bits_per_s"));
  view.opened_unix_ns += 1;  // another connection in the same row
  EXPECT_NE(8e6, rates_of(view, taken_ns, &earlier).sent_bits_per_s);
}

// An idle worker writes no rows. Its sessions stayed as young as at its last pass.
TEST(Sessions, OfAnIdleWorkerHaveTheTimesOfTheLook) {
  constexpr int64_t kHourNs = 3'600'000'000'000;
  FakeSegment segment;
  channel::SessionView view = FakeSegment::connection();
  view.opened_unix_ns = FakeSegment::kNowNs - 2 * kHourNs;
  view.updated_unix_ns = view.last_heard_unix_ns = view.last_sent_unix_ns =
      FakeSegment::kNowNs - kHourNs;
  view.waiting_until_unix_ns = FakeSegment::kNowNs - 1'000'000;
  segment.row(1, 2).write(&view);
  const std::string text = sessions_text(look(segment), nullptr);
  const std::string hour = format_duration(kHourNs) + " ago";
  EXPECT_NE(std::string::npos, text.find("  sent " + hour + "  heard " + hour + "\n")) << text;
  EXPECT_NE(std::string::npos, text.find("  age " + format_duration(2 * kHourNs) + "  ")) << text;
  EXPECT_NE(std::string::npos, text.find("    waits for window probe due (2 backoffs)")) << text;
}

/// The look at a session whose worker was idle for 5 s. `view` is its row 0.9 s later, after 125
/// MB.
Snapshot look_while_idle(FakeSegment& segment, channel::SessionView& view) {
  view.updated_unix_ns = FakeSegment::kNowNs - 5'000'000'000;
  segment.row(1, 2).write(&view);
  Snapshot earlier = look(segment);
  view.bytes_sent += 125'000'000;
  view.updated_unix_ns = FakeSegment::kNowNs + 900'000'000;
  return earlier;
}

// The rate was the mean since the row of before, so that of a session that began to send was small.
TEST(Sessions, OfAnIdleWorkerHaveRatesSinceTheEarlierLook) {
  FakeSegment segment;
  channel::SessionView view = FakeSegment::connection();
  const Snapshot earlier = look_while_idle(segment, view);
  EXPECT_NEAR(rates_of(view, FakeSegment::kNowNs + 1'000'000'000, &earlier).sent_bits_per_s, 1e9,
              1e8);
  // A clock that makes no sense does not divide by nothing.
  view.updated_unix_ns = FakeSegment::kNowNs - 4'000'000'000;
  EXPECT_DOUBLE_EQ(1e9, rates_of(view, view.updated_unix_ns, &earlier).sent_bits_per_s);
}

// The end of the rate was the last row, so that of a session that ceased to send was large.
TEST(Sessions, OfAWorkerThatWentIdleHaveRatesUntilTheLaterLook) {
  FakeSegment segment;
  channel::SessionView view = FakeSegment::connection();
  const Snapshot earlier = look_while_idle(segment, view);
  const int64_t taken_ns = FakeSegment::kNowNs + 10'000'000'000;
  EXPECT_DOUBLE_EQ(1e8, rates_of(view, taken_ns, &earlier).sent_bits_per_s);
  EXPECT_EQ(1e8, session_json(view, taken_ns, &earlier)["sent_bits_per_s"]);
}

// The rate of a row that was 200 ms old was too large: the bytes of 1 s counted for 850 ms.
TEST(Sessions, OfABusyWorkerHaveRatesSinceTheirRowWasWritten) {
  FakeSegment segment;
  channel::SessionView view = FakeSegment::connection();
  view.updated_unix_ns = FakeSegment::kNowNs - 200'000'000;
  segment.row(1, 2).write(&view);
  const Snapshot earlier = look(segment);
  view.bytes_sent += 125'000'000;
  view.updated_unix_ns += 1'000'000'000;
  EXPECT_DOUBLE_EQ(1e9,
                   rates_of(view, FakeSegment::kNowNs + 1'000'000'000, &earlier).sent_bits_per_s);
}

// With more than 16384 connections of a worker those without a row were left out without a word.
TEST(Sessions, SayHowManyHaveNoRow) {
  FakeSegment segment;
  EXPECT_EQ("", without_row_text(look(segment)));
  EXPECT_EQ(0, sessions_json(look(segment))["sessions_without_row"]);
  segment.worker(0).sessions_without_row.set(3616);
  segment.worker(1).sessions_without_row.set(4);
  const std::string line = without_row_text(look(segment));
  EXPECT_TRUE(line.starts_with("3620 connections have no row: ")) << line;
  EXPECT_NE(std::string::npos, sessions_text(look(segment), nullptr).find(line));
  EXPECT_EQ(3620, sessions_json(look(segment))["sessions_without_row"]);
}

TEST(Sessions, SayHowMuchWasCopied) {
  channel::SessionView view = FakeSegment::connection();
  EXPECT_DOUBLE_EQ(1, zero_copy_share(view));
  view.copied_tx_bytes = (view.bytes_sent + view.bytes_received) / 4;
  EXPECT_NEAR(0.75, zero_copy_share(view), 1e-9);
  view.copied_rx_bytes = UINT64_MAX / 2;
  EXPECT_DOUBLE_EQ(0, zero_copy_share(view));
}

TEST(Sessions, SayWhoCopied) {
  FakeSegment segment;
  channel::SessionView view = FakeSegment::connection();
  view.copied_tx_bytes = 1024;
  view.copied_rx_bytes = 2048;
  view.client_copied_tx_bytes = 3072;
  view.client_copied_rx_bytes = 4096;
  segment.row(1, 2).write(&view);
  segment.worker(0).client_copied_rx_bytes.add(1024);
  segment.worker(1).client_copied_rx_bytes.add(4096);
  segment.worker(1).tx_linearised_bytes.add(512);
  const std::string text = sessions_text(look(segment), nullptr);
  EXPECT_NE(std::string::npos, text.find("copied 1.00 KiB out and 2.00 KiB in by the worker, "
                                         "3.00 KiB out and 4.00 KiB in by the client\n"))
      << text;
  EXPECT_NE(std::string::npos, text.find("0 B out and 5.00 KiB in by the clients, 512 B out by"))
      << text;
  EXPECT_EQ(4096u, session_json(view, FakeSegment::kNowNs, nullptr)["client_copied_rx_bytes"]);
  const auto json = sessions_json(look(segment));
  EXPECT_EQ(5120u, json["copied"]["clients_rx_bytes"]);
  EXPECT_EQ(512u, json["copied"]["ports_tx_bytes"]);
}

// A domain's segment has no counters, and they were shown as zeros.
TEST(Sessions, OfADomainHaveNoSumsOfAllWorkers) {
  FakeSegment segment;
  segment.header().is_domain = 1;
  const channel::SessionView view = FakeSegment::connection();
  segment.row(1, 2).write(&view);
  const std::string text = sessions_text(look(segment), nullptr);
  EXPECT_NE(std::string::npos, text.find("    copied 0 B out and 0 B in by the worker, ")) << text;
  EXPECT_EQ(std::string::npos, text.find("in all, since the daemon started")) << text;
  const auto json = sessions_json(look(segment));
  EXPECT_TRUE(json.contains("sessions"));
  EXPECT_FALSE(json.contains("copied"));
  EXPECT_FALSE(json.contains("sessions_without_row"));
}

TEST(Sessions, WhatWasNeverSentIsShown) {
  FakeSegment segment;
  channel::SessionView view = FakeSegment::connection();
  view.send_queue_bytes = 64 * 1024;
  view.unsent_bytes = 16 * 1024;
  segment.row(1, 2).write(&view);
  const std::string text = sessions_text(look(segment), nullptr);
  EXPECT_NE(std::string::npos, text.find("  queued 64.0 KiB (unsent 16.0 KiB)  ")) << text;
  EXPECT_EQ(16 * 1024, session_json(view, FakeSegment::kNowNs, nullptr)["unsent_bytes"]);
}

TEST(Sessions, NoneIsALineToo) {
  FakeSegment segment;
  EXPECT_TRUE(sessions_text(look(segment), nullptr).starts_with("no sessions\n"));
  EXPECT_EQ(0u, sessions_json(look(segment))["sessions"].size());
}

TEST(Sessions, StatesHaveTheEnginesNames) {
  channel::SessionView view{};
  for (uint32_t state = 0; state < tcp::kStateCount; ++state) {
    view.state = static_cast<uint8_t>(state);
    EXPECT_STREQ(tcp::state_name(static_cast<tcp::State>(state)), session_state_name(view));
  }
  view.state = 200;
  EXPECT_STREQ("?", session_state_name(view));
}

TEST(Sessions, CongestionControlsHaveTheConfigurationsNames) {
  channel::SessionView view{};
  const auto name = [&](tcp::CongestionAlgorithm algorithm) {
    view.congestion = static_cast<uint8_t>(algorithm);
    return std::string(session_congestion_name(view));
  };
  EXPECT_EQ("cubic", name(tcp::CongestionAlgorithm::kCubic));
  EXPECT_EQ("newreno", name(tcp::CongestionAlgorithm::kNewReno));
  EXPECT_EQ("dctcp", name(tcp::CongestionAlgorithm::kDctcp));
  view.congestion = 200;
  EXPECT_STREQ("?", session_congestion_name(view));
}

TEST(Snapshot, RefusesASegmentThatDescribesMoreThanItHolds) {
  const auto refused = [](auto distort) {
    FakeSegment segment;
    distort(segment.header());
    EXPECT_THROW(look(segment), Failure);
  };
  refused([](auto& header) { header.worker_count = 1000; });
  refused([](auto& header) { header.session_rows = UINT32_MAX; });
  refused([](auto& header) { header.ports_offset = UINT64_MAX; });
  refused([](auto& header) { header.workers_offset += 4; });
  FakeSegment segment;
  EXPECT_THROW(read_snapshot(segment.data(), 16, 0), Failure);
}

}  // namespace
}  // namespace lyre::tools
