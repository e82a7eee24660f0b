#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "libclient/arena.h"
#include "tests/unit/libclient/fake_daemon.h"

namespace lyre::client {
namespace {

using channel::SessionName;

constexpr size_t kPart = 64 * 1024;  ///< a block of lyre_send()

/// A context with an arena of `arena_bytes`, and any number of sessions.
class Sends : public ::testing::Test {
 protected:
  explicit Sends(uint64_t arena_bytes = 64u << 20) : daemon_({.arena_bytes = arena_bytes}) {}
  ~Sends() override { lyre_context_close(context_); }

  static SessionName name(uint32_t index) { return {.index = index, .generation = 1}; }
  lyre_session* open(uint32_t index) { return open_session(daemon_, context_, name(index)); }
  /// Sends until nothing is taken, as to a peer that does not read. Returns the bytes taken.
  size_t fill(lyre_session* session) {
    const std::vector<uint8_t> bytes(1u << 20, 0x5a);
    size_t sum = 0;
    for (int64_t taken = 0; (taken = lyre_send(session, bytes.data(), bytes.size())) > 0;) {
      sum += static_cast<size_t>(taken);
      while (daemon_.try_take()) continue;
    }
    return sum;
  }

  FakeDaemon daemon_;
  lyre_context* context_ = daemon_.attach();
};

TEST_F(Sends, HaveABoundForEachSession) {
  lyre_session* session = open(0);
  for (uint32_t i = 0; i < channel::kSendsOutstandingMax; ++i) {
    ASSERT_EQ(1, lyre_send(session, "x", 1));
    daemon_.take();
  }
  EXPECT_EQ(LYRE_E_AGAIN, lyre_send(session, "x", 1));
  daemon_.tell(send_done(name(0), 1));
  lyre_poll(context_, 0);
  EXPECT_EQ(1, lyre_send(session, "x", 1));
}

TEST_F(Sends, OfPeersThatDoNotReadLeaveRoomForOthers) {
  for (uint32_t i = 0; i < 40; ++i) EXPECT_LE(kPart, fill(open(i))) << i;
  lyre_session* another = open(40);
  ASSERT_LE(static_cast<int64_t>(kPart), lyre_send(another, std::string(kPart, 'x').data(), kPart));
  EXPECT_EQ(LYRE_E_AGAIN, lyre_send(another, "x", 1));
  EXPECT_STREQ("the session has its share of the arena", lyre_last_error());
  daemon_.tell(send_done(name(40), 1));
  EXPECT_EQ(1, lyre_poll(context_, 0)) << "the end of its own send is an event";
  EXPECT_EQ(1, lyre_send(another, "x", 1));
}

TEST_F(Sends, OfFewSessionsHaveAllThatEachMayUse) {
  constexpr size_t kMost = channel::kSendsOutstandingMax * kPart;
  EXPECT_EQ(kMost, fill(open(0)));
  EXPECT_EQ(kMost, fill(open(1)));
}

/// A large arena: the number of sends is what runs out.
class ManySends : public Sends {
 protected:
  ManySends() : Sends(128u << 20) {}
};

TEST_F(ManySends, OfAContextAreDividedAmongItsSessions) {
  constexpr uint32_t kSessions = channel::kSendsPerContextMax / channel::kSendsOutstandingMax;
  for (uint32_t i = 0; i < kSessions; ++i) {
    lyre_session* session = open(i);
    for (uint32_t sent = 0; lyre_send(session, "x", 1) == 1; ++sent) {
      ASSERT_LT(sent, channel::kSendsOutstandingMax);
      daemon_.take();
    }
  }
  lyre_session* another = open(kSessions);
  ASSERT_EQ(1, lyre_send(another, "x", 1));
  EXPECT_EQ(LYRE_E_AGAIN, lyre_send(another, "x", 1));
  EXPECT_STREQ("the context has too many sends under way", lyre_last_error());
  daemon_.tell(send_done(name(kSessions), 1));
  EXPECT_EQ(1, lyre_poll(context_, 0));
  EXPECT_EQ(1, lyre_send(another, "x", 1));
}

class OneMebibyte : public Sends {
 protected:
  OneMebibyte() : Sends(1u << 20) {}
};

TEST_F(OneMebibyte, GivesASessionThatIsAloneHalf) {
  lyre_session* session = open(0);
  EXPECT_EQ(8 * kPart, fill(session));
  daemon_.tell(send_done(name(0), 2));
  lyre_poll(context_, 0);
  EXPECT_EQ(2 * kPart, fill(session));
}

TEST_F(OneMebibyte, RefusesABlockThatItNeverHas) {
  lyre_block block{};
  EXPECT_EQ(LYRE_E_INVALID, lyre_block_alloc(context_, (1u << 20) + 1, &block));
  EXPECT_STREQ(
      "a block of 1048577 bytes: an arena of 1048576 bytes (lyre_options.arena_bytes) has blocks "
      "of at most 1048576",
      lyre_last_error());
  EXPECT_EQ(0, lyre_block_alloc(context_, 1u << 20, &block));
  lyre_block more{};
  EXPECT_EQ(LYRE_E_AGAIN, lyre_block_alloc(context_, 1u << 20, &more)) << "that one comes back";
}

TEST_F(OneMebibyte, RefusesToCopyASendThatNeverFits) {
  std::vector<uint8_t> memory(2u << 20);  // private memory: each send is copied
  lyre_session* session = open(0);
  lyre_region* region = nullptr;
  ASSERT_EQ(0, lyre_register(context_, memory.data(), memory.size(), &region));
  ASSERT_EQ(0, lyre_region_is_direct(region, nullptr));
  EXPECT_EQ(LYRE_E_INVALID, lyre_send_region(session, region, memory.data(), (1u << 20) + 1, 0));
  EXPECT_EQ(0, lyre_send_region(session, region, memory.data(), 1u << 20, 0));
}

/// What happened on `session`, of all events that wait.
uint64_t events_of(lyre_context* context, const lyre_session* session) {
  uint64_t happened = 0;
  for (lyre_event event = next_event(context); event.happened != 0; event = next_event(context)) {
    if (event.session == session) happened |= event.happened;
  }
  return happened;
}

/// A session that is refused because another one has the whole arena.
class Refused : public OneMebibyte {
 protected:
  Refused() {
    EXPECT_EQ(0, lyre_block_alloc(context_, 1u << 20, &block_));
    EXPECT_EQ(LYRE_E_AGAIN, lyre_send(session_, "x", 1));
    EXPECT_EQ(0, lyre_poll(context_, 0));
  }

