#pragma once

#include "stack/tcp/core.h"

namespace lyre::tcp {

/// The next segment that may leave now; see Engine::poll_transmit().
std::optional<SegmentOut> next_segment(Core& core, Connection& c, uint32_t payload_bytes_max,
                                       Nanos now);

}  // namespace lyre::tcp
