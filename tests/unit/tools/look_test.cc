#include "tools/lyre/look.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/unit/tools/stats_segment.h"
#include "tools/lyre/clients.h"
#include "tools/lyre/json_document.h"
#include "tools/lyre/stats.h"
#include "tools/lyre/status.h"

namespace lyre::tools {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

/// A look that many seconds after FakeSegment::kNowNs.
Snapshot look_after(FakeSegment& segment, int64_t seconds) {
  return read_snapshot(segment.data(), segment.bytes(), FakeSegment::kNowNs + seconds * kSecondNs);
}

TEST(Look, RatesAreOfTheInterval) {
  EXPECT_DOUBLE_EQ(per_second(100, 300, 2 * kSecondNs), 100);
  EXPECT_DOUBLE_EQ(per_second(100, 300, 0), 0);
  EXPECT_DOUBLE_EQ(per_second(300, 100, kSecondNs), 0);
}

TEST(Look, TwoRunsOfADaemonAreNotCompared) {
  FakeSegment segment;
  const Snapshot earlier = look_after(segment, 0);
  EXPECT_EQ(of_same_run(look_after(segment, 1), &earlier), &earlier);
  EXPECT_EQ(of_same_run(look_after(segment, 1), nullptr), nullptr);
  segment.header().started_unix_ns += 1;
  EXPECT_EQ(of_same_run(look_after(segment, 1), &earlier), nullptr);
}

TEST(Look, WhatADaemonLeftSaysWhoseItWasAndWhenItEnded) {
  ::setenv("TZ", "UTC", 1);
  FakeSegment segment;
  Snapshot left = look_after(segment, 0);
  EXPECT_EQ(past_text(left), "");
  EXPECT_TRUE(past_json(left).empty());
  left.is_past = true;
  const std::string whose =
      "left by lyred 0.1.0 'host-a', process 4711, started 2023-11-14 22:13:20, ";
  const std::string clock =
      "; times are by its clock: the wall clock at its start, without later steps\n";
  EXPECT_EQ(past_text(left), whose + "died 2023-11-14 22:16:32" + clock);
  left.has_stopped = true;
  EXPECT_EQ(past_text(left), whose + "stopped 2023-11-14 22:16:32" + clock);
  EXPECT_EQ(past_json(left)["last_daemon"]["ended_unix_ns"], FakeSegment::kNowNs);
}

TEST(Look, TheDaemonsClockTellsTheTime) {
  FakeSegment segment;
  segment.header().unix_offset_ns = FakeSegment::kStartedNs - 5 * kSecondNs;
  const Snapshot taken = read_snapshot(segment.data(), segment.bytes(), 12 * kSecondNs);
  EXPECT_EQ(taken.taken_unix_ns, FakeSegment::kStartedNs + 7 * kSecondNs);
  EXPECT_EQ(status_json(taken, nullptr)["uptime_ns"], 7 * kSecondNs);
}

TEST(Look, StatusHasTheRatesOfTheInterval) {
  FakeSegment segment;
  segment.worker(0).tcp_payload_in.set(uint64_t{5} << 30);
  segment.worker(0).polls.set(1000);
  segment.worker(0).busy_polls.set(1000);
  const Snapshot earlier = look_after(segment, 0);
  segment.worker(0).tcp_payload_in.add(500'000'000);
  segment.worker(0).polls.add(400);
  segment.worker(0).busy_polls.add(100);
  const Snapshot now = look_after(segment, 2);
  const std::string text = status_text(now, &earlier);
  EXPECT_NE(text.find("2.00 Gb/s  0 b/s          0 b/s      25.0 %\n"), std::string::npos) << text;
  EXPECT_EQ(status_json(now, &earlier)["workers"][0]["received_bits_per_s"], 2e9);
  EXPECT_FALSE(status_json(now, nullptr)["workers"][0].contains("received_bits_per_s"));
}

TEST(Look, StatusNamesAPortThatGoesThroughTheHost) {
  FakeSegment segment;
  const auto shows_host_path = [&segment] {
    return status_text(look_after(segment, 0), nullptr).find("up, host path  net_memif0\n") !=
           std::string::npos;
  };
  const auto json = [&segment] { return status_json(look_after(segment, 0), nullptr)["ports"][0]; };
  EXPECT_FALSE(shows_host_path());
  EXPECT_EQ(json()["on_host_path"], false);
  std::strcpy(segment.port().device_counters[0].name, "on_host_path");
  segment.port().device_counters[0].value.set(1);
  segment.port().device_counter_count.store(1);
  EXPECT_TRUE(shows_host_path());
  EXPECT_EQ(json()["on_host_path"], true);
  EXPECT_EQ(json()["link"], "up");
  segment.port().device_counters[0].value.set(0);  // the virtual function is back
  EXPECT_FALSE(shows_host_path());
}

// They were counted from rows, which not all connections have.
TEST(Look, StatusCountsTimeWaitApart) {
  FakeSegment segment;
  segment.worker(1).sessions_open.set(20'000);
  segment.worker(1).time_waits.set(18'000);
  const auto json = status_json(look_after(segment, 0), nullptr);
  EXPECT_EQ(json["workers"][1]["sessions_open"], 2000);
  EXPECT_EQ(json["workers"][1]["time_waits"], 18'000);
  segment.worker(1).sessions_open.set(0);  // the other one is not written yet
  EXPECT_EQ(status_json(look_after(segment, 0), nullptr)["workers"][1]["sessions_open"], 0);
}

TEST(Look, StatusShowsAWorkerWhoseCoreWasTaken) {
  FakeSegment segment;
  const auto text = [&segment] { return status_text(look_after(segment, 0), nullptr); };
  EXPECT_EQ(text().find("its core was taken"), std::string::npos);
  segment.worker(1).is_core_lost.set(1);
  EXPECT_TRUE(
      text().ends_with("worker 1: its core was taken from the daemon; the log says which\n"));
  const auto workers = status_json(look_after(segment, 0), nullptr)["workers"];
  EXPECT_EQ(workers[0]["is_core_lost"], false);
  EXPECT_EQ(workers[1]["is_core_lost"], true);
}

TEST(Look, StatusAndStatsMeanTheSameByAKey) {
  FakeSegment segment;
  segment.worker(1).sessions_open.set(3);
  segment.worker(1).time_waits.set(1);
  const Snapshot now = look_after(segment, 0);
  const auto status = status_json(now, nullptr)["workers"][1];
  const auto stats = stats_json(now, nullptr)["workers"][1];
  EXPECT_EQ(stats["sessions_open"], 2);
  for (const char* key : {"sessions_open", "time_waits"}) EXPECT_EQ(stats[key], status[key]) << key;
}

TEST(Look, StatsHaveTheGrowthOfAllWorkers) {
  FakeSegment segment;
  segment.worker(0).rx_packets.set(1000);
  const Snapshot earlier = look_after(segment, 0);
  segment.worker(0).rx_packets.add(30);
  segment.worker(1).rx_packets.add(11);
  const Snapshot now = look_after(segment, 2);
  EXPECT_TRUE(
      stats_text(now, &earlier, {})
          .starts_with("counter     worker 0  worker 1  total  a second\n"
                       "rx_packets      1030        11   1041        20  packets received"));
  const auto worker = stats_json(now, &earlier)["workers"][0];
  EXPECT_EQ(worker["per_second"]["counters"]["rx_packets"], 15.0);
  EXPECT_EQ(worker["per_second"]["drops"]["tcp_paws"], 0.0);
}

TEST(Look, OfADomainNoCountersAreShown) {
  FakeSegment segment;
  segment.header().is_domain = 1;
  const Snapshot domain = look_after(segment, 0);
  EXPECT_EQ(stats_text(domain, nullptr, {.has_zeros = true}), kNotShown);
  EXPECT_TRUE(stats_json(domain, nullptr)["workers"].empty());
  EXPECT_TRUE(status_text(domain, nullptr).ends_with(std::string("\nworkers: ") + kNotShown));
  EXPECT_TRUE(status_json(domain, nullptr)["workers"].empty());
  EXPECT_EQ(status_json(domain, nullptr)["ports"].size(), 1u);
}

TEST(Look, ClientsHaveTheRatesOfTheirSessions) {
  FakeSegment segment;
  channel::ClientView client{};
  client.context = 1;
  client.pid = 123;
  std::strcpy(client.label, "trainer");
  segment.client(0, 1).write(&client);
  channel::SessionView view = FakeSegment::connection();
  view.context = 1;
  segment.row(1, 2).write(&view);
  view.remote_port += 1;
  segment.row(1, 3).write(&view);
  view.context = 0;  // of another client of the process
  segment.row(0, 0).write(&view);
  const Snapshot earlier = look_after(segment, 0);
  for (auto* row : {&segment.row(1, 2), &segment.row(1, 3), &segment.row(0, 0)}) {
    ASSERT_TRUE(row->read(view));
    view.bytes_sent += 1'000'000;
    view.updated_unix_ns += kSecondNs;
    row->write(&view);
  }
  const Snapshot now = look_after(segment, 1);
  EXPECT_EQ(clients_json(now, &earlier)["clients"][0]["sent_bits_per_s"], 16e6);
  EXPECT_NE(clients_text(now, &earlier).find("16.0 Mb/s     0 b/s  copied\n"), std::string::npos);
}

TEST(JsonDocument, BeginsWithItsSchema) {
  EXPECT_EQ(json_text(document_of({{"a", 1}}), true), "{\"schema\":1,\"a\":1}\n");
  EXPECT_EQ(json_text(document_of({{"a", 1}}), false), "{\n  \"schema\": 1,\n  \"a\": 1\n}\n");
}

// Programs read it, and a document of 100 000 sessions is never whole in memory.
TEST(JsonDocument, IsPrintedInPartsAsItIsWhole) {
  const auto item_of = [](size_t index) {
    return nlohmann::ordered_json{{"index", index},
                                  {"label", "a\n\xff\"{"},
                                  {"list", {1, {{"deep", nullptr}}}},
                                  {"none", nlohmann::ordered_json::array()}};
  };
  for (const size_t count : {0u, 1u, 3u}) {
    nlohmann::ordered_json whole = document_of({{"taken", 1},
                                                {"sessions", nlohmann::ordered_json::array()},
                                                {"copied", {{"bytes", 2.5}, {"of", {1, 2}}}},
                                                {"empty", nlohmann::ordered_json::object()}});
    const nlohmann::ordered_json parts = whole;
    for (size_t i = 0; i < count; ++i) whole["sessions"].push_back(item_of(i));
    for (const bool is_one_line : {true, false}) {
      std::ostringstream out;
      print_json(out, parts, is_one_line, {.key = "sessions", .count = count, .item = item_of});
      EXPECT_EQ(out.str(), json_text(whole, is_one_line));
      std::ostringstream at_once;
      print_json(at_once, whole, is_one_line);
      EXPECT_EQ(at_once.str(), json_text(whole, is_one_line));
    }
  }
}

TEST(JsonDocument, OfMovedMembersHasTheirOrder) {
  nlohmann::ordered_json to = {{"a", 1}, {"b", 2}};
  move_members({{"c", 3}, {"a", {4, 5}}}, to);
  EXPECT_EQ(json_text(to, true), "{\"a\":[4,5],\"b\":2,\"c\":3}\n");
}

TEST(JsonDocument, ALabelOfAnyBytesIsPrinted) {
  EXPECT_NE(json_text({{"label", "\xff"}}, true).find("\"label\""), std::string::npos);
}

}  // namespace
}  // namespace lyre::tools