  lyre_session* greedy_ = open(0);
  lyre_session* session_ = open(1);
  lyre_block block_{};
};

// It has no send of its own whose end would be an event.
TEST_F(Refused, IsToldWhenAnotherSessionsSendIsDone) {
  EXPECT_EQ(0, lyre_send_block(greedy_, &block_, 1u << 20, 0));
  daemon_.tell(send_done(name(0), 1));
  EXPECT_EQ(1, lyre_poll(context_, 0));
  EXPECT_EQ(LYRE_EVENT_WRITABLE, events_of(context_, session_));
  EXPECT_EQ(1, lyre_send(session_, "x", 1));
  daemon_.tell(send_done(name(1), 1));
  EXPECT_EQ(1, lyre_poll(context_, 0));
  EXPECT_EQ(LYRE_EVENT_SENT, events_of(context_, session_)) << "told once";
}

TEST_F(Refused, IsToldWhenABlockIsFreed) {
  EXPECT_EQ(0, lyre_arm(context_));
  lyre_block_free(context_, &block_);
  EXPECT_EQ(1, lyre_arm(context_));
  EXPECT_EQ(1, lyre_poll(context_, 0));
  EXPECT_EQ(LYRE_EVENT_WRITABLE, events_of(context_, session_));
}

TEST_F(Refused, IsNotToldOnceItIsClosed) {
  lyre_close(session_);
  lyre_block_free(context_, &block_);
  EXPECT_EQ(0, lyre_poll(context_, 0));
  daemon_.tell(ended(name(1)));
  EXPECT_EQ(1, lyre_poll(context_, 0)) << "the end of a closed session";
  EXPECT_EQ(0u, next_event(context_).happened);
}

TEST_F(Sends, ThatAFullRingRefusedAreToldOfItsRoom) {
  constexpr uint32_t kFillers = 8;
  lyre_session* fillers[kFillers];
  for (uint32_t i = 0; i < kFillers; ++i) fillers[i] = open(i);
  lyre_session* session = open(kFillers);
  for (uint32_t i = 0; i < channel::kSubmissionEntries; ++i) {
    ASSERT_EQ(1, lyre_send(fillers[i % kFillers], "x", 1)) << lyre_last_error();
  }
  EXPECT_EQ(LYRE_E_AGAIN, lyre_send(session, "x", 1));
  EXPECT_EQ(0, lyre_poll(context_, 0));
  daemon_.take();
  EXPECT_EQ(1, lyre_poll(context_, 0));
  EXPECT_EQ(LYRE_EVENT_WRITABLE, events_of(context_, session));
}

// Their memory may still be read: only lyre_deregister() tells.
TEST_F(Sends, HaveNoTagsAfterTheContextIsOver) {
  lyre_session* session = open(0);
  lyre_block block{};
  ASSERT_EQ(0, lyre_block_alloc(context_, kPart, &block));
  ASSERT_EQ(0, lyre_send_block(session, &block, kPart, 11));
  daemon_.hang_up();
  int code = 0;
  while (code >= 0) code = lyre_poll(context_, 100);
  EXPECT_EQ(LYRE_E_DAEMON, code);
  EXPECT_EQ(LYRE_EVENT_ENDED, events_of(context_, session));
  EXPECT_EQ(0u, lyre_next_sent(session));
  EXPECT_EQ(kPart, lyre_unacked_bytes(session));
}

class ThreePages : public Sends {
 protected:
  ThreePages() : Sends(3 * Arena::kBlockBytesMin) {}
};

TEST_F(ThreePages, TakesASendInPartsThatFit) {
  lyre_session* session = open(0);
  const std::string text(kPart, 'x');
  EXPECT_EQ(static_cast<int64_t>(2 * Arena::kBlockBytesMin),
            lyre_send(session, text.data(), text.size()));
  EXPECT_EQ(2 * Arena::kBlockBytesMin, daemon_.take().body.send.bytes);
}

}  // namespace
}  // namespace lyre::client
