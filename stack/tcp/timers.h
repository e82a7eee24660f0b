#pragma once

#include "stack/tcp/core.h"

namespace lyre::tcp {

/// How long the handshake may take, from open_active() or open_passive() on.
Nanos handshake_timeout(const Connection& c);
/// RFC 9293 3.8.3, R2: how long data or a FIN may stay unacknowledged. REQUIRES: the handshake is
/// complete.
Nanos give_up_after(const Connection& c);
/// The application closed the connection, so its peer must make progress from now on.
void limit_orphan_wait(Connection& c, Nanos now);
/// Text arrived after the application closed the connection. From the first on the peer has a short
/// time to acknowledge the FIN, whatever else it acknowledges; then the text is answered with a RST
/// all the same.
void limit_late_text(Connection& c, Nanos now);
/// Nothing was received or sent for so long, because this host stood still: what its peer did not
/// answer in that time does not count.
void extend_give_up(Connection& c, Nanos stood_still);
/// RFC 6298 5.5: the timeout after its backoff. Once established, a quarter of the user timeout
/// limits it, where RFC 6298 2.5 allows no limit below 60 s.
Nanos current_rto(const Connection& c);
/// Data or a FIN was queued, and nothing is outstanding. The user timeout counts from now on (RFC
/// 9293 3.8.3), because the data may not be able to leave: a port takes nothing, or a neighbour
/// does not answer.
void arm_after_queue(Connection& c, Nanos now);
/// snd.una moved, or the set of lost data changed: RFC 6298 5.2, 5.3 and RFC 8985 7.2.
void arm_after_ack(Connection& c, Nanos now);
/// An ACK arrived that moved nothing: the conditions of a tail loss probe may no longer hold.
void recheck_tail_probe(Connection& c, Nanos now);
/// A segment that must be acknowledged was sent: RFC 6298 5.1 starts the timeout if it does not
/// run, RFC 8985 7.2 the tail loss probe anew.
void arm_after_send(Connection& c, Nanos now);
/// The peer's window does not allow sending: RFC 9293 3.8.6.1.
void begin_persist(Connection& c, Nanos now);
void arm_keepalive(Connection& c, Nanos now);
/// The segment that is outstanding first, text or a SYN (or SYN,ACK), is sent again at once.
void resend_front(Core& core, Connection& c);

/// Runs every timer whose deadline has passed.
void run_timers(Core& core, Connection& c, Nanos now, Effects& effects);
Nanos earliest_deadline(const Connection& c);

}  // namespace lyre::tcp
