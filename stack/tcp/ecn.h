#pragma once

#include "stack/tcp/core.h"

namespace lyre::tcp {

/// Explicit congestion notification: RFC 3168, and RFC 8257 where marks drive the congestion
/// control (CongestionTraits).

/// True when both sides echo every mark (RFC 8257) instead of one a window (RFC 3168).
bool echoes_every_mark(const Connection& c);

/// RFC 3168 6.1.1: a host that sent a plain SYN after an ECN-setup one, and is answered with an
/// ECN-setup SYN,ACK, echoes the peer's marks (EcnState::is_on) but does not set ECT itself.
bool may_set_ect(const Connection& c);
/// RFC 3168 6.1.1: whether a listener accepts the ECN request of the peer's SYN.
bool agrees_to_ecn(const ConnectionConfig& config, const SegmentIn& syn);
/// RFC 3168 6.1.1: ECE and CWR of the SYN or SYN,ACK in `out`.
void offer_ecn(const Connection& c, SegmentOut& out);
/// Takes from the peer's SYN or SYN,ACK whether ECN is on. REQUIRES: the state is still CLOSED or
/// SYN-SENT.
void accept_ecn_offer(Connection& c, const SegmentIn& syn);
/// The peer retransmitted its SYN, perhaps without ECN because a middlebox dropped the first.
void reconsider_ecn_offer(Connection& c, const SegmentIn& syn);

/// New text arrives, before RCV.NXT moves: CE requests an echo, CWR ends it.
void note_ecn_of_text(Connection& c, const SegmentIn& segment, Effects& effects);
/// Sets the ECN field, ECE and CWR of an outgoing segment. `is_new_text`: RFC 3168 6.1.4 to 6.1.6
/// forbid ECT on retransmissions, pure ACKs and window probes.
void mark_departure(Connection& c, bool is_new_text, SegmentOut& out);

}  // namespace lyre::tcp
