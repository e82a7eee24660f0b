#pragma once

#include <optional>

#include "stack/base/siphash.h"
#include "stack/tcp/config.h"
#include "stack/tcp/segment.h"

namespace lyre::tcp {

/// RFC 4987 3.6: a listener that can keep no more state puts what it must remember of a SYN into
/// the sequence number of its answer, and the rest into that answer's timestamp, which comes back.

/// The SYN,ACK that answers `syn` and leaves nothing behind.
SegmentOut make_cookie_answer(const FourTuple& tuple, const ConnectionConfig& config, SipKey key,
                              const SegmentIn& syn, Nanos now);

/// The SYN that `ack` completes a handshake for; empty when `ack` brings no cookie of ours, or one
/// that is older than two minutes.
std::optional<SegmentIn> syn_behind_cookie(const FourTuple& tuple, SipKey key, const SegmentIn& ack,
                                           Nanos now);

}  // namespace lyre::tcp
