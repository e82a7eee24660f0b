#pragma once

#include "stack/tcp/core.h"

namespace lyre::tcp {

/// Spreads text over the round trip. Retransmissions count; ACKs and resets are never delayed.

/// Units: bytes of text that may be sent at once, UINT32_MAX without a limit. REQUIRES:
/// !is_paced_out().
uint32_t paced_room(const Connection& c, Nanos now);
/// True when text must wait; arms the deadline at which it may be sent.
bool is_paced_out(Connection& c, Nanos now);
/// Accounts for `bytes` of text that were sent.
void note_paced(Connection& c, uint32_t bytes, Nanos now);
/// Units: bytes a second; 0: not limited by pacing.
uint64_t pacing_rate(const Connection& c);

}  // namespace lyre::tcp
