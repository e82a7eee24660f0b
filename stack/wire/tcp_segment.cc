#include "stack/wire/tcp_segment.h"

#include <algorithm>

#include "stack/base/check.h"
#include "stack/base/checksum.h"
#include "stack/wire/bytes.h"
#include "stack/wire/ip.h"
#include "stack/wire/pseudo_header.h"

namespace lyre::wire {
namespace {

/// Option kinds and lengths: RFC 9293 3.2, RFC 7323 2.2 and 3.2, RFC 2018 2 and 3.
constexpr uint8_t kKindEnd = 0;
constexpr uint8_t kKindNop = 1;
constexpr uint8_t kKindMss = 2;
constexpr uint8_t kKindWindowScale = 3;
constexpr uint8_t kKindSackPermitted = 4;
constexpr uint8_t kKindSack = 5;
constexpr uint8_t kKindTimestamps = 8;
constexpr uint8_t kMssBytes = 4;
constexpr uint8_t kWindowScaleBytes = 3;
constexpr uint8_t kSackPermittedBytes = 2;
constexpr uint8_t kTimestampsBytes = 10;
constexpr uint8_t kSackHeadBytes = 2;
constexpr uint8_t kSackBlockBytes = 8;

/// RFC 7323 2.3: a shift above 14 MUST be used as 14.
constexpr uint8_t kWindowScaleMax = 14;

void read_sacks(std::span<const uint8_t> blocks, TcpOptions& out) {
  out.sack_count = 0;
  while (blocks.size() >= kSackBlockBytes && out.sack_count < kSackBlocksMax) {
    out.sacks[out.sack_count++] = {SeqNum(read_be32(blocks.data())),
                                   SeqNum(read_be32(blocks.data() + 4))};
    blocks = blocks.subspan(kSackBlockBytes);
  }
}

/// `option` is one whole option with its kind and length. A known kind with a length other than its
/// own is skipped like an unknown kind.
void read_tcp_option(std::span<const uint8_t> option, TcpOptions& out) {
  const uint8_t* value = option.data() + 2;
  const size_t length = option.size();
  switch (option[0]) {
    case kKindMss:
      if (length == kMssBytes) out.mss = read_be16(value);
      return;
    case kKindWindowScale:
      if (length == kWindowScaleBytes) out.window_scale = std::min(value[0], kWindowScaleMax);
      return;
    case kKindSackPermitted:
      if (length == kSackPermittedBytes) out.sack_permitted = true;
      return;
    case kKindSack:
      if ((length - kSackHeadBytes) % kSackBlockBytes == 0) read_sacks(option.subspan(2), out);
      return;
    case kKindTimestamps:
      if (length != kTimestampsBytes) return;
      out.has_timestamps = true;
      out.ts_value = read_be32(value);
      out.ts_echo = read_be32(value + 4);
      return;
    default:
      return;
  }
}

/// Recognises the options of nearly every segment of an open connection: nop nop timestamps.
bool read_lone_timestamps(std::span<const uint8_t> options, TcpOptions& out) {
  if (options.size() != 12 || read_be32(options.data()) != 0x0101080au) return false;
  out.has_timestamps = true;
  out.ts_value = read_be32(options.data() + 4);
  out.ts_echo = read_be32(options.data() + 8);
  return true;
}

/// RFC 9293 3.2 (MUST-7): a length that cannot be does not tell where the next option begins. As in
/// Linux, reading ends there: the options before it hold, and the segment is used.
void read_tcp_options(std::span<const uint8_t> options, TcpOptions& out) {
  if (options.empty() || read_lone_timestamps(options, out)) return;
  while (!options.empty() && options[0] != kKindEnd) {
    if (options[0] == kKindNop) {
      options = options.subspan(1);
      continue;
    }
    if (options.size() < 2) return;
    const size_t length = options[1];
    if (length < 2 || length > options.size()) return;
    read_tcp_option(options.first(length), out);
    options = options.subspan(length);
  }
}

/// Padded bytes of all options except SACK.
uint32_t plain_option_bytes(const TcpOptions& options) {
  uint32_t bytes = options.mss ? kMssBytes : 0u;
  if (options.has_timestamps) {
    bytes += 12;  // two bytes of padding, or SACK-permitted in their place
  } else if (options.sack_permitted) {
    bytes += 4;
  }
  if (options.window_scale) bytes += 4;
  return bytes;
}

/// SACK blocks that fit after the other options: three with timestamps, else four.
uint32_t sacks_that_fit(const TcpOptions& options) {
  const uint32_t room = kTcpHeaderBytesMax - kTcpHeaderBytesMin - plain_option_bytes(options);
  if (room < 4 + kSackBlockBytes) return 0;
  const uint32_t fit = (room - 4) / kSackBlockBytes;
  return std::min({uint32_t{options.sack_count}, fit, kSackBlocksMax});
}

uint8_t* put_pair(uint8_t* at, uint8_t first, uint8_t second) {
  at[0] = first;
  at[1] = second;
  return at + 2;
}

uint8_t* write_timestamps_and_sack_permitted(const TcpOptions& options, uint8_t* at) {
  if (!options.has_timestamps && !options.sack_permitted) return at;
  // SACK-permitted takes the place of the padding before the timestamps.
  if (!options.has_timestamps || !options.sack_permitted) at = put_pair(at, kKindNop, kKindNop);
  if (options.sack_permitted) at = put_pair(at, kKindSackPermitted, kSackPermittedBytes);
  if (!options.has_timestamps) return at;
  at = put_pair(at, kKindTimestamps, kTimestampsBytes);
  write_be32(at, options.ts_value);
  write_be32(at + 4, options.ts_echo);
  return at + 8;
}

uint8_t* write_sacks(const TcpOptions& options, uint8_t* at) {
  const uint32_t count = sacks_that_fit(options);
  if (count == 0) return at;
  at = put_pair(at, kKindNop, kKindNop);
  at = put_pair(at, kKindSack, static_cast<uint8_t>(kSackHeadBytes + kSackBlockBytes * count));
  for (uint32_t i = 0; i < count; ++i, at += kSackBlockBytes) {
    write_be32(at, options.sacks[i].start.raw());
    write_be32(at + 4, options.sacks[i].end.raw());
  }
  return at;
}

void write_options(const TcpOptions& options, uint8_t* at) {
  if (options.mss) {
    at = put_pair(at, kKindMss, kMssBytes);
    write_be16(at, *options.mss);
    at += 2;
  }
  at = write_timestamps_and_sack_permitted(options, at);
  if (options.window_scale) {
    at = put_pair(at, kKindNop, kKindWindowScale);
    at = put_pair(at, kWindowScaleBytes, *options.window_scale);
  }
  write_sacks(options, at);
}

}  // namespace

std::optional<ParsedTcp> parse_tcp(std::span<const uint8_t> segment, Drop& drop) {
  if (segment.size() < kTcpHeaderBytesMin) {
    drop = Drop::kTcpTooShort;
    return std::nullopt;
  }
  const uint8_t* at = segment.data();
  std::optional<ParsedTcp> out(std::in_place);
  out->header_bytes = (at[12] >> 4) * 4u;
  if (out->header_bytes < kTcpHeaderBytesMin || out->header_bytes > segment.size()) {
    drop = Drop::kTcpBadDataOffset;
    return std::nullopt;
  }
  TcpHeader& header = out->header;
  header.source_port = read_be16(at);
  header.destination_port = read_be16(at + 2);
  header.seq = SeqNum(read_be32(at + 4));
  header.ack = SeqNum(read_be32(at + 8));
  header.flags.bits = at[13];
  header.window = read_be16(at + 14);
  const std::span<const uint8_t> options =
      segment.subspan(kTcpHeaderBytesMin, out->header_bytes - kTcpHeaderBytesMin);
  read_tcp_options(options, header.options);
  return out;
}

uint32_t tcp_header_bytes(const TcpHeader& header) {
  const uint32_t sacks = sacks_that_fit(header.options);
  return kTcpHeaderBytesMin + plain_option_bytes(header.options) +
         (sacks == 0 ? 0 : 4 + sacks * kSackBlockBytes);
}

uint32_t write_tcp(const TcpHeader& header, uint16_t checksum_field, std::span<uint8_t> out) {
  const uint32_t bytes = tcp_header_bytes(header);
  // The header is this host's own, and callers have room for the largest one.
  LYRE_CHECK(out.size() >= bytes);
  uint8_t* at = out.data();
  write_be16(at, header.source_port);
  write_be16(at + 2, header.destination_port);
  write_be32(at + 4, header.seq.raw());
  write_be32(at + 8, header.ack.raw());
  at[12] = static_cast<uint8_t>(bytes / 4 << 4);
  at[13] = header.flags.bits;
  write_be16(at + 14, header.window);
  write_raw16(at + 16, checksum_field);
  write_raw16(at + 18, 0);
  write_options(header.options, at + kTcpHeaderBytesMin);
  return bytes;
}

uint16_t tcp_pseudo_sum(const IpAddress& source, const IpAddress& destination, uint32_t tcp_bytes) {
  return pseudo_header(source, destination, tcp_bytes, kIpProtocolTcp).fold();
}

bool tcp_checksum_ok(const IpAddress& source, const IpAddress& destination,
                     std::span<const uint8_t> segment) {
  ChecksumSum sum =
      pseudo_header(source, destination, static_cast<uint32_t>(segment.size()), kIpProtocolTcp);
  sum.add(segment);
  return sum.finish() == 0;
}

}  // namespace lyre::wire
