#include "tools/lyre/metrics/families.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "tests/unit/tools/stats_segment.h"

namespace lyre::tools {
namespace {

class FamiliesTest : public ::testing::Test {
 protected:
  void put_client(uint32_t worker, uint32_t context, uint32_t held, uint32_t limit,
                  uint32_t uid = 7) {
    channel::ClientView view{};
    view.uid = uid;
    view.context = context;
    view.worker = worker;
    view.rx_slots_held = held;
    view.rx_slots_max = limit;
    std::strcpy(view.label, "train");
    segment_.client(worker, context).write(&view);
  }
  std::vector<prometheus::MetricFamily> families() const {
    Snapshot now = read_snapshot(segment_.data(), FakeSegment::bytes(), FakeSegment::kNowNs);
    now.clock_step_ns = clock_step_ns_;
    ClientGroups clients;
    clients.look(now, 1);
    return metrics_of(&now, clients);
  }
  /// Of the only metric of the family.
  std::optional<double> single(const std::string& name) const {
    for (const prometheus::MetricFamily& family : families()) {
      if (family.name == name && family.metric.size() == 1) return family.metric[0].gauge.value;
    }
    return std::nullopt;
  }
  /// Of the label "train".
  std::optional<double> gauge(const std::string& name) const {
    for (const prometheus::MetricFamily& family : families()) {
      if (family.name != name) continue;
      for (const prometheus::ClientMetric& metric : family.metric) {
        if (metric.label.at(1).value == "train") return metric.gauge.value;
      }
    }
    return std::nullopt;
  }

