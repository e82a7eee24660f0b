#pragma once

#include <optional>

#include "stack/base/siphash.h"
#include "stack/tcp/config.h"
#include "stack/tcp/segment.h"

namespace lyre::tcp {

/// RFC 4987 3.6: a listener without room for more state encodes what it needs of a SYN in the
/// sequence number of its SYN,ACK, and the other options in the timestamp of it, which the peer
/// echoes.

/// The stateless SYN,ACK for `syn`.
SegmentOut make_cookie_answer(const FourTuple& tuple, const ConnectionConfig& config, SipKey key,
                              const SegmentIn& syn, Nanos now);

/// The SYN whose handshake `ack` completes; empty when `ack` has no valid cookie, or one that is
/// older than two minutes.
std::optional<SegmentIn> syn_behind_cookie(const FourTuple& tuple, SipKey key, const SegmentIn& ack,
                                           Nanos now);

}  // namespace lyre::tcp
