#pragma once

#include "stack/tcp/core.h"

namespace lyre::tcp {

/// The next segment to send now; see Engine::poll_transmit().
std::optional<SegmentOut> next_segment(Core& core, Connection& c, uint32_t payload_bytes_max,
                                       Nanos now);

/// Payload of one full-sized segment with the options that it would carry now.
uint32_t full_payload_bytes(const Connection& c);

}  // namespace lyre::tcp
