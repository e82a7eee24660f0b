#include "tools/lyre/metrics/client_groups.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>

namespace lyre::tools {
namespace {

constexpr int64_t kClientsFirstLookNs = 1'000'000'000'000;

class ClientGroupsTest : public ::testing::Test {
 protected:
  void put(uint32_t uid, const std::string& label) {
    channel::ClientView view{};
    view.uid = uid;
    view.sessions = 1;
    label.copy(view.label, sizeof view.label);
    daemon_.client_views.push_back(view);
  }
  void look() {
    groups_.look(daemon_, now_ns_);
    now_ns_ += 15'000'000'000;
    for (const auto& [place, group] : groups_.groups()) seen_.insert(place);
  }
  uint64_t sessions_of(const std::string& uid, const std::string& label) const {
    const auto at = groups_.groups().find({uid, label});
    return at != groups_.groups().end() ? at->second.sessions : 0;
  }

  Snapshot daemon_;
  ClientGroups groups_;
  int64_t now_ns_ = kClientsFirstLookNs;
  std::set<MetricPlace> seen_;  ///< label sets of all looks
};

// A client attached with a new label each time, and each one made five series.
TEST_F(ClientGroupsTest, AUserCannotMakeSeriesWithoutEnd) {
  for (int i = 0; i < 100; ++i) {
    daemon_.client_views.clear();
    put(7, "job-" + std::to_string(i));
    look();
  }
  EXPECT_EQ(seen_.size(), kMetricNamesPerUidMax + 1);
  EXPECT_EQ(sessions_of("7", kOtherNames), 1u);
}

TEST_F(ClientGroupsTest, ManyUsersCannotEither) {
  for (uint32_t uid = 0; uid < kMetricNamesMax + 9; ++uid) put(uid, "train");
  look();
  EXPECT_EQ(seen_.size(), kMetricNamesMax + 1);
  EXPECT_EQ(sessions_of(kOtherNames, kOtherNames), 9u);
}

TEST_F(ClientGroupsTest, TwoUsersWithOneLabelAreTwo) {
  put(7, "train");
  put(7, "train");
  put(8, "train");
  look();
  EXPECT_EQ(sessions_of("7", "train"), 2u);
  EXPECT_EQ(sessions_of("8", "train"), 1u);
}

TEST_F(ClientGroupsTest, APlaceIsFreeAnHourAfterItsLastClient) {
  for (uint32_t i = 0; i < kMetricNamesPerUidMax; ++i) put(7, "job-" + std::to_string(i));
  look();
  daemon_.client_views.clear();
  put(7, "train");
  look();
  EXPECT_EQ(sessions_of("7", kOtherNames), 1u);
  EXPECT_EQ(groups_.groups().size(), 1u) << "labels without clients have no series";
  now_ns_ += kMetricNameHoldNs;
  look();
  EXPECT_EQ(sessions_of("7", "train"), 1u);
}

}  // namespace
}  // namespace lyre::tools
