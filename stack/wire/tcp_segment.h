#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "stack/base/drop_reasons.h"
#include "stack/base/ip_address.h"
#include "stack/base/seq_num.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/ipv6.h"

namespace lyre::wire {

/// TCP control bits, as RFC 9293 3.1 numbers them (and ECE, CWR of RFC 3168).
struct TcpFlags {
  static constexpr uint8_t kFin = 0x01;
  static constexpr uint8_t kSyn = 0x02;
  static constexpr uint8_t kRst = 0x04;
  static constexpr uint8_t kPsh = 0x08;
  static constexpr uint8_t kAck = 0x10;
  static constexpr uint8_t kUrg = 0x20;
  static constexpr uint8_t kEce = 0x40;
  static constexpr uint8_t kCwr = 0x80;

  uint8_t bits = 0;
  constexpr bool has(uint8_t flag) const { return (bits & flag) != 0; }
  constexpr void set(uint8_t flag) { bits |= flag; }
  friend constexpr bool operator==(TcpFlags, TcpFlags) = default;
};

/// RFC 2018 3: one block of received data, [start, end).
struct SackBlock {
  SeqNum start;
  SeqNum end;
  friend constexpr bool operator==(const SackBlock&, const SackBlock&) = default;
};
inline constexpr uint32_t kSackBlocksMax = 4;

/// The TCP options that this stack reads and writes.
struct TcpOptions {
  std::optional<uint16_t> mss;          ///< RFC 9293 3.7.1
  std::optional<uint8_t> window_scale;  ///< RFC 7323 2.2
  bool sack_permitted = false;          ///< RFC 2018 2
  bool has_timestamps = false;          ///< RFC 7323 3.2
  uint32_t ts_value = 0;
  uint32_t ts_echo = 0;
  uint8_t sack_count = 0;
  std::array<SackBlock, kSackBlocksMax> sacks{};
};

/// A TCP header as values. Units: ports and window in host order, window unscaled.
struct TcpHeader {
  uint16_t source_port = 0;
  uint16_t destination_port = 0;
  SeqNum seq;
  SeqNum ack;
  TcpFlags flags;
  uint16_t window = 0;
  TcpOptions options;
};

inline constexpr uint32_t kTcpHeaderBytesMin = 20;
inline constexpr uint32_t kTcpHeaderBytesMax = 60;

/// Bytes of the IP and TCP headers without options, in the family of `address`: MTU minus MSS.
constexpr uint32_t ip_and_tcp_header_bytes(const IpAddress& address) {
  return (address.is_v4() ? kIpv4HeaderBytesMin : kIpv6HeaderBytes) + kTcpHeaderBytesMin;
}

struct ParsedTcp {
  TcpHeader header;
  uint32_t header_bytes = 0;  ///< payload starts here and runs to the end of `segment`
};

/// Reads the header of `segment` (TCP header and payload, nothing after it). Unknown options are
/// skipped. An option that exceeds the header, or has a length of 0 or 1, is malformed: it and all
/// bytes after it are not read. The checksum is not verified.
/// Fails: the result is empty and `drop` holds the reason.
std::optional<ParsedTcp> parse_tcp(std::span<const uint8_t> segment, Drop& drop);

/// Bytes of `header` with its options, padded to 32 bits.
uint32_t tcp_header_bytes(const TcpHeader& header);

/// Writes `header` to the first tcp_header_bytes(header) bytes of `out` and returns the bytes
/// written. Options have Linux's order (mss, sackOK, timestamps, nop, wscale; established: nop nop
/// timestamps, nop nop sack). `checksum_field` is stored as it is. REQUIRES: `out` is long enough.
uint32_t write_tcp(const TcpHeader& header, uint16_t checksum_field, std::span<uint8_t> out);

/// The pseudo-header of RFC 9293 3.1 (IPv4, or RFC 8200 8.1), folded but not complemented.
uint16_t tcp_pseudo_sum(const IpAddress& source, const IpAddress& destination, uint32_t tcp_bytes);

/// True when the checksum over header and payload in `segment` is correct.
bool tcp_checksum_ok(const IpAddress& source, const IpAddress& destination,
                     std::span<const uint8_t> segment);

}  // namespace lyre::wire
