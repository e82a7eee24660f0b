#include "stack/wire/tcp_segment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "stack/base/checksum.h"
#include "stack/base/rng.h"
#include "stack/wire/bytes.h"
#include "tests/unit/stack/wire/bytes_of.h"

namespace lyre::wire {
namespace {

const IpAddress kA = IpAddress::v4(0x0a000001);
const IpAddress kB = IpAddress::v4(0x0a000002);

/// A 20-byte header followed by `options` (a multiple of four bytes).
std::vector<uint8_t> segment_with(const std::vector<uint8_t>& options) {
  std::vector<uint8_t> out(kTcpHeaderBytesMin + options.size());
  out[12] = static_cast<uint8_t>(out.size() / 4 << 4);
  std::copy(options.begin(), options.end(), out.begin() + kTcpHeaderBytesMin);
  return out;
}

std::vector<uint8_t> written(const TcpHeader& header) {
  std::vector<uint8_t> out(kTcpHeaderBytesMax);
  out.resize(write_tcp(header, 0, out));
  return out;
}

TEST(TcpSegment, SynOptionsAreInTheOrderOfLinux) {
  TcpHeader header;
  header.flags.set(TcpFlags::kSyn);
  header.options.mss = 1460;
  header.options.sack_permitted = true;
  header.options.has_timestamps = true;
  header.options.ts_value = 0x01020304;
  header.options.window_scale = 7;
  const auto out = written(header);
  const auto expected = bytes_of("02 04 05 b4 04 02 08 0a 01 02 03 04 00 00 00 00 01 03 03 07");
  EXPECT_EQ(std::vector<uint8_t>(out.begin() + 20, out.end()), expected);
}

TEST(TcpSegment, SackPermittedWithoutTimestampsIsPadded) {
  // RFC 2018 2.
  TcpHeader header;
  header.options.mss = 1460;
  header.options.sack_permitted = true;
  const auto out = written(header);
  EXPECT_EQ(std::vector<uint8_t>(out.begin() + 20, out.end()), bytes_of("02 04 05 b4 01 01 04 02"));
}

TEST(TcpSegment, ThreeSacksFitBesideTimestamps) {
  // RFC 2018 3.
  TcpHeader header;
  header.options.has_timestamps = true;
  header.options.sack_count = 4;
  for (uint32_t i = 0; i < 4; ++i) {
    header.options.sacks[i] = {SeqNum(100 * i), SeqNum(100 * i + 50)};
  }
  EXPECT_EQ(tcp_header_bytes(header), 60u);
  Drop drop{};
  auto parsed = parse_tcp(written(header), drop);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->header.options.sack_count, 3);
  EXPECT_EQ(parsed->header.options.sacks[2], header.options.sacks[2]);

  header.options.has_timestamps = false;
  parsed = parse_tcp(written(header), drop);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->header.options.sack_count, 4);
}

TcpHeader random_header(Rng& rng) {
  TcpHeader header;
  header.source_port = static_cast<uint16_t>(rng.next());
  header.destination_port = static_cast<uint16_t>(rng.next());
  header.seq = SeqNum(static_cast<uint32_t>(rng.next()));
  header.ack = SeqNum(static_cast<uint32_t>(rng.next()));
  header.flags.bits = static_cast<uint8_t>(rng.next());
  header.window = static_cast<uint16_t>(rng.next());
  TcpOptions& options = header.options;
  if (rng.below(2)) options.mss = static_cast<uint16_t>(rng.next());
  if (rng.below(2)) options.window_scale = static_cast<uint8_t>(rng.below(15));
  options.sack_permitted = rng.below(2) != 0;
  options.has_timestamps = rng.below(2) != 0;
  if (options.has_timestamps) {
    options.ts_value = static_cast<uint32_t>(rng.next());
    options.ts_echo = static_cast<uint32_t>(rng.next());
  }
  options.sack_count = static_cast<uint8_t>(rng.below(5));
  for (SackBlock& block : options.sacks) block = {SeqNum(1), SeqNum(uint32_t(rng.next()))};
  return header;
}

TEST(TcpSegment, AnyHeaderReadsBackAsWritten) {
  Rng rng(7);
  for (int round = 0; round < 2000; ++round) {
    const TcpHeader header = random_header(rng);
    const auto bytes = written(header);
    ASSERT_EQ(bytes.size(), tcp_header_bytes(header));
    ASSERT_EQ(bytes.size() % 4, 0u);
    Drop drop{};
    const auto parsed = parse_tcp(bytes, drop);
    ASSERT_TRUE(parsed) << "round " << round;
    const TcpHeader& back = parsed->header;
    EXPECT_EQ(back.source_port, header.source_port);
    EXPECT_EQ(back.destination_port, header.destination_port);
    EXPECT_EQ(back.seq, header.seq);
    EXPECT_EQ(back.ack, header.ack);
    EXPECT_EQ(back.flags, header.flags);
    EXPECT_EQ(back.window, header.window);
    EXPECT_EQ(back.options.mss, header.options.mss);
    EXPECT_EQ(back.options.window_scale, header.options.window_scale);
    EXPECT_EQ(back.options.sack_permitted, header.options.sack_permitted);
    EXPECT_EQ(back.options.has_timestamps, header.options.has_timestamps);
    EXPECT_EQ(back.options.ts_value, header.options.ts_value);
    EXPECT_EQ(back.options.ts_echo, header.options.ts_echo);
    EXPECT_LE(back.options.sack_count, header.options.sack_count);
    for (uint32_t i = 0; i < back.options.sack_count; ++i) {
      EXPECT_EQ(back.options.sacks[i], header.options.sacks[i]);
    }
  }
}

