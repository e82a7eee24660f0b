#include "stack/ip/header_match.h"

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

class HeaderMatchTest : public testing::Test {
 protected:
  HeaderMatchTest() : first_(tcp_frame(segment(kSeq, 1))) {
    routes_.add_address(0, kOwnIp, 96 + 24);
    headers_ = std::span(first_).first(first_.size() - kTextBytes);
  }
  bool matches(std::vector<uint8_t> frame, uint32_t seq = kSeq + kTextBytes) {
    frame_ = std::move(frame);
    return header_match(received(frame_), headers_, SeqNum(seq), payload_);
  }

  RouteTable routes_;
  std::vector<uint8_t> first_;
  std::span<const uint8_t> headers_;
  std::vector<uint8_t> frame_;
  std::span<const uint8_t> payload_;
};

TEST_F(HeaderMatchTest, TheNextSegmentOfAStreamMatches) {
  ASSERT_TRUE(can_match_headers(headers_));
  ASSERT_TRUE(matches(tcp_frame(segment(kSeq + kTextBytes, 2))));
  ASSERT_EQ(payload_.size(), kTextBytes);
  EXPECT_EQ(payload_[3], 3);
}

TEST_F(HeaderMatchTest, PaddingIsNotText) {
  std::vector<uint8_t> frame = tcp_frame(segment(kSeq + kTextBytes, 2));
  frame.resize(frame.size() + 9);
  ASSERT_TRUE(matches(frame));
  EXPECT_EQ(payload_.size(), kTextBytes);
}

TEST_F(HeaderMatchTest, AnotherSequenceNumberDoesNotMatch) {
  EXPECT_FALSE(matches(tcp_frame(segment(kSeq + kTextBytes + 1, 2))));
}

TEST_F(HeaderMatchTest, WrongChecksumsDoNotMatch) {
  std::vector<uint8_t> frame = tcp_frame(segment(kSeq + kTextBytes, 2));
  frame.back() ^= 1;
  EXPECT_FALSE(matches(frame)) << "text";
  frame.back() ^= 1;
  frame[wire::kEthernetHeaderBytes + 4] ^= 1;
  EXPECT_FALSE(matches(frame)) << "IP header";
}

TEST_F(HeaderMatchTest, LengthsThatDoNotFitDoNotMatch) {
  const std::vector<uint8_t> good = tcp_frame(segment(kSeq + kTextBytes, 2));
  for (uint32_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(matches({good.begin(), good.begin() + length})) << length;
  }
}

// For a change of any byte of the headers, either classify() finds the same segment in the packet,
// or header_match() refuses it.
TEST_F(HeaderMatchTest, AgreesWithClassifyOnEveryByteOfTheHeaders) {
  const std::vector<uint8_t> good = tcp_frame(segment(kSeq + kTextBytes, 2));
  size_t taken = 0;
  for (size_t at = 0; at < headers_.size(); ++at) {
    std::vector<uint8_t> changed = good;
    changed[at] ^= 0x10;
    io::PacketBuf packet = received(changed);
    packet.ip_checksum = packet.l4_checksum = io::ChecksumVerdict::kGood;
    if (!header_match(packet, headers_, SeqNum(kSeq + kTextBytes), payload_)) continue;
    ++taken;
    Classified parsed;
    ASSERT_EQ(classify(packet, kOwnMac, routes_, Origin::kWire, parsed), InputKind::kTcp) << at;
    EXPECT_EQ(parsed.tcp.payload.data(), payload_.data()) << at;
    EXPECT_EQ(parsed.tcp.payload.size(), payload_.size()) << at;
    EXPECT_EQ(parsed.tcp.parsed.header.flags.bits, wire::TcpFlags::kAck) << at;
    EXPECT_EQ(parsed.tcp.parsed.header.ack, SeqNum(2000)) << at;
    EXPECT_EQ(parsed.tcp.parsed.header.window, 512) << at;
    EXPECT_EQ(parsed.tcp.ecn, wire::Ecn::kNotEct) << at;
  }
  EXPECT_GE(taken, 6u) << "identification and both checksums, at least, may differ";
}

// Headers that repeat_tcp_packet() copies equal those that write_tcp_packet() would write.
TEST_F(HeaderMatchTest, ARepeatedHeaderIsTheOneThatWouldBeWritten) {
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
