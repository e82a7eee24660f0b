#include "stack/worker/passive_open.h"

#include <gtest/gtest.h>

#include "tests/unit/stack/ip/frame_builder.h"
#include "tests/unit/stack/worker/worker_parts.h"

namespace lyre::worker {
namespace {

constexpr uint16_t kPort = 5000;
constexpr size_t kFlagsAt = 14 + 20 + 13;  // of an Ethernet frame with IPv4 and TCP

/// The first of two workers, whose ring to the second one is full.
class PassiveOpenTest : public WorkerParts {
 protected:
  PassiveOpenTest() {
    state.router = ConnectionRouter(
        {.index = 0, .worker_count = 2, .rings = &rings, .claims_max = 8, .key = {1, 2}});
    while (rings.ring(0, 1).try_post({})) {
    }
    attach();
    const uint32_t index = state.listeners.add({.local = {kOwn, kPort}, .backlog = 1});
    state.listeners[index].context = kContext;
  }
  /// Of a connection whose home is the second worker.
  FourTuple elsewhere() {
    FourTuple tuple{{kOwn, kPort}, {kPeer.address, 1024}};
    while (state.router.can_claim(tuple)) ++tuple.remote.port;
    return tuple;
  }
  PacketFate receive(const FourTuple& tuple, const tcp::SegmentIn& segment) {
    ip::TcpOutput sent;
    sent.tuple = {tuple.remote, tuple.local};
    std::vector<uint8_t> frame = ip::tcp_frame(sent);
    io::PacketBuf packet = ip::received(frame);
    ip::TcpInput received;
    received.tuple = tuple;
    return passive_open.on_segment(&packet, received, segment, std::nullopt);
  }

  /// The ACK of a peer that was answered with a cookie.
  tcp::SegmentIn cookie_ack(const FourTuple& tuple) {
    const tcp::SegmentIn syn{.seq = SeqNum(1000), .flags = {wire::TcpFlags::kSyn}};
    const auto route = state.routes.lookup_from(kOwn, kPeer.address);
    const tcp::SegmentOut answer =
        state.engine.answer_with_cookie(tuple, lifecycle.connection_config(*route), syn, state.now);
    return {.seq = SeqNum(1001),
            .ack = answer.seq + 1,
            .flags = {wire::TcpFlags::kAck},
            .window = 1000};
  }
  void use_up_resets_of_the_network() {
    while (state.places.take_reset(state.accounts.user_of(session::kNoContext), state.now)) {
    }
  }

  InterWorkerRings rings{2};
};

// The ACK was dropped, so a peer that waited for the first word of its server waited for ever.
TEST_F(PassiveOpenTest, ACookieForWhichNoClaimFindsRoomIsReset) {
  const FourTuple tuple = elsewhere();
  EXPECT_EQ(receive(tuple, cookie_ack(tuple)), PacketFate::kUnused);
  EXPECT_EQ(drops(Drop::kTcpNoConnection), 1u);
  EXPECT_EQ(drops(Drop::kRedirectFull), 0u) << "a packet is counted once";
  const auto frames = take_frames();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_TRUE(frames[0][kFlagsAt] & wire::TcpFlags::kRst);
}

TEST_F(PassiveOpenTest, ARstThatIsWithheldIsCounted) {
  const FourTuple nobody{{kOwn, kPort + 1}, {kPeer.address, 1024}};
  const tcp::SegmentIn ack{.seq = SeqNum(1), .ack = SeqNum(1), .flags = {wire::TcpFlags::kAck}};
  EXPECT_EQ(receive(nobody, ack), PacketFate::kUnused);
  EXPECT_EQ(drops(Drop::kTcpNoConnection), 1u);
  EXPECT_EQ(take_frames().size(), 1u);
  use_up_resets_of_the_network();
  EXPECT_EQ(receive(nobody, ack), PacketFate::kUnused);
  EXPECT_EQ(drops(Drop::kTcpNoConnection), 1u);
  EXPECT_EQ(drops(Drop::kTcpResetLimited), 1u);
  EXPECT_TRUE(take_frames().empty());
}

// They had no limit.
TEST_F(PassiveOpenTest, RstsForCookiesAreLimitedApartFromOthers) {
  const FourTuple tuple = elsewhere();
  use_up_resets_of_the_network();
  EXPECT_EQ(receive(tuple, cookie_ack(tuple)), PacketFate::kUnused);
  EXPECT_EQ(take_frames().size(), 1u);
  while (state.places.take_cookie_reset(state.now)) {
  }
  EXPECT_EQ(receive(tuple, cookie_ack(tuple)), PacketFate::kUnused);
  EXPECT_EQ(drops(Drop::kTcpResetLimited), 1u);
  EXPECT_TRUE(take_frames().empty());
}

// An open that finds no room for its claim was never answered, so its peer repeats it.
TEST_F(PassiveOpenTest, ASynForWhichNoClaimFindsRoomIsDropped) {
  EXPECT_EQ(receive(elsewhere(), {.seq = SeqNum(1000), .flags = {wire::TcpFlags::kSyn}}),
            PacketFate::kUnused);
  EXPECT_EQ(drops(Drop::kRedirectFull), 1u);
  EXPECT_TRUE(take_frames().empty());
}

}  // namespace
}  // namespace lyre::worker
