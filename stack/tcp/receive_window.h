#pragma once

#include "stack/tcp/core.h"

namespace lyre::tcp {

inline constexpr uint8_t kWindowScaleMax = 14;  ///< RFC 7323 2.3

/// `wanted_bytes` of buffer, but at least a few packets: TCP makes no progress with less.
uint32_t workable_buffer_bytes(const ConnectionConfig& config, uint32_t wanted_bytes);
/// RFC 7323 2.3: the smallest shift with which the whole receive buffer fits the window field.
uint8_t window_scale_for(uint32_t receive_buffer_bytes);
/// The largest window that can be advertised now: free charge, converted to payload by the recent
/// ratio.
uint32_t window_on_offer(const Connection& c);
/// Moves rcv.edge right if the gain is large enough, and returns the window field.
uint16_t advertise_window(Connection& c, bool is_syn);
/// The window field of a segment that acknowledges `ack`, a number before RCV.NXT.
uint16_t window_from(Connection& c, SeqNum ack);
/// True when the application freed so much that an unsolicited window update is due.
bool is_window_update_due(const Connection& c);
/// Called when text arrived in order: estimates the RTT at the receiver (the timestamp echo of RFC
/// 7323 4.1, else the time in which a window of data arrives, which is at least a round trip).
void note_receive_round(const Core& core, Connection& c, const SegmentIn& segment, Nanos now);
/// The application released packets with this charge: the buffer grows to several times the amount
/// that it consumes per round trip, so that the window never limits an application that keeps up.
void tune_receive_buffer(Connection& c, uint32_t released_bytes, Nanos now);
/// Updates the recent ratio of payload to charge.
void note_payload_ratio(Connection& c, uint32_t payload_bytes, uint32_t charge_bytes);

}  // namespace lyre::tcp
