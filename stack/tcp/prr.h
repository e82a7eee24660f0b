#pragma once

#include "stack/tcp/core.h"

namespace lyre::tcp {

/// RFC 6937: the window comes down in proportion to what arrives, over one round trip.

/// `pipe_bytes`: in flight before the ACK that told of congestion. RFC 3168 6.1.2: the peer is
/// told as well.
void begin_reduction(Connection& c, uint32_t pipe_bytes);
/// What one ACK lets out. `is_safe`: it moved SND.UNA and showed no new loss.
void reduce_proportionally(Connection& c, uint32_t delivered_bytes, bool is_safe);
/// The phases in which the window follows reduce_proportionally().
bool follows_prr(const Connection& c);

}  // namespace lyre::tcp
