#include "daemon/ports/link_watch.h"

#include <gtest/gtest.h>

#include "daemon/base/daemon_limits.h"
#include "tests/unit/daemon/fake_workers.h"

namespace lyre {
namespace {

class LinkWatchTest : public testing::Test {
 protected:
  WatchedLink link(size_t i) {
    return {"port" + std::to_string(i), [this, i] { return is_up_[i]; }, &shown_[i]};
  }
  /// The ports whose links a worker was told of, and forgets it.
  std::vector<int> news(uint32_t worker) {
    std::vector<int> ports;
    for (const worker::Command& command : workers_.posted[worker]) {
      EXPECT_EQ(command.kind, worker::Command::Kind::kLinkUp);
      ports.push_back(command.port);
    }
    workers_.posted[worker].clear();
    return ports;
  }

  bool is_up_[2] = {true, false};
  std::atomic<uint32_t> shown_[2] = {1, 0};
  FakeWorkers workers_{2};
  LinkWatch watch_{workers_, {link(0), link(1)}};
};

TEST_F(LinkWatchTest, TellsEveryWorkerOfALinkThatComesUp) {
  EXPECT_EQ(watch_.look(), kLinkDownPeriod) << "a client may wait for it";
  EXPECT_TRUE(news(0).empty());
  is_up_[1] = true;
  EXPECT_EQ(watch_.look(), kLinkPeriod);
  EXPECT_EQ(news(0), std::vector<int>{1});
  EXPECT_EQ(news(1), std::vector<int>{1});
  EXPECT_EQ(shown_[1], 1u);
  watch_.look();
  EXPECT_TRUE(news(0).empty()) << "once";
}

TEST_F(LinkWatchTest, ALinkThatGoesDownIsShownAndItsReturnIsNews) {
  is_up_[0] = false;
  watch_.look();
  EXPECT_EQ(shown_[0], 0u);
  EXPECT_TRUE(news(0).empty());
  is_up_[0] = true;
  watch_.look();
  EXPECT_EQ(news(1), std::vector<int>{0});
}

TEST_F(LinkWatchTest, WhoHasNoRoomForTheNewsIsToldLater) {
  workers_.inbox_room = 0;
  is_up_[1] = true;
  EXPECT_EQ(watch_.look(), kLinkDownPeriod);
  EXPECT_EQ(shown_[1], 0u);
  workers_.inbox_room = 8;
  watch_.look();
  EXPECT_EQ(news(0), std::vector<int>{1});
  EXPECT_EQ(news(1), std::vector<int>{1});
}

}  // namespace
}  // namespace lyre
