#include "nccl_adapter/daemon_link/attachment.h"

#include <gtest/gtest.h>

#include "nccl_adapter/limits.h"
#include "tests/unit/nccl_adapter/support/two_hosts.h"

namespace lyre::nccl_adapter {
namespace {

class Attached : public TwoHosts {
 protected:
  std::unique_ptr<Attachment> open(std::vector<std::string> rails = {}) {
    settings_.rails = std::move(rails);
    return Attachment::open(settings_, &failure_);
  }
  Settings settings_{.socket_path = "sim/0", .resume_s = 3};
  int failure_ = 0;
};

TEST_F(Attached, KnowsTheDaemonsPorts) {
  const auto attachment = open();
  ASSERT_NE(attachment, nullptr);
  EXPECT_EQ(attachment->ports().size(), 2u);
  EXPECT_NE(attachment->context(), nullptr);
}

TEST_F(Attached, KeepsToThePortsThatTheUserNamed) {
  const auto attachment = open({"rail1", "nonsense"});
  ASSERT_EQ(attachment->ports().size(), 1u);
  EXPECT_STREQ(attachment->ports()[0].name, "rail1");
}

TEST_F(Attached, TellsWhichNamesAreNoPortsOfTheDaemon) {
  const auto attachment = open();
  EXPECT_EQ(wrong_rails(attachment->context(), {}), "");
  EXPECT_EQ(wrong_rails(attachment->context(), {"rail1", "rail0"}), "");
  EXPECT_EQ(wrong_rails(attachment->context(), {"rail9", "rail1", "Own"}),
            "LYRE_RAILS names \"rail9\", \"Own\", allowed: own, all, rail0, rail1");
}

TEST_F(Attached, WithoutADaemonThereIsNone) {
  network_.kill_daemon(0);
  EXPECT_EQ(open(), nullptr);
  EXPECT_EQ(failure_, LYRE_E_DAEMON);
}

TEST_F(Attached, FindsADaemonThatCameBack) {
  const auto attachment = open();
  attachment->lose(events_.now_ns());
  EXPECT_EQ(attachment->context(), nullptr);
  network_.kill_daemon(0);
  EXPECT_FALSE(attachment->find(events_.now_ns()));
  EXPECT_FALSE(attachment->failure().empty());
  network_.start_daemon(0);
  EXPECT_FALSE(attachment->find(events_.now_ns())) << "it looked a moment ago";
  EXPECT_TRUE(attachment->find(events_.now_ns() + kReattachNs));
  EXPECT_NE(attachment->context(), nullptr);
  EXPECT_EQ(attachment->ports().size(), 2u);
}

TEST_F(Attached, GivesUpAfterTheTimeToResume) {
  const auto attachment = open();
  const int64_t lost_ns = events_.now_ns();
  attachment->lose(lost_ns);
  EXPECT_FALSE(attachment->is_given_up(lost_ns + 3 * kSecond));
  EXPECT_TRUE(attachment->is_given_up(lost_ns + 3 * kSecond + 1));
}

}  // namespace
}  // namespace lyre::nccl_adapter
