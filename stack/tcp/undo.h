#pragma once

#include "stack/tcp/scoreboard.h"

namespace lyre::tcp {

/// Gives back what a reduction took when it proves to have been for nothing. Two witnesses, each
/// enough: the first ACK that answers the episode echoes a timestamp from before it (RFC 3522,
/// Eifel), or the peer reports every retransmission as a duplicate (RFC 2883 4, RFC 3708 2). Eifel
/// rather than F-RTO (RFC 5682): it needs no change in what is sent, decides on the first ACK
/// and serves fast recovery too; timestamps are on by default.

/// Before a reduction changes anything.
void remember_before_reduction(Core& core, Connection& c);
/// What was reduced stays so.
void forget_reduction(Core& core, Connection& c);
/// A segment of this many bytes is sent again.
void note_resent(Core& core, Connection& c, uint32_t bytes, Nanos now);
/// Looks at one ACK after its losses were found. True when the reduction was undone: what had been
/// marked lost, and was not sent again, counts as in flight.
bool undo_if_spurious(Core& core, Connection& c, const AckSample& sample, bool moved_una);

}  // namespace lyre::tcp
