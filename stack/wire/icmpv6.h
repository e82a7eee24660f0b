#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "stack/wire/icmp.h"
#include "stack/wire/ipv6.h"

namespace lyre::wire {

/// RFC 4443 2.1: the types that this stack handles.
inline constexpr uint8_t kIcmpv6Unreachable = 1;
inline constexpr uint8_t kIcmpv6TooBig = 2;
inline constexpr uint8_t kIcmpv6ParameterProblem = 4;
inline constexpr uint8_t kIcmpv6EchoRequest = 128;
inline constexpr uint8_t kIcmpv6EchoReply = 129;

/// Codes of kIcmpv6Unreachable (RFC 4443 3.1).
inline constexpr uint8_t kUnreachable6Prohibited = 1;
inline constexpr uint8_t kUnreachable6Port = 4;
inline constexpr uint8_t kUnreachable6Policy = 5;
inline constexpr uint8_t kUnreachable6Reject = 6;

/// The addresses that a checksum covers.
struct AddressPair {
  IpAddress source;
  IpAddress destination;
};

/// Reads a whole ICMPv6 message and verifies its checksum.
/// Fails: kIcmpMalformed.
std::optional<ParsedIcmp> parse_icmpv6(const AddressPair& addresses,
                                       std::span<const uint8_t> message, Drop& drop);

/// Reads the body of an ICMPv6 error.
/// Fails: kIcmpBadQuote for a quote that is short, not TCP, or not a first fragment.
std::optional<QuotedTcp> parse_quoted_tcp6(std::span<const uint8_t> body, Drop& drop);

/// Writes the checksum of an ICMPv6 message that is otherwise complete.
void complete_icmpv6(const AddressPair& addresses, std::span<uint8_t> message);

/// As write_echo_reply(); `addresses` are those of the reply.
void write_echo_reply6(const ParsedIcmp& request, const AddressPair& addresses,
                       std::span<uint8_t> out);

/// Writes the header of a Parameter Problem in front of the quoted packet, which is already in
/// out[kIcmpHeaderBytes, out.size()). REQUIRES: out.size() >= kIcmpHeaderBytes.
void write_parameter_problem(const ParameterProblem& problem, const AddressPair& addresses,
                             std::span<uint8_t> out);

}  // namespace lyre::wire
