#pragma once

#include "stack/tcp/core.h"

namespace lyre::tcp {

inline constexpr uint8_t kWindowScaleMax = 14;  ///< RFC 7323 2.3

/// `wanted_bytes` of buffer, or more: a window of less than a few packets cannot work.
uint32_t workable_buffer_bytes(const ConnectionConfig& config, uint32_t wanted_bytes);
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
/// Text has arrived in order: measures the round trip as a receiver can (RFC 7323 4.1's echo, or
/// else the time that a window of data takes, which is no less than a round trip).
void note_receive_round(Connection& c, const SegmentIn& segment, Nanos now);
/// The reader gave back packets that had cost this much: the buffer grows to several times what
/// it takes in a round trip, so that the window never limits a reader that keeps pace.
void tune_receive_buffer(Connection& c, uint32_t released_bytes, Nanos now);
/// Keeps the ratio of payload to charge of what arrived of late.
void note_payload_ratio(Connection& c, uint32_t payload_bytes, uint32_t charge_bytes);

}  // namespace lyre::tcp