  FakeSegment segment_;
  int64_t clock_step_ns_ = 0;
};

// The free slots of the pool did not show it: a client that does not read leaves a third of them.
TEST_F(FamiliesTest, AClientAtItsLimitIsNotHiddenByOthersOfItsLabelAndByOtherWorkers) {
  put_client(0, 0, 10, 8192);
  put_client(1, 0, 4960, 4960);
  put_client(0, 1, 2000, 8000);
  EXPECT_EQ(gauge("lyre_client_rx_slots_limit_ratio"), 1.0);
  EXPECT_EQ(gauge("lyre_client_rx_slots_held"), 6970.0);
  put_client(1, 0, 124, 4960);
  EXPECT_EQ(gauge("lyre_client_rx_slots_limit_ratio"), 0.25);
}

TEST_F(FamiliesTest, AClientOverItsLimitIsAtIt) {
  put_client(0, 0, 4000, 3000);  // it waits for what it was given beyond its share
  EXPECT_EQ(gauge("lyre_client_rx_slots_limit_ratio"), 1.0);
}

// The series of two users were one, whose alert named neither.
TEST_F(FamiliesTest, ClientsOfTwoUsersWithOneLabelHaveTheirOwnSeries) {
  put_client(0, 0, 10, 8192, 7);
  put_client(0, 1, 20, 8192, 8);
  std::vector<std::string> uids;
  for (const prometheus::MetricFamily& family : families()) {
    if (family.name != "lyre_client_rx_slots_held") continue;
    for (const prometheus::ClientMetric& metric : family.metric) {
      EXPECT_EQ(metric.label.at(0).name, "uid");
      uids.push_back(metric.label[0].value);
    }
  }
  EXPECT_EQ(uids, (std::vector<std::string>{"7", "8"}));
}

// Connections without a row were not counted.
TEST_F(FamiliesTest, TimeWaitsAreThoseThatTheWorkerCounts) {
  segment_.worker(1).sessions_open.set(20'000);
  segment_.worker(1).time_waits.set(19'000);
  for (const prometheus::MetricFamily& family : families()) {
    if (family.name != "lyre_worker_time_waits") continue;
    EXPECT_EQ(family.metric.at(1).gauge.value, 19'000.0);
    return;
  }
  FAIL() << "no such family";
}

// Its ports were not shown, and the dashboard showed that none is down.
TEST_F(FamiliesTest, ADomainShowsItsPortsAndNoCounters) {
  segment_.port().is_link_up.store(0);
  EXPECT_EQ(single("lyre_scope_is_domain"), 0.0);
  EXPECT_TRUE(single("lyre_port_device_rx_missed_total").has_value());
  segment_.header().is_domain = 1;
  EXPECT_EQ(single("lyre_scope_is_domain"), 1.0);
  EXPECT_EQ(single("lyre_port_up"), 0.0);
  EXPECT_EQ(single("lyre_port_mtu_bytes"), 1500.0);
  for (const prometheus::MetricFamily& family : families()) {
    EXPECT_FALSE(family.name.starts_with("lyre_worker_")) << family.name;
    EXPECT_FALSE(family.name.starts_with("lyre_port_") && family.name.ends_with("_total"))
        << family.name;
  }
}

// Upgrades were taken for crashes.
TEST_F(FamiliesTest, AProcessThatTookOverHasNoColdStart) {
  EXPECT_EQ(single("lyre_daemon_cold_start_time_seconds"), FakeSegment::kStartedNs / 1e9);
  segment_.header().is_successor = 1;
  EXPECT_EQ(single("lyre_daemon_cold_start_time_seconds"), 0.0);
  EXPECT_EQ(single("lyre_daemon_start_time_seconds"), FakeSegment::kStartedNs / 1e9);
}

// A daemon that started before NTP had set the clock kept the time of then.
TEST_F(FamiliesTest, TheStartFollowsStepsOfTheClockByWholeSeconds) {
  constexpr double kStarted = FakeSegment::kStartedNs / 1e9;
  clock_step_ns_ = -3'600'000'000'000 + 70;
  EXPECT_EQ(single("lyre_daemon_start_time_seconds"), kStarted - 3600);
  clock_step_ns_ = 90'000'400'000;
  EXPECT_EQ(single("lyre_daemon_start_time_seconds"), kStarted + 90);
  for (const int64_t small : {300'000'000, 700'000'000, -300'000'000}) {
    clock_step_ns_ = small;
    EXPECT_EQ(single("lyre_daemon_start_time_seconds"), kStarted);
  }
}

// With one start, a step of the clock was the second start, and LyreDaemonRestarts fired.
TEST_F(FamiliesTest, AStepOfTheClockIsNoColdStart) {
  for (const int64_t step_ns : {int64_t{40'000'000'000}, int64_t{-3'600'000'000'000}}) {
    clock_step_ns_ = step_ns;
    EXPECT_EQ(single("lyre_daemon_cold_start_time_seconds"), FakeSegment::kStartedNs / 1e9);
  }
}

std::optional<double> gauge_of(const CommsSnapshot& comms, const std::string& name) {
  for (const prometheus::MetricFamily& family : metrics_of(comms, CommGroups())) {
    if (family.name == name) return family.metric.at(0).gauge.value;
  }
  return std::nullopt;
}

TEST(CommFamilies, CountDirectoriesThatCannotBeRead) {
  const CommsSnapshot comms{.directories_not_read = {"/dev/shm/lyre: Permission denied"}};
  EXPECT_EQ(gauge_of(comms, "lyre_telemetry_directories_not_read"), 1.0);
}

TEST(CommFamilies, CountFilesOfReleasesThatCannotBeRead) {
  const CommsSnapshot comms{.files_of_other_releases = 2};
  EXPECT_EQ(gauge_of(comms, "lyre_telemetry_files_of_other_releases"), 2.0);
}

TEST(CommFamilies, CountFilesThatTheServerMayNotRead) {
  const CommsSnapshot comms{.files_not_read = 2};
  EXPECT_EQ(gauge_of(comms, "lyre_telemetry_files_not_read"), 2.0);
}

TEST(CommFamilies, CountCommsForWhichTheirFilesHaveNoRoom) {
  CommsSnapshot comms;
  comms.processes.push_back({.not_shown = 2});
  comms.processes.push_back({.not_shown = 3});
  EXPECT_EQ(gauge_of(comms, "lyre_telemetry_comms_not_shown"), 5.0);
}

// 16 000 comms made 192 000 series.
TEST(CommFamilies, HaveSeriesOfEachCommWhereTheyAreWantedOnly) {
  CommsSnapshot comms{.at_ns = 1};
  comms.processes.push_back({.uid = 7, .pid = 1, .program = "train"});
  comms.processes[0].comms.resize(100);
  CommGroups groups;
  groups.look(comms);
  size_t series = 0;
  for (const prometheus::MetricFamily& family : metrics_of(comms, groups)) {
    series += family.metric.size();
    if (family.name != "lyre_comms") continue;
    EXPECT_EQ(family.metric.at(0).gauge.value, 100.0);
    ASSERT_EQ(family.metric.at(0).label.size(), 3u);
    EXPECT_EQ(family.metric[0].label[0].value, "7");
    EXPECT_EQ(family.metric[0].label[1].value, "train");
    EXPECT_EQ(family.metric[0].label[2].value, "receive");
  }
  EXPECT_EQ(series, 5u + 12u);
  const auto each = metrics_of_each(comms);
  ASSERT_EQ(each.size(), 12u);
  for (const prometheus::MetricFamily& family : each) {
    EXPECT_TRUE(family.name.starts_with("lyre_comm_")) << family.name;
    EXPECT_EQ(family.metric.size(), 100u);
  }
}

}  // namespace
}  // namespace lyre::tools
