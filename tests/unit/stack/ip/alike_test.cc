#include "stack/ip/alike.h"

#include <gtest/gtest.h>

#include "stack/ip/input.h"
#include "stack/ip/output.h"
#include "tests/unit/stack/ip/frame_builder.h"

namespace lyre::ip {
namespace {

constexpr uint32_t kSeq = 1000;
constexpr uint32_t kTextBytes = 100;

TcpOutput segment(uint32_t seq, uint16_t ip_id) {
  TcpOutput out;
  out.frame = {kPeerMac, kOwnMac};
  out.tuple = {{kPeerIp, 4000}, {kOwnIp, 80}};
  out.header.seq = SeqNum(seq);
  out.header.ack = SeqNum(2000);
  out.header.flags.set(wire::TcpFlags::kAck);
  out.header.window = 512;
  out.header.options.has_timestamps = true;
  out.payload_bytes = kTextBytes;
  out.ip_id = ip_id;
  return out;
}

class AlikeTest : public testing::Test {
 protected:
  AlikeTest() : first_(tcp_frame(segment(kSeq, 1))) {
    routes_.add_address(0, kOwnIp, 96 + 24);
    model_ = std::span(first_).first(first_.size() - kTextBytes);
  }
  bool is_alike_frame(std::vector<uint8_t> frame, uint32_t seq = kSeq + kTextBytes) {
    frame_ = std::move(frame);
    return is_alike(received(frame_), model_, SeqNum(seq), payload_);
  }

  RouteTable routes_;
  std::vector<uint8_t> first_;
  std::span<const uint8_t> model_;
  std::vector<uint8_t> frame_;
  std::span<const uint8_t> payload_;
};

TEST_F(AlikeTest, TheNextSegmentOfAStreamIs) {
  ASSERT_TRUE(can_be_model(model_));
  ASSERT_TRUE(is_alike_frame(tcp_frame(segment(kSeq + kTextBytes, 2))));
  ASSERT_EQ(payload_.size(), kTextBytes);
  EXPECT_EQ(payload_[3], 3);
}

TEST_F(AlikeTest, PaddingIsNotText) {
  std::vector<uint8_t> frame = tcp_frame(segment(kSeq + kTextBytes, 2));
  frame.resize(frame.size() + 9);
  ASSERT_TRUE(is_alike_frame(frame));
  EXPECT_EQ(payload_.size(), kTextBytes);
}

TEST_F(AlikeTest, SaysNothingOfAnotherPlaceInTheStream) {
  EXPECT_FALSE(is_alike_frame(tcp_frame(segment(kSeq + kTextBytes + 1, 2))));
}

TEST_F(AlikeTest, RefusesWhatTheCheckSumsRefuse) {
  std::vector<uint8_t> frame = tcp_frame(segment(kSeq + kTextBytes, 2));
  frame.back() ^= 1;
  EXPECT_FALSE(is_alike_frame(frame)) << "text";
  frame.back() ^= 1;
  frame[wire::kEthernetHeaderBytes + 4] ^= 1;
  EXPECT_FALSE(is_alike_frame(frame)) << "IP header";
}

TEST_F(AlikeTest, RefusesLengthsThatDoNotFit) {
  const std::vector<uint8_t> good = tcp_frame(segment(kSeq + kTextBytes, 2));
  for (uint32_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(is_alike_frame({good.begin(), good.begin() + length})) << length;
  }
}

// The twin of classify(): whatever byte of the headers differs, either the slow way finds the same
// segment in it, or the fast one does not take it.
TEST_F(AlikeTest, AgreesWithTheSlowWayOnEveryByteOfTheHeaders) {
  const std::vector<uint8_t> good = tcp_frame(segment(kSeq + kTextBytes, 2));
  size_t taken = 0;
  for (size_t at = 0; at < model_.size(); ++at) {
    std::vector<uint8_t> changed = good;
    changed[at] ^= 0x10;
    io::PacketBuf packet = received(changed);
    packet.ip_checksum = packet.l4_checksum = io::ChecksumVerdict::kGood;
    if (!is_alike(packet, model_, SeqNum(kSeq + kTextBytes), payload_)) continue;
    ++taken;
    Classified slow;
    ASSERT_EQ(classify(packet, kOwnMac, routes_, Origin::kWire, slow), InputKind::kTcp) << at;
    EXPECT_EQ(slow.tcp.payload.data(), payload_.data()) << at;
    EXPECT_EQ(slow.tcp.payload.size(), payload_.size()) << at;
    EXPECT_EQ(slow.tcp.parsed.header.flags.bits, wire::TcpFlags::kAck) << at;
    EXPECT_EQ(slow.tcp.parsed.header.ack, SeqNum(2000)) << at;
    EXPECT_EQ(slow.tcp.parsed.header.window, 512) << at;
    EXPECT_EQ(slow.tcp.ecn, wire::Ecn::kNotEct) << at;
  }
  EXPECT_GE(taken, 6u) << "identification and both checksums, at least, may differ";
}

// What is copied for a later cut says the same as what would have been written for it.
TEST_F(AlikeTest, ARepeatedHeaderIsTheOneThatWouldBeWritten) {
  TcpOutput output = segment(kSeq, 5);
  output.header.flags.set(wire::TcpFlags::kCwr);
  TestPacket model;
  model.buf.length = kTextBytes;
  write_tcp_packet(model.buf, output);
  TestPacket repeated;
  repeated.buf.length = kTextBytes;
  repeat_tcp_packet(repeated.buf, model.buf, SeqNum(kSeq + kTextBytes), 6);
  TestPacket written;
  written.buf.length = kTextBytes;
  write_tcp_packet(written.buf, segment(kSeq + kTextBytes, 6));
  EXPECT_EQ(std::vector(repeated.buf.data, repeated.buf.data + repeated.buf.length),
            std::vector(written.buf.data, written.buf.data + written.buf.length));
  EXPECT_TRUE(repeated.buf.wants_checksums);
  EXPECT_EQ(repeated.buf.l4_bytes, written.buf.l4_bytes);
}

}  // namespace
}  // namespace lyre::ip
