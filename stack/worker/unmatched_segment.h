#pragma once

#include <cstdint>

#include "stack/wire/tcp_segment.h"

namespace lyre::worker {

/// What a segment that belongs to no connection asks for.
enum class Unmatched : uint8_t {
  kSyn,       ///< of its listener
  kAck,       ///< of its listener: it may answer a SYN cookie, and is refused if it does not
  kBadFlags,  ///< to a listener, with neither flag: ignored
  kRefused,   ///< answered with RST, unless it is one
};

/// RFC 9293 3.10.7.1 and 3.10.7.2.
inline Unmatched unmatched(wire::TcpFlags flags, bool has_listener) {
  using wire::TcpFlags;
  if (!has_listener || flags.has(TcpFlags::kRst)) return Unmatched::kRefused;
  if (flags.has(TcpFlags::kAck)) return Unmatched::kAck;
  return flags.has(TcpFlags::kSyn) ? Unmatched::kSyn : Unmatched::kBadFlags;
}

}  // namespace lyre::worker
