#include "tools/lyre/metrics/families.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string>

#include "tests/unit/tools/stats_segment.h"

namespace lyre::tools {
namespace {

class FamiliesTest : public ::testing::Test {
 protected:
  void put_client(uint32_t worker, uint32_t context, uint32_t held, uint32_t limit) {
    channel::ClientView view{};
    view.context = context;
    view.worker = worker;
    view.rx_slots_held = held;
    view.rx_slots_max = limit;
    std::strcpy(view.label, "train");
    segment_.client(worker, context).write(&view);
  }
  /// Of the label "train".
  std::optional<double> gauge(const std::string& name) const {
    const Snapshot now = read_snapshot(segment_.data(), FakeSegment::bytes(), FakeSegment::kNowNs);
    for (const prometheus::MetricFamily& family : metrics_of(&now)) {
      if (family.name != name) continue;
      for (const prometheus::ClientMetric& metric : family.metric) {
        if (metric.label.at(0).value == "train") return metric.gauge.value;
      }
    }
    return std::nullopt;
  }

  FakeSegment segment_;
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

TEST(CommFamilies, CountDirectoriesThatCannotBeRead) {
  CommsSnapshot comms;
  comms.directories_not_read = {"/dev/shm/lyre: Permission denied"};
  for (const prometheus::MetricFamily& family : metrics_of(comms)) {
    if (family.name != "lyre_telemetry_directories_not_read") continue;
    EXPECT_EQ(family.metric.at(0).gauge.value, 1.0);
    return;
  }
  FAIL() << "no such family";
}

}  // namespace
}  // namespace lyre::tools
