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

}  // namespace
}  // namespace lyre::worker
