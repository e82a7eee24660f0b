#pragma once

#include "stack/tcp/scoreboard.h"

namespace lyre::tcp {

/// Restores the window when a reduction proves spurious. Either kind of evidence is enough: the
/// first ACK for the episode echoes a timestamp from before it (RFC 3522, Eifel), or the peer
/// reports every retransmission as a duplicate (RFC 2883 4, RFC 3708 2). Eifel is used instead of
/// F-RTO (RFC 5682): it does not change what is sent, decides on the first ACK, and covers fast
/// recovery too. Timestamps are on by default.

/// Reductions that are undone until SND.UNA passes `recover`. An undo costs two passes over the
/// sent records: what was lost is in flight again, and the next ACK may mark all of it lost.
inline constexpr uint8_t kUndosPerWindowMax = 4;

/// Called before a reduction changes any state. After kUndosPerWindowMax the reduction is final.
void remember_before_reduction(Core& core, Connection& c);
/// The reduction is final.
void forget_reduction(Core& core, Connection& c);
/// A segment of this many bytes was retransmitted.
void note_resent(Core& core, Connection& c, uint32_t bytes, Nanos now);
/// Checks one ACK after loss detection. Returns true when the reduction was undone: data that had
/// been marked lost and was not retransmitted counts as in flight again.
bool undo_if_spurious(Core& core, Connection& c, const AckSample& sample, bool moved_una);

}  // namespace lyre::tcp
