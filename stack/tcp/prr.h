#pragma once

#include "stack/tcp/core.h"

namespace lyre::tcp {

/// RFC 6937: reduces the window in proportion to the delivered data, over one round trip.

/// `pipe_bytes`: in flight before the ACK that reported congestion. RFC 3168 6.1.2: the next new
/// text carries CWR.
void begin_reduction(Connection& c, uint32_t pipe_bytes);
/// The effect of one ACK. `is_safe`: it moved SND.UNA and revealed no new loss.
void reduce_proportionally(Connection& c, uint32_t delivered_bytes, bool is_safe);
/// True in the phases in which reduce_proportionally() sets the window.
bool follows_prr(const Connection& c);

}  // namespace lyre::tcp
