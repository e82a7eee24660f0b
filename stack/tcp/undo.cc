#include "stack/tcp/undo.h"

#include <algorithm>

namespace lyre::tcp {

namespace {

/// Beyond this a duplicate of the episode is no longer reported, and sequence numbers could wrap.
constexpr uint32_t kMemoryBytes = 1u << 30;

/// RFC 3522 3.2: only the first ACK that moves SND.UNA decides; later ones may be for either
/// transmission.
bool is_told_by_timestamp(UndoState& undo, const Connection& c, const AckSample& sample,
                          bool moved_una) {
  if (!moved_una || undo.first_resent_at == kNever) return false;
  const Nanos resent_at = undo.first_resent_at;
  undo.first_resent_at = kNever;
  if (!sample.has_ts_echo || !c.is_repairing()) return false;
  return SeqNum(sample.ts_echo).before(SeqNum(timestamp_at(c, resent_at)));
}

/// RFC 3708 2: everything that was retransmitted arrived twice. A block of more than that reports
/// something else.
bool is_told_by_duplicates(UndoState& undo, const Connection& c, const AckSample& sample) {
  if (!sample.has_dsack || undo.resent_bytes == 0) return false;
  const bool is_of_episode = sample.dsack.end.after(undo.una) &&
                             sample.dsack.end.at_or_before(c.snd.nxt) &&
                             sample.dsack.start.before(sample.dsack.end);
  const uint32_t bytes = sample.dsack.end.since(sample.dsack.start);
  if (!is_of_episode || bytes > undo.resent_bytes) return false;
  undo.resent_bytes -= bytes;
  return undo.resent_bytes == 0;
}

void undo_reduction(Core& core, Connection& c, const UndoState& undo) {
  RecoveryState& recovery = c.recovery;
  Scoreboard(core, c).revive_lost();
  congestion_undo(c.cc, undo.memory);
  if (recovery.phase == RecoveryPhase::kTimeoutRecovery) {
    // RFC 4015 4: no burst; slow start returns to the old window within one or two round trips.
    const uint32_t burst = initial_window_bytes(c.cc.mss_bytes);
    c.cc.ssthresh_bytes = std::max(c.cc.ssthresh_bytes, c.cc.cwnd_bytes);
    c.cc.cwnd_bytes = std::min(c.cc.cwnd_bytes, c.in_flight_bytes() + burst);
  } else {
    recovery.saw_reordering = true;  // RFC 8985 6.2: or it would be taken for a loss again
  }
  recovery.phase = RecoveryPhase::kOpen;
  recovery.backoff = 0;
  c.snd.must_retransmit = false;
  c.snd.dup_bytes = 0;
  c.snd.dup_acks = 0;
  c.ecn.owes_cwr = false;
  ++recovery.undo_count;
  ++c.undone_reductions;
  c.changes.add(Change::kUndone);
}

}  // namespace

void remember_before_reduction(Core& core, Connection& c) {
  forget_reduction(core, c);
  if (c.recovery.undo_count == kUndosPerWindowMax) return;
  c.recovery.undo = core.undos.take();
  UndoState& undo = core.undos[c.recovery.undo];
  undo.una = c.snd.una;
  undo.memory = congestion_remember(c.cc);
  // During another reduction the window is on its way to ssthresh.
  if (c.recovery.phase != RecoveryPhase::kOpen) undo.memory.cwnd_bytes = c.cc.ssthresh_bytes;
}

void forget_reduction(Core& core, Connection& c) {
  if (c.recovery.undo == kNoNode) return;
  core.undos.give_back(c.recovery.undo);
  c.recovery.undo = kNoNode;
}

void note_resent(Core& core, Connection& c, uint32_t bytes, Nanos now) {
  if (c.recovery.undo == kNoNode || !c.is_repairing()) return;
  UndoState& undo = core.undos[c.recovery.undo];
  undo.resent_bytes += bytes;
  if (undo.resent_bytes == bytes) undo.first_resent_at = now;
}

bool undo_if_spurious(Core& core, Connection& c, const AckSample& sample, bool moved_una) {
  if (c.recovery.undo == kNoNode) return false;
  UndoState& undo = core.undos[c.recovery.undo];
  const bool by_timestamp = is_told_by_timestamp(undo, c, sample, moved_una);
  const bool by_duplicates = is_told_by_duplicates(undo, c, sample);
  const bool is_spurious = by_timestamp || by_duplicates;
  if (is_spurious) undo_reduction(core, c, undo);
  const bool is_too_old = c.snd.una.since(undo.una) > kMemoryBytes;
  if (is_spurious || is_too_old) forget_reduction(core, c);
  return is_spurious;
}

}  // namespace lyre::tcp