TEST(TcpSegment, RefusesBadOffsetsAndLengths) {
  auto segment = segment_with({});
  Drop drop{};
  EXPECT_FALSE(parse_tcp(std::span(segment).first(19), drop));
  EXPECT_EQ(drop, Drop::kTcpTooShort);
  segment[12] = 0x40;
  EXPECT_FALSE(parse_tcp(segment, drop));
  EXPECT_EQ(drop, Drop::kTcpBadDataOffset);
  segment[12] = 0x60;
  EXPECT_FALSE(parse_tcp(segment, drop));
  EXPECT_EQ(drop, Drop::kTcpBadDataOffset);
}

TEST(TcpSegment, OptionsEndBeforeOneThatLiesAboutItsLength) {
  // RFC 9293 3.2 (MUST-7). The window scale stands before the malformed option.
  const char* bad[] = {"02 00 05 b4",
                       "02 01 05 b4",
                       "02 05 05 b4",
                       "01 01 01 08",
                       "08 0a 00 00 00 00 00 00",
                       "05 0a 00 00 00 01 00 00"};
  for (const char* dump : bad) {
    Drop drop{};
    const auto parsed = parse_tcp(segment_with(bytes_of(std::string("01 03 03 07 ") + dump)), drop);
    ASSERT_TRUE(parsed) << dump;
    const TcpOptions& options = parsed->header.options;
    EXPECT_EQ(options.window_scale, 7) << dump;
    EXPECT_FALSE(options.mss) << dump;
    EXPECT_FALSE(options.has_timestamps) << dump;
    EXPECT_EQ(options.sack_count, 0) << dump;
  }
}

TEST(TcpSegment, NothingIsReadBehindAMalformedOption) {
  // RFC 9293 3.2: its length does not tell where the next option begins.
  Drop drop{};
  const auto parsed =
      parse_tcp(segment_with(bytes_of("fe 01 02 04 05 b4 04 02 03 03 07 01")), drop);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->header_bytes, 32u);
  EXPECT_FALSE(parsed->header.options.mss);
  EXPECT_FALSE(parsed->header.options.sack_permitted);
  EXPECT_FALSE(parsed->header.options.window_scale);
}

TEST(TcpSegment, SkipsUnknownOptionsAndKnownOnesOfForeignLength) {
  Drop drop{};
  const auto parsed =
      parse_tcp(segment_with(bytes_of("fe 04 12 34 02 03 05 01 02 04 02 00")), drop);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->header.options.mss, 512);
}

TEST(TcpSegment, NothingIsReadBehindEndOfOptions) {
  Drop drop{};
  const auto parsed = parse_tcp(segment_with(bytes_of("00 02 04 05 b4 ff 00 00")), drop);
  ASSERT_TRUE(parsed);
  EXPECT_FALSE(parsed->header.options.mss);
}

TEST(TcpSegment, ShiftAboveFourteenIsFourteen) {
  // RFC 7323 2.3: a larger shift MUST be taken as 14.
  Drop drop{};
  const auto parsed = parse_tcp(segment_with(bytes_of("03 03 ff 01")), drop);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->header.options.window_scale, 14);
}

TEST(TcpSegment, AnIntactSegmentSumsUpAndABrokenOneDoesNot) {
  // The field is completed as a port does it: the pseudo-header sum in the field, then the sum over
  // everything.
  TcpHeader header;
  header.source_port = 44610;
  header.destination_port = 8080;
  header.flags.set(TcpFlags::kSyn);
  for (size_t payload_bytes : {size_t{0}, size_t{1}, size_t{999}}) {
    std::vector<uint8_t> segment = written(header);
    segment.resize(segment.size() + payload_bytes, 0x5a);
    const uint16_t pseudo = tcp_pseudo_sum(kA, kB, static_cast<uint32_t>(segment.size()));
    write_raw16(segment.data() + 16, pseudo);
    ChecksumSum sum;
    sum.add(segment);
    write_raw16(segment.data() + 16, sum.finish());
    EXPECT_TRUE(tcp_checksum_ok(kA, kB, segment));
    EXPECT_TRUE(tcp_checksum_ok(kB, kA, segment)) << "the sum does not know directions";
    EXPECT_FALSE(tcp_checksum_ok(kA, IpAddress::v4(0x0a000003), segment));
    segment.back() ^= 1;
    EXPECT_FALSE(tcp_checksum_ok(kA, kB, segment));
  }
}

TEST(TcpSegment, PseudoHeaderOfIpv6HasAllBytes) {
  IpAddress a;
  a.bytes[0] = 0x20;
  IpAddress b = a;
  b.bytes[15] = 1;
  ChecksumSum sum;
  sum.add(a.bytes);
  sum.add(b.bytes);
  sum.add_u16(1);       // RFC 8200 8.1: the upper half of the 32-bit length
  sum.add_u16(0x0002);  // and its lower half
  sum.add_u16(6);
  EXPECT_EQ(tcp_pseudo_sum(a, b, 0x10002), sum.fold());
}

}  // namespace
}  // namespace lyre::wire
