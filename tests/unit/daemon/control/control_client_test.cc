#include "daemon/control/control_client.h"

#include <gtest/gtest.h>

#include "tests/unit/daemon/control_fixture.h"

namespace lyre {
namespace {

/// A client whose context was expelled, which its workers do not know yet.
class ExpelledClient : public ControlServerTest {
 protected:
  ExpelledClient() {
    client_.send(attach_request());
    run();
    expect_message<channel::AttachReply>(client_, Control::kAttached);
    server_->expel({.context = 0, .reason = "send outside of its region"});
    run();
    EXPECT_EQ(workers_.posted[1].back().kind, worker::Command::Kind::kDetach);
    EXPECT_FALSE(client_.receive().has_value());
  }
  void expect_to_be_told() {
    const auto goodbye = expect_message<channel::Goodbye>(client_, Control::kGoodbye);
    EXPECT_STREQ(goodbye.text, "send outside of its region");
    EXPECT_EQ(server_->connection_count(), 0u);
  }

  RawClient client_{path_};
};

// It was told before its workers, who went on sending what it changed.
TEST_F(ExpelledClient, IsToldWhenAllWorkersHaveLetGo) {
  workers_.answer(0, worker::Reply::Kind::kDetached, 0);
  take_replies();
  EXPECT_FALSE(client_.receive().has_value());
  workers_.answer(1, worker::Reply::Kind::kDetached, 0);
  take_replies();
  expect_to_be_told();
}

TEST_F(ExpelledClient, IsToldThoughAWorkerHoldsOn) {
  EXPECT_TRUE(run_until([this] { return server_->connection_count() == 0; }));
  expect_to_be_told();
}

// It is not handed over: the process that goes on could not tell it.
TEST_F(ExpelledClient, IsToldBeforeAnUpgrade) {
  EXPECT_TRUE(server_->has_pending_requests());
  server_->say_goodbyes(/*only_due=*/true);
  EXPECT_FALSE(client_.receive().has_value());
  server_->say_goodbyes(/*only_due=*/false);
  expect_to_be_told();
  EXPECT_FALSE(server_->has_pending_requests());
}

TEST_F(ExpelledClient, IsToldByADaemonThatStops) {
  server_->hang_up_all();
  expect_to_be_told();
}

class Upgrades : public ControlServerTest {
 protected:
  Upgrades() {
    server_->serve_upgrades([this](const auto& answer) {
      ++begun_;
      answer({.status = Ok{}, .pid = 7, .pause_us = 1, .release = "next"});
    });
  }

  int begun_ = 0;
};

// `lyre upgrade` was interrupted while the daemon was stopped, which upgraded when it went on.
TEST_F(Upgrades, DoNotBeginForAnAskerThatHasGone) {
  RawClient asker(path_);
  asker.send(make_message<channel::UpgradeRequest>(Control::kUpgrade));
  asker.hang_up();
  run();
  EXPECT_EQ(begun_, 0);
  EXPECT_EQ(server_->connection_count(), 0u);
}

TEST_F(Upgrades, BeginForAnAskerThatWaits) {
  RawClient asker(path_);
  asker.send(make_message<channel::UpgradeRequest>(Control::kUpgrade));
  run();
  EXPECT_EQ(begun_, 1);
  EXPECT_EQ(expect_message<channel::UpgradeReply>(asker, Control::kUpgradeReply).error, 0);
}

}  // namespace
}  // namespace lyre
