#include "stack/tcp/reconfigure.h"

#include "stack/tcp/receive_window.h"
#include "stack/tcp/state_table.h"
#include "stack/tcp/timers.h"

namespace lyre::tcp {

namespace {

constexpr uint16_t kIdleTimerIsTaken =
    static_cast<uint16_t>(state_bit(State::kTimeWait) | kOpening);

/// The idle timer also serves TIME-WAIT and orphans, for which it is left unchanged.
void restart_keepalive(Connection& c, Nanos now) {
  const bool is_orphan = c.state == State::kFinWait2 && c.reader_gone;
  if (is_one_of(c.state, kIdleTimerIsTaken) || is_orphan) return;
  c.deadline(Timer::kIdle) = kNever;
  c.keepalives_unanswered = 0;
  if (c.config.keepalive) {
    c.deadline(Timer::kIdle) = later(c.last_heard_at + millis(c.config.keepalive_idle_ms), now);
  }
}

Nanos patience(const Connection& c) {
  return is_one_of(c.state, kOpening) ? handshake_timeout(c) : give_up_after(c);
}

/// RFC 5482 2.1: a changed timeout is measured from the start of the wait.
void restart_give_up(Connection& c, Nanos old_timeout, Nanos new_timeout) {
  if (c.has_late_text) return;  // which has a limit of its own
  Nanos& deadline = c.deadline(Timer::kGiveUp);
  if (deadline != kNever) deadline = deadline - old_timeout + new_timeout;
}

}  // namespace

void reconfigure(Connection& c, const ConnectionConfig& wanted, Nanos now, Effects& effects) {
  if (c.state == State::kClosed) return;
  ConnectionConfig& config = c.config;
  const bool loosens = (config.nagle && !wanted.nagle) || (config.cork && !wanted.cork) ||
                       (c.snd.more_follows && !wanted.nagle);
  const bool is_keepalive_same = config.keepalive == wanted.keepalive &&
                                 config.keepalive_idle_ms == wanted.keepalive_idle_ms &&
                                 config.keepalive_interval_ms == wanted.keepalive_interval_ms;
  const Nanos old_timeout = patience(c);
  config.nagle = wanted.nagle;
  config.cork = wanted.cork;
  config.quick_ack = wanted.quick_ack;
  config.keepalive = wanted.keepalive;
  config.keepalive_idle_ms = wanted.keepalive_idle_ms;
  config.keepalive_interval_ms = wanted.keepalive_interval_ms;
  config.keepalive_count = wanted.keepalive_count;
  config.user_timeout_ms = wanted.user_timeout_ms;
  config.connect_timeout_ms = wanted.connect_timeout_ms;
  config.syn_received_timeout_s = wanted.syn_received_timeout_s;
  config.orphan_timeout_ms = wanted.orphan_timeout_ms;
  config.send_buffer_bytes = wanted.send_buffer_bytes;
  const uint32_t receive_buffer = workable_buffer_bytes(config, wanted.receive_buffer_bytes);
  // An application that sets a size gets that size, as with SO_RCVBUF: auto-tuning ends.
  if (receive_buffer != config.receive_buffer_bytes) c.rcv.buffer_bytes = receive_buffer;
  config.receive_buffer_bytes = receive_buffer;
  restart_give_up(c, old_timeout, patience(c));
  if (!is_keepalive_same) restart_keepalive(c, now);
  if (loosens && c.unsent_bytes() > 0) {
    c.snd.push_held = true;
    effects.wants_transmit = true;
  }
}

}  // namespace lyre::tcp
