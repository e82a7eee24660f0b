#include "stack/worker/invariant_checker.h"

#include <gtest/gtest.h>

#include "tests/unit/stack/worker/connected_parts.h"

namespace lyre::worker {
namespace {

constexpr uint32_t kAll = UINT32_MAX;

class InvariantCheckerTest : public ConnectedParts {};

TEST_F(InvariantCheckerTest, NothingIsFoundInTablesThatAreRight) {
  receive_text(0, 600);
  receive_text(1800, 600);
  announcements.announce_all();
  connect();
  invariants.check(kAll);
}

TEST_F(InvariantCheckerTest, FindsAnAccountThatIsWrong) {
  invariants.check(kAll);
  state.places.add_session(state.accounts.user_of(kContext));
  EXPECT_DEATH(invariants.check(kAll), "sessions_of");
}

TEST_F(InvariantCheckerTest, FindsASendThatIsNotCountedWithItsClient) {
  ASSERT_TRUE(state.sends.try_append(state.session(conn).sends,
                                     {.region = kContext, .length = 100, .offset = 0}));
  EXPECT_DEATH(invariants.check(kAll), "sends_under_way");
}

TEST_F(InvariantCheckerTest, FindsATimeWaitThatIsNotThere) {
  ++state.time_waits;
  EXPECT_DEATH(invariants.check(kAll), "time_waits");
}

TEST_F(InvariantCheckerTest, FindsASessionWithoutARowThatIsNotThere) {
  invariants.check(kAll);
  ++state.without_row;
  EXPECT_DEATH(invariants.check(kAll), "without_row");
}

TEST_F(InvariantCheckerTest, FindsAConnectionThatItsTupleDoesNotLeadTo) {
  state.flows.erase(state.engine.tuple(conn), conn);
  EXPECT_DEATH(invariants.check(1), "find_connection");
}

TEST_F(InvariantCheckerTest, EachCallLooksAtTheNextConnections) {
  const uint32_t second = connect();
  state.flows.erase(state.engine.tuple(second), second);
  ASSERT_LT(conn, second);
  invariants.check(second);  // those before it
  EXPECT_DEATH(invariants.check(1), "find_connection");
}

}  // namespace
}  // namespace lyre::worker
