#include "stack/tcp/closing.h"

#include "stack/tcp/state_table.h"
#include "stack/tcp/timers.h"

namespace lyre::tcp {

namespace {

void enter_time_wait(Connection& c, Nanos now, Effects& effects) {
  set_state(c, State::kTimeWait);
  c.deadlines.fill(kNever);
  restart_time_wait(c, now);
  effects.entered_time_wait = true;
}

/// Limits the time in which an orphan waits for a peer that never sends its FIN.
void limit_fin_wait_2(Connection& c, Nanos now) {
  if (c.reader_gone && c.state == State::kFinWait2) {
    c.deadline(Timer::kIdle) = now + millis(c.config.orphan_timeout_ms);
  }
}

/// RFC 9293 3.10.5: states in which ABORT sends a RST.
constexpr uint16_t kAbortSendsReset = static_cast<uint16_t>(
    state_bit(State::kSynReceived) | state_bit(State::kEstablished) | state_bit(State::kFinWait1) |
    state_bit(State::kFinWait2) | state_bit(State::kCloseWait));

/// The answer to text that arrived after the close (refuse_after_close()), or that was refused for
/// want of room before it: nobody reads it (RFC 1122 4.2.2.13).
void refuse_late_text(Connection& c, Effects& effects) {
  queue_reset(c, c.snd.nxt, false, effects);
  finish(c, EndReason::kAborted, effects);
}

}  // namespace

void restart_time_wait(Connection& c, Nanos now) {
  c.deadline(Timer::kIdle) = now + millis(c.config.time_wait_ms);
}

void begin_fin(Connection& c, Effects& effects) {
  if (c.state == State::kEstablished) {
    set_state(c, State::kFinWait1);
  } else if (c.state == State::kCloseWait) {
    set_state(c, State::kLastAck);
  } else {
    return;  // RFC 9293 3.10.4, SYN-RECEIVED: the FIN is sent once established
  }
  effects.wants_transmit = true;
}

void on_peer_fin(Connection& c, Nanos now, Effects& effects) {
  switch (c.state) {
    case State::kEstablished:
      return set_state(c, State::kCloseWait);
    case State::kFinWait1:
      return set_state(c, State::kClosing);  // with our FIN acknowledged it would be FIN-WAIT-2
    case State::kFinWait2:
      return enter_time_wait(c, now, effects);
    default:
      return;
  }
}

void on_fin_acked(Connection& c, Nanos now, Effects& effects) {
  switch (c.state) {
    case State::kFinWait1:
      if (c.has_late_text || (c.reader_gone && c.rcv.was_refused)) {
        return refuse_late_text(c, effects);
      }
      set_state(c, State::kFinWait2);
      return limit_fin_wait_2(c, now);
    case State::kClosing:
      return enter_time_wait(c, now, effects);
    case State::kLastAck:
      return finish(c, EndReason::kClosed, effects);
    default:
      return;
  }
}

void app_shutdown(Connection& c, Effects& effects) {
  if (c.state == State::kClosed || c.snd.fin_queued) return;
  c.snd.fin_queued = true;
  begin_fin(c, effects);
}

void app_close(Connection& c, Nanos now, Effects& effects) {
  if (c.state == State::kClosed) return;
  c.reader_gone = true;
  if (c.state == State::kSynSent) return finish(c, EndReason::kAborted, effects);
  app_shutdown(c, effects);
  limit_orphan_wait(c, now);
  limit_fin_wait_2(c, now);
}

std::optional<SegmentOut> app_abort(Connection& c, Nanos now) {
  std::optional<SegmentOut> reset;
  if (c.state == State::kClosed) return reset;
  Effects effects;  // the caller knows what an abort does
  if (is_one_of(c.state, kAbortSendsReset)) {
    queue_reset(c, c.snd.nxt, true, effects);
    reset = take_reset(c, now);
  }
  finish(c, EndReason::kAborted, effects);
  return reset;
}

SegmentOut take_reset(Connection& c, Nanos now) {
  SegmentOut out;
  out.seq = c.reset_seq;
  out.flags.set(wire::TcpFlags::kRst);
  if (c.reset_has_ack) {
    out.flags.set(wire::TcpFlags::kAck);
    out.ack = c.reset_ack;
  }
  // RFC 7323 3.2: a RST on a connection with timestamps carries the option.
  if (c.reset_has_ack) put_timestamps(c, now, out.options);
  out.mss_bytes = c.snd.mss_bytes;
  c.reset_pending = false;
  c.changes.add(Change::kResetSent);
  ++c.segments_sent;
  return out;
}

}  // namespace lyre::tcp
