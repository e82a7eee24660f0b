#include "stack/worker/session_view.h"

#include <gtest/gtest.h>

#include "tests/unit/stack/worker/worker_parts.h"

namespace lyre::worker {
namespace {

class SessionViewTest : public WorkerParts {
 protected:
  SessionViewTest() { attach(); }
};

// `lyre sessions` showed an ssthresh of 1.0 GiB: the value that TCP has until a loss.
TEST_F(SessionViewTest, HasNoSsthreshBeforeALoss) {
  EXPECT_EQ(view_of(state, open()).ssthresh_bytes, UINT32_MAX);
}

TEST_F(SessionViewTest, TellsWhatOfTheQueueWasNeverSent) {
  const uint32_t conn = open();
  channel::Submission entry{.op = channel::Op::kSend, .session = state.name_of(conn)};
  entry.body.send.bytes = 1000;
  submit(entry);
  ASSERT_EQ(submissions.take(), 1u);
  const channel::SessionView view = view_of(state, conn);
  EXPECT_EQ(view.send_queue_bytes, 1000u);
  EXPECT_EQ(view.unsent_bytes, 1000u) << "the handshake is not complete";
}

}  // namespace
}  // namespace lyre::worker
