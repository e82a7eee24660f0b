#include "stack/worker/control_replies.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/unit/stack/worker/worker_parts.h"

namespace lyre::worker {
namespace {

class ControlRepliesTest : public WorkerParts {};

TEST_F(ControlRepliesTest, RepliesComeInTheirOrder) {
  replies.post({.kind = Reply::Kind::kRegionAdded, .context = 3, .region = 9});
  replies.post({.kind = Reply::Kind::kDetached, .context = 3});
  const auto first = next_reply();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->kind, Reply::Kind::kRegionAdded);
  EXPECT_EQ(first->region, 9u);
  const auto second = next_reply();
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->kind, Reply::Kind::kDetached);
  EXPECT_FALSE(next_reply().has_value());
}

TEST_F(ControlRepliesTest, EachReplyWakesTheControlThread) {
  const int fd = eventfd(0, EFD_NONBLOCK);
  ASSERT_GE(fd, 0);
  state.config.reply_fd = fd;
  replies.post({.kind = Reply::Kind::kDetached});
  replies.post({.kind = Reply::Kind::kDetached});
  eventfd_t rings = 0;
  EXPECT_EQ(eventfd_read(fd, &rings), 0);
  EXPECT_EQ(rings, 2u);
  state.config.reply_fd = -1;
  close(fd);
}

TEST_F(ControlRepliesTest, AnExpelledClientIsReportedWithTheReasonAndCounted) {
  attach();
  Context& context = state.contexts[kContext];
  replies.expel(context, "a rule");
  EXPECT_EQ(context.state, Context::State::kExpelled);
  EXPECT_EQ(stats.clients_expelled.get(), 1u);
  const auto reply = next_reply();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->kind, Reply::Kind::kExpelled);
  EXPECT_EQ(reply->context, kContext);
  EXPECT_STREQ(reply->reason, "a rule");
}

TEST_F(ControlRepliesTest, NothingThatAnExpelledClientWroteIsRead) {
  attach();
  Context& context = state.contexts[kContext];
  context.attached.rings->submission_indices.tail = 1;
  replies.expel(context, "a rule");
  EXPECT_FALSE(submissions.are_waiting());
  EXPECT_EQ(submissions.take(), 0u);
}

TEST_F(ControlRepliesTest, TwoRepliesOfEveryContextAndOneOfEveryRegionFindRoom) {
  constexpr uint32_t kReplies = kContextsMax + kRegionsMax;
  for (uint32_t i = 0; i < kReplies; ++i) {
    replies.post({.kind = Reply::Kind::kRegionRemoved, .context = i % kContextsMax});
  }
  for (uint32_t i = 0; i < kReplies; ++i) ASSERT_TRUE(next_reply().has_value());
  EXPECT_FALSE(next_reply().has_value());
}

}  // namespace
}  // namespace lyre::worker
