#pragma once

#include "stack/tcp/connection.h"

namespace lyre::tcp {

/// RFC 7323 2.3: the smallest shift with which the whole receive buffer fits the window field.
uint8_t window_scale_for(uint32_t receive_buffer_bytes);
/// What the peer may be told at most right now: free charge, turned into payload by the ratio seen.
uint32_t window_on_offer(const Connection& c);
/// Moves rcv.edge right where that is worth telling, and returns the window field that says it.
uint16_t advertise_window(Connection& c, bool is_syn);
/// The window field beside `ack`, a number before RCV.NXT that is acknowledged late.
uint16_t window_from(Connection& c, SeqNum ack);
/// True when the reader freed so much that the peer should hear of it without being asked.
bool is_window_update_due(const Connection& c);
/// Keeps the ratio of payload to charge of what arrived of late.
void note_payload_ratio(Connection& c, uint32_t payload_bytes, uint32_t charge_bytes);

}  // namespace lyre::tcp
