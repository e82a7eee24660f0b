#pragma once

#include "stack/tcp/core.h"

namespace lyre::tcp {

/// Spreads text over the round trip. Retransmissions count; ACKs and resets are never held back.

/// True when text must wait; arms the deadline that ends the wait.
bool is_paced_out(Connection& c, Nanos now);
/// `bytes` of text have left.
void note_paced(Connection& c, uint32_t bytes, Nanos now);
/// Units: bytes a second; 0: as fast as the window allows.
uint64_t pacing_rate(const Connection& c);

}  // namespace lyre::tcp
