#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/unit/tools/stats_segment.h"
#include "tools/lyre/top/screen_text.h"

namespace lyre::tools {
namespace {

constexpr int64_t kTopSecondNs = 1'000'000'000;

class TopTest : public ::testing::Test {
 protected:
  TopTest() {
    ::setenv("TZ", "UTC", 1);
    for (uint32_t worker = 0; worker < FakeSegment::kWorkers; ++worker) {
      segment_.worker(worker).rx_slots_total.set(16384);
      segment_.worker(worker).rx_slots_free.set(16000);
    }
    channel::ClientView client{};
    client.pid = 123;
    client.sessions = 2;
    client.rx_slots_held = 7;
    std::strcpy(client.label, "trainer");
    segment_.client(0, 1).write(&client);
    add_session(0, 0, 1'000'000, 50'000);
    add_session(1, 0, 2'000'000, 20'000);
  }
  void add_session(uint32_t worker, uint32_t row, uint64_t sent, int64_t srtt_ns) {
    channel::SessionView view = FakeSegment::connection();
    view.worker = worker;
    view.remote_port = static_cast<uint16_t>(40'000 + 10 * worker + row);
    view.bytes_sent = sent;
    view.srtt_ns = srtt_ns;
    segment_.row(worker, row).write(&view);
  }
  Snapshot look_after(int64_t seconds) const {
    return read_snapshot(segment_.data(), FakeSegment::bytes(),
                         FakeSegment::kNowNs + seconds * kTopSecondNs);
  }
  static std::string text_of(const std::vector<TopLine>& lines) {
    std::string out;
    for (const TopLine& line : lines) out += line.text + "\n";
    return out;
  }

  FakeSegment segment_;
};

TEST_F(TopTest, ShowsTheWallClockAlsoAfterItWasStepped) {
  Snapshot now = look_after(0);
  now.clock_step_ns = 3600 * kTopSecondNs;
  const std::string text = text_of(top_screen(now, nullptr, {}));
  EXPECT_NE(text.find("up 3m 12s  1 client  2023-11-14 23:16:32\n"), std::string::npos) << text;
}

TEST_F(TopTest, HasTheRatesSinceTheLookBefore) {
  const Snapshot earlier = look_after(0);
  segment_.worker(0).polls.set(400);
  segment_.worker(0).busy_polls.set(100);
  segment_.worker(0).tcp_payload_out.set(250'000'000);
  segment_.worker(1).drops[static_cast<size_t>(Drop::kTcpPaws)].set(10);
  segment_.worker(1).drops[static_cast<size_t>(Drop::kRxBudget)].set(30);
  segment_.queue(0).rx_bytes.set(1'000'000);
  segment_.queue(1).rx_missed.set(4);
  channel::SessionView view;
  ASSERT_TRUE(segment_.row(1, 0).read(view));
  view.bytes_sent += 250'000'000;
  view.updated_unix_ns += 2 * kTopSecondNs;
  segment_.row(1, 0).write(&view);
  const Snapshot now = look_after(2);
  const std::string text = text_of(top_screen(now, &earlier, {}));
  EXPECT_TRUE(
      text.starts_with("host-a  lyred 0.1.0  up 3m 14s  1 client  2023-11-14 22:16:34\n"
                       "dropped a second: rx_budget 15 tcp_paws 5 missed 2\n"
                       "worker  busy  sessions  received       sent  sent again   free slots\n"
                       "     0  25 %         0     0 b/s  1.00 Gb/s       0 b/s  16000/16384\n"
                       "     1     -         0     0 b/s      0 b/s       0 b/s  16000/16384\n"))
      << text;
  EXPECT_NE(text.find("memif0  up    4.00 Mb/s  0 b/s         2"), std::string::npos) << text;
  EXPECT_NE(text.find("trainer/123         2           7     0 b/s  1.00 Gb/s\n"),
            std::string::npos)
      << text;
}

// Only the queues' counter was shown, which hardly ever grows, above "dropped: nothing".
TEST_F(TopTest, ShowsWhatTheDeviceLost) {
  segment_.port().rx_missed.set(0);
  const Snapshot earlier = look_after(0);
  segment_.port().rx_missed.set(8);
  const std::string text = text_of(top_screen(look_after(2), &earlier, {}));
  EXPECT_NE(text.find("memif0  up       0 b/s  0 b/s         4            0           0\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\ndropped a second: missed 4\n"), std::string::npos) << text;
}

TEST_F(TopTest, WhatAPortDoesNotSendIsDropped) {
  const Snapshot earlier = look_after(0);
  segment_.queue(1).tx_dropped.set(6);
  const std::string text = text_of(top_screen(look_after(2), &earlier, {}));
  EXPECT_NE(text.find("\ndropped a second: not sent 3\n"), std::string::npos) << text;
  const Snapshot now = look_after(2);
  EXPECT_NE(text_of(top_screen(look_after(4), &now, {})).find("\ndropped: nothing\n"),
            std::string::npos);
}

TEST_F(TopTest, SessionsOfAWorkerAreThoseInUse) {
  segment_.worker(0).sessions_open.set(30);
  segment_.worker(0).time_waits.set(28);
  const std::string text = text_of(top_screen(look_after(0), nullptr, {}));
  EXPECT_NE(text.find("\n     0     -         2 "), std::string::npos) << text;
}

TEST_F(TopTest, TheBusiestWorkersComeFirst) {
  Snapshot earlier = look_after(0);
  Snapshot now = look_after(1);
  for (Snapshot* snapshot : {&earlier, &now}) snapshot->workers.resize(64);
  for (size_t i = 0; i < now.workers.size(); ++i) {
    now.workers[i].counters[static_cast<size_t>(Counter::polls)] = 1000;
    now.workers[i].counters[static_cast<size_t>(Counter::busy_polls)] = i == 37 ? 1000 : 10 * i;
  }
  for (const Snapshot* before :
       {static_cast<const Snapshot*>(&earlier), static_cast<const Snapshot*>(nullptr)}) {
    const std::string text = text_of(top_screen(now, before, {.lines = 24}));
    const size_t table = text.find("worker   busy");
    ASSERT_NE(table, std::string::npos) << text;
    EXPECT_EQ(text.find("\n    37  100 %"), text.find('\n', table)) << text;
    EXPECT_NE(text.find("\n    63   63 %"), std::string::npos) << text;
    EXPECT_NE(text.find("and 61 more workers\n"), std::string::npos) << text;
  }
}

// It said "dropped: nothing", which only a second look can tell.
TEST_F(TopTest, TheFirstLookHasNoRates) {
  const auto lines = top_screen(look_after(0), nullptr, {});
  EXPECT_NE(text_of(lines).find("\ndropped: -\n"), std::string::npos) << text_of(lines);
  EXPECT_EQ(text_of(lines).find("b/s"), std::string::npos) << text_of(lines);
}

TEST_F(TopTest, FillsTheScreenAndNoMore) {
  for (uint32_t row = 1; row < FakeSegment::kRows; ++row) {
    for (uint32_t worker = 0; worker < 2; ++worker) add_session(worker, row, row, 1);
  }
  const Snapshot now = look_after(0);
  for (const size_t lines : {24u, 14u, 5u, 50u}) {
    for (const size_t columns : {80u, 40u, 200u}) {
      const auto screen = top_screen(now, nullptr, {.columns = columns, .lines = lines});
      EXPECT_LE(screen.size(), lines);
      for (const TopLine& line : screen) EXPECT_LE(line.text.size(), columns);
      if (lines < kTopLinesMin) continue;
      EXPECT_EQ(screen.back().text.substr(0, 6), "q quit");
    }
  }
}

TEST_F(TopTest, SaysHowManySessionsHaveNoRoom) {
  for (uint32_t row = 1; row < FakeSegment::kRows; ++row) {
    for (uint32_t worker = 0; worker < 2; ++worker) add_session(worker, row, row, 1);
  }
  const auto lines = top_screen(look_after(0), nullptr, {.lines = 18});
  EXPECT_NE(text_of(lines).find("more sessions\n"), std::string::npos) << text_of(lines);
}

TEST_F(TopTest, SessionsAreSorted) {
  const Snapshot earlier = look_after(0);
  for (uint32_t worker = 0; worker < 2; ++worker) {
    channel::SessionView view;
    ASSERT_TRUE(segment_.row(worker, 0).read(view));
    view.bytes_sent += 1000 * (worker + 1);
    view.updated_unix_ns += kTopSecondNs;
    segment_.row(worker, 0).write(&view);
  }
  const Snapshot now = look_after(1);
  const auto first_of = [&](SessionFilter::Order order) {
    const std::string text = text_of(top_screen(now, &earlier, {.order = order}));
    return text.find(":40000") < text.find(":40010") ? 40000 : 40010;
  };
  EXPECT_EQ(first_of(SessionFilter::Order::kSent), 40010);
  EXPECT_EQ(first_of(SessionFilter::Order::kRtt), 40000);
}

TEST_F(TopTest, ADomainsScreenHasClientsAndSessions) {
  segment_.header().is_domain = 1;
  const std::string text = text_of(top_screen(look_after(0), nullptr, {}));
  EXPECT_NE(text.find("\nworkers and ports: not shown here: "), std::string::npos) << text;
  EXPECT_EQ(text.find("memif0"), std::string::npos) << text;
  EXPECT_NE(text.find("trainer/123"), std::string::npos) << text;
}

TEST_F(TopTest, KeySGoesRoundAllOrders) {
  auto order = SessionFilter::Order::kSent;
  std::string names;
  for (int i = 0; i < 6; ++i, order = order_after(order)) {
    names += std::string(order_name(order)) + " ";
  }
  EXPECT_EQ(names, "sent received retransmitted rtt queued age ");
  EXPECT_EQ(order, SessionFilter::Order::kSent);
}

}  // namespace
}  // namespace lyre::tools
