#include "stack/tcp/timers.h"

#include <algorithm>

#include "stack/tcp/loss.h"
#include "stack/tcp/scoreboard.h"
#include "stack/tcp/state_table.h"

namespace lyre::tcp {

namespace {

constexpr uint8_t kBackoffMax = 16;
/// RFC 8985 7.2: how long a peer may delay the ACK of a single segment; Linux's maximum.
constexpr Nanos kPeerAckDelayMax = millis(200);
/// Added to the two round trips of a tail loss probe, so that a worker that runs late sends no
/// needless probe.
constexpr Nanos kTailProbeMargin = millis(1);
/// limit_late_text(): a FIN that is lost three times still arrives within it.
constexpr Nanos kLateTextWait = seconds(2);

bool may_probe_tail(const Connection& c) {
  return c.has_sack && c.rtt.has_sample() && !c.is_repairing() && !c.recovery.tail_probe_open &&
         c.recovery.backoff == 0 && c.snd.sent.sacked_bytes == 0 && c.snd.sent.lost_bytes == 0;
}

/// RFC 8985 7.2, TLP_calc_PTO.
Nanos tail_probe_delay(const Connection& c) {
  const Nanos delay = c.rtt.srtt * 2 + kTailProbeMargin;
  const bool is_single = c.snd.nxt.since(c.snd.una) <= c.snd.mss_bytes;
  return is_single ? delay + kPeerAckDelayMax : delay;
}

/// RFC 8985 7.2: no later than the timeout, which sends do not move. Otherwise a sender that never
/// pauses would put both off without end.
void arm_tail_probe(Connection& c, Nanos now) {
  const Nanos timeout = c.deadline(Timer::kTimeout);
  c.deadline(Timer::kTailProbe) =
      may_probe_tail(c) ? earlier(now + tail_probe_delay(c), timeout) : kNever;
}

void arm_retransmit(Connection& c, Nanos now) {
  c.deadline(Timer::kTimeout) = now + current_rto(c);
  arm_tail_probe(c, now);
}

bool take_due(Connection& c, Timer timer, Nanos now) {
  if (c.deadline(timer) > now) return false;
  c.deadline(timer) = kNever;
  return true;
}

/// RFC 9293 3.8.3: R2 has passed, or the handshake got no answer. An ICMP error that came
/// meanwhile tells the application more than the timeout does (RFC 9293 3.9.2.2, SHLD-25).
void give_up(Connection& c, Effects& effects) {
  if (!is_one_of(c.state, kOpening)) queue_reset(c, c.snd.nxt, true, effects);
  if (c.has_late_text) return finish(c, EndReason::kAborted, effects);  // as refuse_after_close()
  finish(c, c.heard_unreachable ? EndReason::kUnreachable : EndReason::kTimedOut, effects);
}

/// The peer has no room for what is next, and is asked for it by window probes, or retransmissions
/// in their place.
bool is_probing(const Connection& c) {
  return c.deadline(Timer::kPersist) != kNever || c.is_window_withdrawn();
}

void on_tail_probe(Connection& c, Nanos now) {
  c.snd.tail_probe_pending = true;
  c.changes.add(Change::kTailProbe);
  c.deadline(Timer::kTimeout) = now + current_rto(c);  // RFC 8985 7.3
}

/// Several retransmissions or window probes fit the user timeout: the loss of one ends nothing, and
/// a path that comes back in its last quarter is noticed. One timeout is never cut short.
Nanos backoff_limit(const Connection& c) {
  const Nanos rto_max = millis(c.config.rto_max_ms);
  if (is_one_of(c.state, kOpening)) return rto_max;
  return earlier(rto_max, later(give_up_after(c) / 4 + millis(1), c.rtt.rto));
}

Nanos backed_off(const Connection& c, uint8_t doublings) {
  const uint8_t shift = std::min(doublings, kBackoffMax);
  return earlier(c.rtt.rto * (int64_t{1} << shift), backoff_limit(c));
}

void arm_persist(Connection& c, Nanos now) {
  c.deadline(Timer::kPersist) = now + backed_off(c, c.recovery.persist_backoff);
}

/// Where text arrived after the close, nothing puts the end off.
void set_give_up(Connection& c, Nanos at) {
  Nanos& deadline = c.deadline(Timer::kGiveUp);
  deadline = c.has_late_text ? earlier(deadline, at) : at;
}

/// A window probe is sent, or a retransmission, which is one where the window was withdrawn.
void await_answer(Connection& c, Nanos now) {
  // Counted from the first unanswered probe, before which the peer may have answered for long.
  if (c.deadline(Timer::kGiveUp) == kNever) {
    c.deadline(Timer::kGiveUp) = now + give_up_after(c);
  } else if (!c.reader_gone) {
    c.snd.is_window_closed = false;  // the last probe got no answer: the path may be at fault
  }
}

void on_persist(Connection& c, Nanos now) {
  c.snd.probe_pending = true;
  c.changes.add(Change::kWindowProbe);
  if (c.recovery.persist_backoff < kBackoffMax) ++c.recovery.persist_backoff;
  await_answer(c, now);
  arm_persist(c, now);
}

void on_keepalive(Connection& c, Nanos now, Effects& effects) {
  const Nanos idle = millis(c.config.keepalive_idle_ms);
  const Nanos quiet_until = c.last_heard_at + idle;
  if (now < quiet_until || c.has_outstanding()) {
    c.deadline(Timer::kIdle) = now < quiet_until ? quiet_until : now + idle;
    return;
  }
  if (c.keepalives_unanswered >= c.config.keepalive_count) return give_up(c, effects);
  ++c.keepalives_unanswered;
  c.changes.add(Change::kKeepaliveProbe);
  c.snd.probe_pending = true;
  effects.wants_transmit = true;
  c.deadline(Timer::kIdle) = now + millis(c.config.keepalive_interval_ms);
}

void on_idle(Connection& c, Nanos now, Effects& effects) {
  if (c.state == State::kTimeWait) return finish(c, EndReason::kClosed, effects);
  if (c.state == State::kFinWait2 && c.reader_gone) return finish(c, EndReason::kTimedOut, effects);
  on_keepalive(c, now, effects);
}

Nanos orphan_wait(const Connection& c) {
  return later(millis(c.config.orphan_timeout_ms), kOrphanWaitMin);
}

}  // namespace

Nanos handshake_timeout(const Connection& c) {
  return c.is_active ? millis(c.config.connect_timeout_ms)
                     : seconds(c.config.syn_received_timeout_s);
}

Nanos give_up_after(const Connection& c) {
  const Nanos user_timeout = millis(c.config.user_timeout_ms);
  return c.reader_gone ? earlier(user_timeout, orphan_wait(c)) : user_timeout;
}

void limit_orphan_wait(Connection& c, Nanos now) {
  if (is_one_of(c.state, kOpening)) return;
  if (c.unsent_bytes() == 0 && !c.wants_fin() && !c.has_outstanding()) return;
  // The user timeout runs since a window probe that was not answered, and the next one may be.
  const Nanos until = is_probing(c) ? kNever : c.deadline(Timer::kGiveUp);
  set_give_up(c, earlier(until, now + orphan_wait(c)));
}

void limit_late_text(Connection& c, Nanos now) {
  if (c.has_late_text) return;
  c.has_late_text = true;
  set_give_up(c, now + kLateTextWait);
}

void extend_give_up(Connection& c, Nanos stood_still) {
  Nanos& deadline = c.deadline(Timer::kGiveUp);
  if (deadline != kNever) deadline = deadline + stood_still;
}

Nanos current_rto(const Connection& c) { return backed_off(c, c.recovery.backoff); }

void arm_after_queue(Connection& c, Nanos now) {
  if (is_one_of(c.state, kOpening) || c.has_outstanding()) return;
  if (c.unsent_bytes() == 0 && !c.wants_fin()) return;
  Nanos& deadline = c.deadline(Timer::kGiveUp);
  const bool has_persist = c.deadline(Timer::kPersist) != kNever;
  if (deadline == kNever && !has_persist) deadline = now + give_up_after(c);
}

void arm_after_ack(Connection& c, Nanos now) {
  if (!c.has_outstanding()) {
    c.deadline(Timer::kTimeout) = c.deadline(Timer::kTailProbe) = kNever;
    set_give_up(c, kNever);
    if (c.reader_gone) limit_orphan_wait(c, now);
    arm_after_queue(c, now);
    return;
  }
  arm_retransmit(c, now);
  // It counts from the first unanswered probe of such a window.
  const bool is_answered_probe = c.is_window_withdrawn() && !c.reader_gone;
  set_give_up(c, is_answered_probe ? kNever : now + give_up_after(c));
}

void recheck_tail_probe(Connection& c, Nanos now) {
  if (c.deadline(Timer::kTailProbe) == kNever || may_probe_tail(c)) return;
  // The peer is there, and reports losses: what is sent again has a whole timeout.
  arm_retransmit(c, now);
}

void arm_after_send(Connection& c, Nanos now) {
  c.deadline(Timer::kPersist) = kNever;
  c.recovery.persist_backoff = 0;
  if (!c.is_window_withdrawn()) c.snd.is_window_closed = false;
  if (c.deadline(Timer::kTimeout) != kNever) {
    if (c.deadline(Timer::kTailProbe) != kNever) arm_tail_probe(c, now);
    return;
  }
  arm_retransmit(c, now);
  if (is_one_of(c.state, kOpening)) return;
  set_give_up(c, now + give_up_after(c));
}

void begin_persist(Connection& c, Nanos now) {
  // It counts from the first unanswered probe. A connection that the application closed has a limit
  // of its own.
  if (!c.reader_gone) c.deadline(Timer::kGiveUp) = kNever;
  arm_persist(c, now);
}

void arm_keepalive(Connection& c, Nanos now) {
  if (!c.config.keepalive) return;
  c.deadline(Timer::kIdle) = now + millis(c.config.keepalive_idle_ms);
}

void resend_front(Core& core, Connection& c) {
  Scoreboard board(core, c);
  const uint32_t front = c.snd.sent.seq_head;
  if (front == kNoNode || board[front].place != SentRecord::Place::kInFlight) return;
  board.mark_lost(board.split_front(front, c.snd.mss_bytes));
  c.snd.must_retransmit = true;
}

void run_timers(Core& core, Connection& c, Nanos now, Effects& effects) {
  if (take_due(c, Timer::kGiveUp, now)) return give_up(c, effects);
  if (take_due(c, Timer::kIdle, now)) on_idle(c, now, effects);
  if (c.state == State::kClosed) return;
  if (take_due(c, Timer::kAck, now)) c.rcv.ack_now = true;
  const bool is_paced_in = take_due(c, Timer::kPace, now);
  if (take_due(c, Timer::kReorder, now)) on_reorder_timer(core, c, now);
  // Where both are due the probe goes first, and puts the timeout off.
  if (take_due(c, Timer::kTailProbe, now)) on_tail_probe(c, now);
  if (take_due(c, Timer::kTimeout, now)) {
    on_timeout(core, c, now);
    await_answer(c, now);
  }
  if (take_due(c, Timer::kPersist, now)) on_persist(c, now);
  effects.wants_transmit = c.rcv.ack_now || c.snd.sent.lost_head != kNoNode ||
                           c.snd.tail_probe_pending || c.snd.probe_pending || is_paced_in;
}

Nanos earliest_deadline(const Connection& c) {
  Nanos first = c.deadlines[0];
  for (uint32_t i = 1; i < kTimerCount; ++i) first = earlier(first, c.deadlines[i]);
  return first;
}

}  // namespace lyre::tcp
