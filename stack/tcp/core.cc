#include "stack/tcp/core.h"

#include "stack/base/check.h"
#include "stack/tcp/state_table.h"

namespace lyre::tcp {

namespace {

/// Both limits count in the same period.
void renew_limits(Core& core, Connection& c, Nanos now) {
  if (now < c.challenge_until) return;
  c.challenge_until = now + kChallengePeriod;
  c.challenge_acks_left =
      static_cast<uint8_t>(kChallengeAcksMin + core.rng.below(kChallengeAcksSpread));
  c.probe_answers = 0;
}

}  // namespace

void set_state(Connection& c, State to) {
  // Callers have checked c.state: segments and calls that do not fit it were refused before.
  LYRE_CHECK(is_legal_move(c.state, to));
  c.state = to;
  c.changes.add(Change::kState);
}

void finish(Connection& c, EndReason reason, Effects& effects) {
  set_state(c, State::kClosed);
  c.deadlines.fill(kNever);
  c.end_reason = reason;
  effects.is_over = true;
  effects.reason = reason;
}

void queue_reset(Connection& c, SeqNum seq, bool with_ack, Effects& effects) {
  c.reset_pending = true;
  c.reset_seq = seq;
  c.reset_ack = c.rcv.nxt;
  c.reset_has_ack = with_ack;
  effects.wants_transmit = true;
}

void ack_at_once(Connection& c, Effects& effects) {
  c.rcv.ack_now = true;
  effects.wants_transmit = true;
}

void challenge_ack(Core& core, Connection& c, Nanos now, Effects& effects) {
  if (!c.config.limits_challenges) return ack_at_once(c, effects);
  renew_limits(core, c, now);
  if (c.challenge_acks_left == 0) return;
  --c.challenge_acks_left;
  ack_at_once(c, effects);
}

void answer_probe(Core& core, Connection& c, Nanos now, Effects& effects) {
  if (!c.config.limits_challenges) return ack_at_once(c, effects);
  renew_limits(core, c, now);
  if (c.probe_answers == kProbeAnswersMax) return;
  ++c.probe_answers;
  ack_at_once(c, effects);
}

void put_timestamps(const Connection& c, Nanos now, wire::TcpOptions& options) {
  if (!c.has_timestamps) return;
  options.has_timestamps = true;
  options.ts_value = timestamp_at(c, now);
  options.ts_echo = c.rcv.ts_recent;
}

}  // namespace lyre::tcp
