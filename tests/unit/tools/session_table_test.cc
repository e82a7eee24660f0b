#include "tools/lyre/session_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <sstream>

#include "tests/unit/tools/stats_segment.h"
#include "tools/lyre/session_filter.h"
#include "tools/lyre/sessions.h"

namespace lyre::tools {
namespace {

using ::testing::HasSubstr;

constexpr uint8_t kTimeWait = 9;

class SessionTableTest : public ::testing::Test {
 protected:
  void put(uint32_t worker, uint32_t row, const channel::SessionView& view) {
    segment_.row(worker, row).write(&view);
  }
  Snapshot look() { return read_snapshot(segment_.data(), segment_.bytes(), FakeSegment::kNowNs); }
  /// Remote ports of the sessions that a filter keeps, in its order.
  std::vector<uint16_t> kept(const SessionFilter& filter) {
    Snapshot snapshot = look();
    time_waits_ = keep_wanted(snapshot.sessions, filter, snapshot.taken_unix_ns, nullptr);
    std::vector<uint16_t> ports;
    for (const auto& view : snapshot.sessions) ports.push_back(view.remote_port);
    return ports;
  }

  FakeSegment segment_;
  uint32_t time_waits_ = 0;
};

TEST_F(SessionTableTest, IsOneLineASession) {
  put(1, 2, FakeSegment::connection());
  EXPECT_EQ(
      "state        local  peer            owner            rtt       sent   received  limited by\n"
      "ESTABLISHED  :5000  10.9.0.2:43210  trainer/123  23.4 us  8.59 Gb/s  1.00 Gb/s  "
      "application\n",
      session_table(look(), nullptr, false));
}

TEST_F(SessionTableTest, TheWidestSessionFitsOneHundredColumns) {
  channel::SessionView view = FakeSegment::connection();
  view.state = 2;  // SYN-RECEIVED, the longest
  view.local_port = view.remote_port = 65535;
  std::memset(view.remote_address, 0xfd, sizeof view.remote_address);
  std::memset(view.label, 'x', sizeof view.label);
  view.pid = 4194304;
  view.srtt_ns = 999'400'000;
  put(0, 0, view);
  std::istringstream lines(session_table(look(), nullptr, false));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), kNarrowColumns) << line;
  const std::string wide = session_table(look(), nullptr, true);
  EXPECT_THAT(wide, HasSubstr("[fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd]:65535"));
}

TEST_F(SessionTableTest, TheOrderIsThatOfTheRatesSinceTheEarlierLook) {
  channel::SessionView slow = FakeSegment::connection();
  slow.remote_port = 1;
  channel::SessionView fast = slow;
  fast.remote_port = 2;
  put(0, 0, slow);
  put(0, 1, fast);
  const Snapshot earlier = look();
  for (auto* view : {&slow, &fast}) view->updated_unix_ns += 1'000'000'000;
  slow.bytes_sent += 1000;
  fast.bytes_sent += 9000;
  put(0, 0, slow);
  put(0, 1, fast);
  Snapshot now = look();
  keep_wanted(now.sessions, {.order = SessionFilter::Order::kSent}, now.taken_unix_ns, &earlier);
  ASSERT_EQ(now.sessions.size(), 2u);
  EXPECT_EQ(now.sessions[0].remote_port, 2);
  EXPECT_DOUBLE_EQ(rates_of(now.sessions[0], now.taken_unix_ns, &earlier).sent_bits_per_s, 72'000);
  EXPECT_DOUBLE_EQ(rates_of(now.sessions[1], now.taken_unix_ns, &earlier).sent_bits_per_s, 8'000);
}

TEST_F(SessionTableTest, SaysWhatLimitsASession) {
  channel::SessionView view{};
  view.mss_bytes = 1000;
  view.in_flight_bytes = view.send_queue_bytes = 10'000;
  view.cwnd_bytes = view.send_window_bytes = 50'000;
  EXPECT_EQ(send_limit(view), SendLimit::kApplication);
  view.send_queue_bytes = 100'000;
  view.unsent_bytes = 90'000;
  EXPECT_EQ(send_limit(view), SendLimit::kPort);
  view.send_window_bytes = 10'500;
  EXPECT_EQ(send_limit(view), SendLimit::kReceiver);
  view.send_window_bytes = 50'000;
  view.cwnd_bytes = 10'500;
  EXPECT_EQ(send_limit(view), SendLimit::kCongestion);
}

// Bytes that were SACKed or marked lost made it "port": they are not in flight, and were sent.
TEST_F(SessionTableTest, SaysWhatLimitsASessionThatLostPackets) {
  channel::SessionView view{};
  view.mss_bytes = 1000;
  view.send_queue_bytes = 50'000;
  view.in_flight_bytes = 10'000;
  view.cwnd_bytes = view.send_window_bytes = 50'500;
  EXPECT_EQ(send_limit(view), SendLimit::kApplication);
  view.send_queue_bytes = 150'000;
  view.unsent_bytes = 100'000;
  EXPECT_EQ(send_limit(view), SendLimit::kReceiver);
  view.cwnd_bytes = 10'100;  // less room than in the peer's window
  EXPECT_EQ(send_limit(view), SendLimit::kCongestion);
  view.send_window_bytes = 40'000;  // it shrank
  EXPECT_EQ(send_limit(view), SendLimit::kReceiver);
  view.send_window_bytes = 80'000;
  EXPECT_EQ(send_limit(view), SendLimit::kCongestion);
  view.cwnd_bytes = 20'000;
  EXPECT_EQ(send_limit(view), SendLimit::kPort);
}

TEST_F(SessionTableTest, FiltersLeaveOthersOut) {
  channel::SessionView view = FakeSegment::connection();
  view.remote_port = 1;
  view.pid = 77;
  put(0, 0, view);
  view = FakeSegment::connection();
  view.remote_port = 2;
  std::strcpy(view.label, "other");
  view.srtt_ns *= 2;
  view.bytes_retransmitted = 1000;
  put(0, 1, view);
  view = FakeSegment::connection();
  view.remote_port = 3;
  view.state = kTimeWait;
  put(1, 0, view);
  using Ports = std::vector<uint16_t>;
  EXPECT_EQ(kept({}), (Ports{1, 2}));
  EXPECT_EQ(time_waits_, 1u);
  EXPECT_EQ(kept({.has_time_wait = true}), (Ports{1, 2, 3}));
  EXPECT_EQ(kept({.state = "time-wait"}), Ports{3});
  EXPECT_EQ(kept({.peer = "10.9.0.2:2"}), Ports{2});
  EXPECT_EQ(kept({.peer = "10.9.0.2"}), (Ports{1, 2}));
  EXPECT_EQ(kept({.peer = "10.9.0.3"}), Ports{});
  EXPECT_EQ(kept({.port = 2}), Ports{2});
  EXPECT_EQ(kept({.pid = 77}), Ports{1});
  EXPECT_EQ(kept({.label = "oth"}), Ports{2});
  EXPECT_EQ(kept({.order = SessionFilter::Order::kRtt}), (Ports{2, 1}));
  EXPECT_EQ(kept({.order = SessionFilter::Order::kRetransmitted}), (Ports{2, 1}));
}

}  // namespace
}  // namespace lyre::tools
