#include "tools/lyre/trace.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "stack/channel/abi.h"
#include "tests/unit/tools/stats_segment.h"
#include "tools/lyre/failure.h"

namespace lyre::tools {
namespace {

using channel::TraceKind;

constexpr int64_t kOpenedUs = (FakeSegment::kNowNs - 10'000'000'000) / 1000;

class TraceTest : public ::testing::Test {
 protected:
  TraceTest() {
    ::setenv("TZ", "UTC", 1);
    const channel::SessionView open = FakeSegment::connection();
    segment_.row(1, 2).write(&open);
    channel::TraceRing& ring = segment_.trace(1, 2);
    ring.begin(open.opened_unix_ns);
    ring.push({kOpenedUs, TraceKind::kOpened, 1, 1448});
    ring.push({kOpenedUs + 25, TraceKind::kState, 3, 1448});
    ring.push({kOpenedUs + 1025, TraceKind::kFastRecovery, 14'600, UINT32_MAX});

    channel::EndedView ended{};
    ended.session = FakeSegment::connection();
    ended.session.remote_port = 9;
    ended.session.state = 0;
    ended.ended_unix_ns = FakeSegment::kNowNs;
    ended.status = 3;
    ended.event_count = 2;
    ended.events[0] = {kOpenedUs, TraceKind::kDropped, static_cast<uint32_t>(Drop::kTcpPaws), 12};
    ended.events[1] = {kOpenedUs + 1, TraceKind::kEnded, 3, 0};
    segment_.ended(0, 1).write(&ended);
  }
  std::vector<SessionTrace> named(const std::string& name) const {
    auto traces = read_traces(segment_.data(), FakeSegment::bytes(), traces_of(name));
    sort_by_end(traces);
    return traces;
  }

  FakeSegment segment_;
};

TEST_F(TraceTest, ASessionIsNamedByItsPeerOrItsOwnPort) {
  EXPECT_EQ(named("10.9.0.2").size(), 2u);
  EXPECT_EQ(named("10.9.0.2:43210").size(), 1u);
  EXPECT_EQ(named("10.9.0.2:9").size(), 1u);
  EXPECT_EQ(named(":5000").size(), 2u);
  EXPECT_EQ(named("10.9.0.1:5000").size(), 2u);
  EXPECT_TRUE(named("10.9.0.2:1").empty());
  EXPECT_TRUE(named("5000").empty());
}

// A daemon may have 100 000 sessions, each with a ring of events.
TEST_F(TraceTest, OfSessionsThatAreNotWantedNothingIsCopied) {
  std::vector<std::pair<uint16_t, bool>> asked;
  const auto traces = read_traces(segment_.data(), FakeSegment::bytes(),
                                  [&asked](const channel::SessionView& view, bool is_ended) {
                                    asked.emplace_back(view.remote_port, is_ended);
                                    return is_ended;
                                  });
  EXPECT_EQ(asked, (std::vector<std::pair<uint16_t, bool>>{{43210, false}, {9, true}}));
  ASSERT_EQ(traces.size(), 1u);
  EXPECT_EQ(traces[0].events.size(), 2u);
}

TEST_F(TraceTest, WithoutANameThoseThatEndedBadlyAreShown) {
  EXPECT_EQ(ended_text(named(""), 0),
            "ended                       local          peer        owner        why\n"
            "2023-11-14 22:16:32.000000  10.9.0.1:5000  10.9.0.2:9  trainer/123  "
            "the peer did not answer\n");
  EXPECT_EQ(ended_text({}, 0), "no session ended badly\n");
}

TEST_F(TraceTest, EachEventHasALine) {
  EXPECT_EQ(trace_text(named("10.9.0.2:43210"), 0),
            "10.9.0.1:5000 -> 10.9.0.2:43210  worker 1  trainer/123  ESTABLISHED\n"
            "time                after  event\n"
            "22:16:22.000000     +0 ns  opened                     by the peer, mss 1.41 KiB\n"
            "22:16:22.000025  +25.0 us  state                      ESTABLISHED, mss 1.41 KiB\n"
            "22:16:22.001025  +1.00 ms  loss found: fast recovery  "
            "cwnd 14.3 KiB, ssthresh none\n");
  EXPECT_EQ(trace_text(named("10.9.0.2:9"), 0),
            "10.9.0.1:5000 -> 10.9.0.2:9  worker 1  trainer/123  ended: the peer did not answer\n"
            "time                after  event\n"
            "22:16:22.000000     +0 ns  segment not used  "
            "timestamp is older than the newest seen (PAWS), count 12\n"
            "22:16:22.000001  +1.00 us  ended             the peer did not answer\n");
}

// The journal and `lyre pcap` have the times of the wall clock.
TEST_F(TraceTest, TimesAreThoseOfTheWallClockAlsoAfterItWasStepped) {
  constexpr int64_t kStepNs = 3'600'000'001'000;
  EXPECT_NE(ended_text(named(""), kStepNs).find("\n2023-11-14 23:16:32.000001  "),
            std::string::npos);
  const std::string text = trace_text(named("10.9.0.2:43210"), kStepNs);
  EXPECT_NE(text.find("\n23:16:22.000001     +0 ns  opened "), std::string::npos) << text;
  EXPECT_NE(text.find("\n23:16:22.001026  +1.00 ms  loss found"), std::string::npos) << text;
  EXPECT_NE(trace_text(named("10.9.0.2:43210"), -kStepNs).find("\n21:16:21.999999 "),
            std::string::npos);
}

// A handshake that is not complete, and a TIME-WAIT.
TEST_F(TraceTest, WhatIsNotKnownIsNotShown) {
  channel::SessionView view = FakeSegment::connection();
  view.pid = 0;
  view.label[0] = '\0';
  segment_.row(1, 2).write(&view);
  segment_.trace(1, 2).begin(view.opened_unix_ns);
  segment_.trace(1, 2).push({kOpenedUs, TraceKind::kOpened, 0, 0});
  segment_.trace(1, 2).push({kOpenedUs, TraceKind::kState, 1, 0});
  EXPECT_EQ(trace_text(named("10.9.0.2:43210"), 0),
            "10.9.0.1:5000 -> 10.9.0.2:43210  worker 1  -  ESTABLISHED\n"
            "time             after  event\n"
            "22:16:22.000000  +0 ns  opened  by this side\n"
            "22:16:22.000000  +0 ns  state   SYN-SENT\n");
  const auto events = trace_json(named("10.9.0.2:43210"))["sessions"][0]["events"];
  EXPECT_FALSE(events[0].contains("mss_bytes"));
  EXPECT_FALSE(events[1].contains("mss_bytes"));
}

TEST_F(TraceTest, APeerThatCannotBeReachedHasItsReason) {
  channel::EndedView ended{};
  ended.session = FakeSegment::connection();
  std::set<std::string> keys;
  for (auto status = channel::EndStatus::kOk; status <= channel::EndStatus::kAddressLost;
       status = static_cast<channel::EndStatus>(static_cast<int>(status) + 1)) {
    ended.status = static_cast<uint8_t>(status);
    segment_.ended(0, 1).write(&ended);
    const auto json = trace_json(named("10.9.0.2"))["sessions"];
    EXPECT_TRUE(keys.insert(json[0]["status"].get<std::string>()).second) << json[0]["status"];
  }
  EXPECT_EQ(keys.count("?"), 0u);
  EXPECT_EQ(keys.count("no_neighbour"), 1u);
}

TEST_F(TraceTest, JsonHasTheNumbers) {
  const auto json = trace_json(named("10.9.0.2"))["sessions"];
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[0]["status"], "timed_out");  // what is open comes last
  EXPECT_EQ(json[0]["events"][0]["reason"], "tcp_paws");
  EXPECT_EQ(json[0]["events"][0]["count"], 12);
  EXPECT_FALSE(json[1].contains("status"));
  EXPECT_EQ(json[1]["events"][0]["is_passive"], true);
  EXPECT_EQ(json[1]["events"][1]["state"], "ESTABLISHED");
  EXPECT_EQ(json[1]["events"][2]["event"], "fast_recovery");
  EXPECT_EQ(json[1]["events"][2]["unix_ns"], (kOpenedUs + 1025) * 1000);
  EXPECT_EQ(json[1]["events"][2]["cwnd_bytes"], 14'600);
}

TEST_F(TraceTest, ARingOfTheSessionBeforeIsNotShown) {
  channel::SessionView next = FakeSegment::connection();
  next.opened_unix_ns += 5;
  segment_.row(1, 2).write(&next);
  ASSERT_EQ(named("10.9.0.2:43210").size(), 1u);
  EXPECT_TRUE(named("10.9.0.2:43210")[0].events.empty());
}

TEST_F(TraceTest, ADomainsSegmentHasNone) {
  segment_.header().trace_rings = 0;
  EXPECT_THROW(named(""), Failure);
}

}  // namespace
}  // namespace lyre::tools
