// The parts of the host under test: its listeners, addresses, received payload and sent packets.
#include <gtest/gtest.h>

#include <numeric>

#include "tests/conformance/listeners.h"
#include "tests/conformance/own_addresses.h"
#include "tests/conformance/packet_output.h"
#include "tests/conformance/payload_store.h"

namespace lyre::conformance {
namespace {

const IpAddress kOwn = IpAddress::v4(0xc0a80001);
const IpAddress kPeer = IpAddress::v4(0xc0000201);

TEST(Listeners, AnExactAddressGoesBeforeAnyAddress) {
  Listeners listeners;
  listeners.open(3, {IpAddress{}, 80}, 1, {});
  listeners.open(4, {kOwn, 80}, 1, {});
  EXPECT_EQ(listeners.find({kOwn, 80}), 4);
  EXPECT_EQ(listeners.find({kPeer, 80}), 3);
  EXPECT_EQ(listeners.find({kOwn, 81}), Listeners::kNone);
  EXPECT_TRUE(listeners.is_port_bound(80));
  listeners.close(3);
  listeners.close(4);
  EXPECT_FALSE(listeners.is_port_bound(80));
}

TEST(Listeners, ABacklogOfNTakesNAndOneMore) {
  Listeners listeners;
  listeners.open(3, {kOwn, 80}, 1, {});
  for (tcp::ConnId conn = 1; conn <= 2; ++conn) {
    EXPECT_EQ(listeners.at(3).answer_to_syn({}), worker::SynAnswer::kOpen);
    listeners.at(3).begin_handshake();
    listeners.on_established(3, conn);
  }
  EXPECT_EQ(listeners.at(3).answer_to_syn({}), worker::SynAnswer::kBacklogFull);
  EXPECT_EQ(listeners.accept(3), tcp::ConnId{1});
  EXPECT_EQ(listeners.at(3).answer_to_syn({}), worker::SynAnswer::kOpen);
  EXPECT_EQ(listeners.accept(3), tcp::ConnId{2});
  EXPECT_EQ(listeners.accept(3), std::nullopt);
}

TEST(PayloadStore, KeepsEachPayloadUntilItIsErased) {
  PayloadStore store;
  const std::vector<uint8_t> first = {1, 2};
  const std::vector<uint8_t> second = {3};
  const uint32_t a = store.keep(first);
  const uint32_t b = store.keep(second);
  EXPECT_EQ(store.at(a), first);
  EXPECT_EQ(store.at(b), second);
  store.erase(a);
  EXPECT_EQ(store.size(), 1u);
}

class Output : public ::testing::Test {
 protected:
  static uint8_t tcp_flags(const EmittedPacket& packet) { return packet.bytes[20 + 13]; }

  const FourTuple tuple_{{kOwn, 80}, {kPeer, 4000}};
  PacketOutput output_;
};

TEST_F(Output, ALargeSendIsCutAsAPortWouldCutIt) {
  using wire::TcpFlags;
  std::vector<uint8_t> queue(250);
  std::iota(queue.begin(), queue.end(), uint8_t{0});
  tcp::SegmentOut large{};
  large.flags.bits = TcpFlags::kAck | TcpFlags::kPsh | TcpFlags::kFin | TcpFlags::kCwr;
  large.payload_bytes = 200;
  large.queue_offset = 50;
  large.mss_bytes = 100;
  output_.emit_cut(tuple_, large, queue, seconds(1));
  const auto first = output_.take();
  const auto second = output_.take();
  ASSERT_TRUE(first && second);
  EXPECT_TRUE(output_.is_empty());
  EXPECT_EQ(tcp_flags(*first), TcpFlags::kAck | TcpFlags::kCwr);
  EXPECT_EQ(tcp_flags(*second), TcpFlags::kAck | TcpFlags::kPsh | TcpFlags::kFin);
  EXPECT_EQ(first->bytes.back(), 149);
  EXPECT_EQ(second->bytes.back(), 249);
  EXPECT_EQ(second->at, seconds(1));
}

TEST_F(Output, ASegmentWithoutPayloadIsOnePacket) {
  output_.emit_cut(tuple_, {}, {}, seconds(1));
  EXPECT_TRUE(output_.take().has_value());
  EXPECT_FALSE(output_.take().has_value());
}

TEST_F(Output, LearnedAddressesAreOwnOnes) {
  OwnAddresses addresses{StackOptions{}};
  output_.emit({{kOwn, 80}, {kPeer, 4000}}, {}, {}, seconds(1));
  EXPECT_FALSE(addresses.routes().is_own(kPeer));
  addresses.learn_from(output_.take()->bytes);
  EXPECT_TRUE(addresses.routes().is_own(kPeer));
  addresses.learn_from(std::vector<uint8_t>{0x45, 0});
}

}  // namespace
}  // namespace lyre::conformance
