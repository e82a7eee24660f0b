#pragma once

#include <cstdint>
#include <span>

#include "stack/base/seq_num.h"
#include "stack/io/packet.h"

namespace lyre::ip {

/// Header prediction for the segments of a stream: recognises the next one by its bytes, without
/// classify(). True only where classify() would find in `packet` a TCP segment whose headers differ
/// from `headers` (Ethernet, IPv4 and TCP headers of an earlier segment, which classify() accepted)
/// in nothing but checksums, IP identification and the sequence number, which is `seq`. `payload`
/// is its payload then. After false `payload` is unspecified, and classify() decides.
/// REQUIRES: can_match_headers(headers); both packets came from one port in one burst; the only
/// flag of the earlier segment was ACK.
bool header_match(const io::PacketBuf& packet, std::span<const uint8_t> headers, SeqNum seq,
                  std::span<const uint8_t>& payload);

/// Whether header_match() can compare with these headers: IPv4 without options.
bool can_match_headers(std::span<const uint8_t> headers);

}  // namespace lyre::ip
