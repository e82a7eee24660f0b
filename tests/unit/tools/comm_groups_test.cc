#include "tools/lyre/metrics/comm_groups.h"

#include <gtest/gtest.h>

#include <string>

namespace lyre::tools {
namespace {

constexpr int64_t kFirstLookNs = 1'000'000'000'000;

class CommGroupsTest : public ::testing::Test {
 protected:
  CommGroupsTest() { comms_.at_ns = kFirstLookNs; }

  static nccl_abi::CommView comm(uint8_t id, uint64_t bytes) {
    nccl_abi::CommView view{};
    view.id[0] = id;
    view.is_sender = 1;
    view.bytes = bytes;
    return view;
  }
  CommsOfProcess& process(uint32_t uid, const std::string& program) {
    comms_.processes.push_back({.uid = uid, .pid = 5, .program = program});
    return comms_.processes.back();
  }
  void look() {
    groups_.look(comms_);
    comms_.at_ns += 15'000'000'000;
  }
  const CommGroup& of(const std::string& uid, const std::string& program) const {
    static const CommGroup kNone;
    const auto at = groups_.groups().find({uid, program, true});
    return at != groups_.groups().end() ? at->second : kNone;
  }
  double moved() const { return of("1", "train").counts[kMovedBytes]; }

  CommsSnapshot comms_;
  CommGroups groups_;
};

TEST_F(CommGroupsTest, AddUpTheCommsOfAProgram) {
  auto& views = process(1, "train").comms;
  views.assign(2, comm(1, 0));
  views[1].id[0] = 2;
  views[0].oldest_since_ns = kFirstLookNs - 70'000'000'000;
  views[1].oldest_since_ns = kFirstLookNs - 5'000'000'000;
  views[1].has_failed = 1;
  views[0].streams = 4;
  views[0].streams_up = 1;
  views[1].streams_up = 9;  // nonsense takes nothing from the others
  process(2, "train").comms = {comm(3, 0)};
  look();
  const CommGroup& group = of("1", "train");
  EXPECT_EQ(group.comms, 2u);
  EXPECT_EQ(group.failed, 1u);
  EXPECT_EQ(group.streams_missing, 3u);
  EXPECT_EQ(group.oldest_request_ns, 70'000'000'000);
  EXPECT_EQ(of("2", "train").comms, 1u);
}

// A sum over the comms that live falls when one ends.
TEST_F(CommGroupsTest, ACounterDoesNotFallWhenACommEnds) {
  process(1, "train").comms = {comm(1, 1000), comm(2, 5000)};
  look();
  EXPECT_EQ(moved(), 0.0) << "what was moved before is not known to be of this time";
  comms_.processes[0].comms = {comm(1, 1500), comm(2, 5100)};
  look();
  EXPECT_EQ(moved(), 600.0);
  comms_.processes[0].comms = {comm(1, 1700)};
  look();
  EXPECT_EQ(moved(), 800.0);
  comms_.processes.clear();
  look();
  EXPECT_EQ(moved(), 800.0);
  EXPECT_EQ(of("1", "train").comms, 0u);
}

// A slot that is being written is left out of a look.
TEST_F(CommGroupsTest, ACommThatComesBackAddsNothingTwice) {
  process(1, "train").comms = {comm(1, 1000)};
  look();
  comms_.processes[0].comms.clear();
  look();
  comms_.processes[0].comms = {comm(1, 3000)};
  look();
  EXPECT_EQ(moved(), 0.0);
  comms_.processes[0].comms = {comm(1, 2000)};  // the user writes what he likes
  look();
  EXPECT_EQ(moved(), 0.0);
}

TEST_F(CommGroupsTest, AUserCannotMakeSeriesWithoutEnd) {
  for (uint32_t i = 0; i < 3 * kMetricNamesPerUidMax; ++i) {
    comms_.processes.clear();
    process(1, "p" + std::to_string(i)).comms = {comm(1, 0)};
    look();
  }
  EXPECT_EQ(groups_.groups().size(), kMetricNamesPerUidMax + 1);
  EXPECT_EQ(of("1", "p0").comms, 0u);
  EXPECT_EQ(of("1", kOtherNames).comms, 1u);
  process(2, "train").comms = {comm(1, 0)};
  look();
  EXPECT_EQ(of("2", "train").comms, 1u) << "another user has places of his own";
}

TEST_F(CommGroupsTest, SoCannotManyUsers) {
  for (uint32_t uid = 0; uid < kMetricNamesMax + 9; ++uid) {
    process(uid, "train").comms = {comm(1, 0)};
  }
  look();
  EXPECT_EQ(groups_.groups().size(), kMetricNamesMax + 1);
  EXPECT_EQ(of(kOtherNames, kOtherNames).comms, 9u);
}

TEST_F(CommGroupsTest, APlaceIsFreeAnHourAfterItsLastComm) {
  for (uint32_t i = 0; i < kMetricNamesPerUidMax; ++i) {
    process(1, "p" + std::to_string(i)).comms = {comm(1, 0)};
  }
  look();
  comms_.processes.clear();
  comms_.at_ns += kMetricNameHoldNs;
  process(1, "train").comms = {comm(1, 0)};
  look();
  EXPECT_EQ(of("1", "train").comms, 1u);
  EXPECT_EQ(groups_.groups().size(), 1u);
}

}  // namespace
}  // namespace lyre::tools
