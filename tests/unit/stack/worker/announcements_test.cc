#include "stack/worker/announcements.h"

#include <gtest/gtest.h>

#include "tests/unit/stack/worker/connected_parts.h"

namespace lyre::worker {
namespace {

class AnnouncementsTest : public ConnectedParts {
 protected:
  void announce() {
    announcements.announce_all();
    while (next_completion()) {
    }
  }
  void take_slots_until(uint32_t slots_free) {
    while (memory.rx_slots_free() > slots_free) taken_.push_back(memory.alloc_rx());
  }
  ~AnnouncementsTest() override { memory.release(taken_); }

 private:
  std::vector<io::PacketBuf*> taken_;
};

TEST_F(AnnouncementsTest, AClientIsToldOfItsSessionAndThenOfItsBytes) {
  receive_text(0, 100);
  EXPECT_EQ(announcements.announce_all(), 1u);
  const auto opened = next_completion();
  ASSERT_TRUE(opened.has_value());
  EXPECT_EQ(opened->event, channel::Event::kConnected);
  EXPECT_EQ(opened->session, state.name_of(conn));
  const auto data = next_completion();
  ASSERT_TRUE(data.has_value());
  EXPECT_EQ(data->event, channel::Event::kData);
  EXPECT_EQ(data->body.data[0].bytes, 100u);
  const uint8_t* bytes = memory.rx_memory().data() + data->body.data[0].offset;
  for (uint32_t i = 0; i < 100; ++i) ASSERT_EQ(bytes[i], i);
}

TEST_F(AnnouncementsTest, BytesAreTakenOnceAndTheirSlotStaysInTheClientsAccount) {
  receive_text(0, 100);
  ASSERT_TRUE(announcements.take_received(conn).has_value());
  EXPECT_FALSE(announcements.take_received(conn).has_value());
  EXPECT_EQ(state.accounts.held_by(kContext), 1u);
}

TEST_F(AnnouncementsTest, AClientBeyondItsShareIsLentNothingWhenSlotsAreFew) {
  take_slots_until(3);
  EXPECT_TRUE(announcements.may_lend(kContext));
  state.accounts.add(kContext, 10);
  EXPECT_FALSE(announcements.may_lend(kContext));
  state.accounts.remove(kContext, 10);
}

TEST_F(AnnouncementsTest, AClientBeyondItsShareIsLentSlotsWhileTheyArePlentiful) {
  state.accounts.add(kContext, 15);
  take_slots_until(8);
  EXPECT_TRUE(announcements.may_lend(kContext));
  state.accounts.remove(kContext, 15);
}

TEST_F(AnnouncementsTest, AnAcceptedSessionLeavesItsListenerWhenTheClientWasTold) {
  const uint32_t index = state.listeners.add({.local = {kOwn, 5000}, .backlog = 4});
  Listener& listener = state.listeners[index];
  listener.begin_handshake();
  listener.end_handshake();
  session::Session& accepted = state.session(conn);
  accepted.is_passive = true;
  accepted.listener = index;
  accepted.listener_generation = listener.generation;
  announce();
  EXPECT_EQ(listener.pending, 0u);
  EXPECT_EQ(accepted.listener, session::kNoIndex);
  EXPECT_EQ(listener.waiting(), 1u) << "the client may not have read it";
  while (next_completion()) {
  }
  listener.forget_read(state.contexts[kContext].completions);
  EXPECT_EQ(listener.waiting(), 0u);
}

TEST_F(AnnouncementsTest, ASessionIsForgottenWhenTheClientWasToldOfItsEnd) {
  announce();
  lifecycle.abort(conn, channel::EndStatus::kNoResources);
  ASSERT_TRUE(state.engine.is_open(conn));
  announcements.announce_all();
  const auto told = next_completion();
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->event, channel::Event::kEnded);
  EXPECT_EQ(told->status, channel::EndStatus::kNoResources);
  EXPECT_FALSE(state.engine.is_open(conn));
  EXPECT_TRUE(state.contexts[kContext].sessions.empty());
}

}  // namespace
}  // namespace lyre::worker
