#pragma once

#include "stack/tcp/core.h"

namespace lyre::tcp {

/// RFC 6298 5.5: the timeout with its doublings.
Nanos current_rto(const Connection& c);
/// snd.una moved, or what is lost changed: RFC 6298 5.2, 5.3 and RFC 8985 7.2.
void arm_after_ack(Connection& c, Nanos now);
/// An ACK came that moved nothing: a tail probe may have lost its ground.
void recheck_tail_probe(Connection& c, Nanos now);
/// Something that must be acknowledged has left: RFC 6298 5.1.
void arm_after_send(Connection& c, Nanos now);
/// The peer's window holds everything back: RFC 9293 3.8.6.1.
void arm_persist(Connection& c, Nanos now);
void arm_keepalive(Connection& c, Nanos now);
/// The SYN (or SYN,ACK) goes out again at once.
void resend_syn(Core& core, Connection& c);

/// Runs every deadline that has come.
void run_timers(Core& core, Connection& c, Nanos now, Effects& effects);
Nanos earliest_deadline(const Connection& c);

}  // namespace lyre::tcp
