#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "stack/base/drop_reasons.h"
#include "stack/base/ip_address.h"
#include "stack/base/seq_num.h"

namespace lyre::wire {

inline constexpr uint16_t kIcmpHeaderBytes = 8;

/// RFC 792: the types that this stack handles.
inline constexpr uint8_t kIcmpEchoReply = 0;
inline constexpr uint8_t kIcmpUnreachable = 3;
inline constexpr uint8_t kIcmpEchoRequest = 8;
inline constexpr uint8_t kIcmpTimeExceeded = 11;
inline constexpr uint8_t kIcmpParameterProblem = 12;

/// Codes of kIcmpUnreachable that matter to TCP (RFC 1122 3.2.2.1, 4.2.3.9; RFC 1812 5.2.7.1).
inline constexpr uint8_t kUnreachableProtocol = 2;
inline constexpr uint8_t kUnreachablePort = 3;
inline constexpr uint8_t kUnreachableTooBig = 4;
inline constexpr uint8_t kUnreachableNetworkProhibited = 9;
inline constexpr uint8_t kUnreachableHostProhibited = 10;
inline constexpr uint8_t kUnreachableProhibited = 13;

/// What an ICMP error means for a connection that is being opened (RFC 1122 4.2.3.9): soft errors
/// may be temporary, the others are not. kRefused: the host is reachable, but nothing listens on
/// the port.
enum class IcmpVerdict : uint8_t { kSoft, kUnreachable, kRefused };

/// One ICMP or ICMPv6 message. The type determines how the second word of the header is read.
struct ParsedIcmp {
  uint8_t type = 0;
  uint8_t code = 0;
  uint16_t echo_id = 0;             ///< echo request and reply
  uint16_t echo_sequence = 0;       ///< echo request and reply
  uint32_t next_hop_mtu_bytes = 0;  ///< RFC 1191 4: unreachable, too big; 0 from old routers
  std::span<const uint8_t> body;    ///< echo data, or the quoted packet; borrows the message
};

/// Reads a whole ICMP message and verifies its checksum.
/// Fails: kIcmpMalformed.
std::optional<ParsedIcmp> parse_icmp(std::span<const uint8_t> message, Drop& drop);

/// The TCP segment that caused an ICMP error, as the error quotes it (RFC 792: header and 64 bits).
struct QuotedTcp {
  FourTuple sent;  ///< as in the quoted packet: `local` is its source
  SeqNum seq;
  uint32_t total_bytes = 0;  ///< of the quoted IP packet
};

/// Reads the body of an ICMP error.
/// Fails: kIcmpBadQuote for a quote that is short, not TCP, or not a first fragment.
std::optional<QuotedTcp> parse_quoted_tcp(std::span<const uint8_t> body, Drop& drop);

/// Writes an echo reply for `request` in front of its data, which is already in
/// out[kIcmpHeaderBytes, out.size()). The checksum covers both.
/// REQUIRES: out.size() >= kIcmpHeaderBytes.
void write_echo_reply(const ParsedIcmp& request, std::span<uint8_t> out);

}  // namespace lyre::wire
