#include "stack/tcp/segment_arrives.h"

#include <algorithm>

#include "stack/tcp/ack.h"
#include "stack/tcp/closing.h"
#include "stack/tcp/connect.h"
#include "stack/tcp/ecn.h"
#include "stack/tcp/receive.h"
#include "stack/tcp/timers.h"

namespace lyre::tcp {

namespace {

using wire::TcpFlags;

/// RFC 7323 5.5: a timestamp older than this is not used for PAWS. A clock of microseconds, which
/// Linux has as an option, passes half of its range in this time.
constexpr Nanos kTimestampLife = micros(INT32_MAX);

/// When a deferred connection may open, an ACK has this long to arrive before the SYN,ACK is sent
/// again.
constexpr Nanos kDeferGrace = millis(100);

constexpr uint8_t kQuickAcksAfterOutage = 2;

uint32_t sequence_length(const SegmentIn& segment) {
  return segment.payload_bytes + (segment.flags.has(TcpFlags::kSyn) ? 1 : 0) +
         (segment.flags.has(TcpFlags::kFin) ? 1 : 0);
}

/// RFC 7323 5.3 R1: PAWS. A segment without the option is accepted, as in Linux, although 3.2 says
/// SHOULD drop: some middleboxes strip the option from single segments.
Verdict check_timestamp(Core& core, Connection& c, const SegmentIn& segment, Nanos now,
                        Effects& effects) {
  if (!c.has_timestamps || !segment.options.has_timestamps) return Verdict::kGoOn;
  if (segment.flags.has(TcpFlags::kRst)) return Verdict::kGoOn;
  // Some hosts and SYN proxies send a SYN with 0, and a clock in any half of its range later.
  const bool is_known = c.rcv.ts_recent != 0;
  const bool is_old = SeqNum(segment.options.ts_value).before(SeqNum(c.rcv.ts_recent));
  if (!is_known || !is_old || now - c.ts_recent_at > kTimestampLife) return Verdict::kGoOn;
  effects.drop = Drop::kTcpPaws;
  challenge_ack(core, c, now, effects);
  return Verdict::kDone;
}

/// RFC 9293 table 6, but a segment at the right edge is accepted as well. A sender that has filled
/// the window puts exactly that number into pure ACKs: its ACK and its RST count although its text
/// does not fit.
bool is_acceptable(const Connection& c, const SegmentIn& segment) {
  if (segment.seq.after(c.rcv.edge)) return false;
  const uint32_t length = sequence_length(segment);
  if (length == 0) return segment.seq.at_or_after(c.rcv.nxt);
  return segment.seq == c.rcv.nxt || (segment.seq + length).after(c.rcv.nxt);
}

/// RFC 9293 3.8.4 and 3.8.6.1: a window probe or a keep-alive, or the peer's FIN again. All are one
/// below RCV.NXT, which a host off the path does not know.
bool is_peers_probe(const Connection& c, const SegmentIn& segment) {
  return segment.seq == c.rcv.nxt - 1 && segment.payload_bytes == 0 &&
         !segment.flags.has(TcpFlags::kSyn);
}

void answer_unacceptable(Core& core, Connection& c, const SegmentIn& segment, Nanos now,
                         Effects& effects) {
  const SeqNum end = segment.seq + segment.payload_bytes;
  const bool is_repeat = segment.payload_bytes > 0 && end.at_or_before(c.rcv.nxt);
  effects.drop = is_repeat ? Drop::kTcpDuplicate : Drop::kTcpOutOfWindow;
  if (segment.flags.has(TcpFlags::kRst)) return;
  // RFC 9293 3.10.7.4, eighth, TIME-WAIT: the peer has not received our last ACK.
  const bool is_fin_again = segment.flags.has(TcpFlags::kFin) && end == c.rcv.fin_seq;
  if (c.state == State::kTimeWait && is_fin_again) restart_time_wait(c, now);
  if (is_repeat) {
    count_up(c.duplicate_segments);
    note_duplicate(c, segment.seq, end);
    return ack_at_once(c, effects);
  }
  if (is_peers_probe(c, segment)) return answer_probe(core, c, now, effects);
  // The rate limit keeps two hosts with inconsistent state from answering each other without end.
  challenge_ack(core, c, now, effects);
}

/// First: the sequence number.
Verdict check_sequence(Core& core, Connection& c, const SegmentIn& segment, Nanos now,
                       Effects& effects) {
  if (!is_acceptable(c, segment)) {
    answer_unacceptable(core, c, segment, now, effects);
    return Verdict::kDone;
  }
  return Verdict::kGoOn;
}

/// RFC 7323 4.3: only a segment that begins at or before Last.ACK.sent may update TS.Recent, and
/// only if its own ACK was acceptable. Otherwise a blind attacker could make PAWS reject the peer's
/// segments.
void take_timestamp(Connection& c, const SegmentIn& segment, Nanos now) {
  const wire::TcpOptions& options = segment.options;
  if (!c.has_timestamps || !options.has_timestamps) return;
  if (segment.seq.after(c.rcv.acked)) return;
  c.rcv.ts_recent = options.ts_value;
  c.ts_recent_at = now;
}

/// RFC 9293 3.10.7.4, second: a RST after an active open (also a simultaneous one) means "refused".
EndReason reason_of_reset(const Connection& c) {
  if (c.state == State::kTimeWait) return EndReason::kClosed;
  return c.state == State::kSynReceived && c.is_active ? EndReason::kRefused : EndReason::kReset;
}

/// The right edge, which is_acceptable() accepts as an exception, is outside the window for a RST.
/// But a peer that has filled the window and lost part of it resets with exactly this number, and a
/// challenge ACK lets it retry with the right one.
bool is_at_closed_edge(const Connection& c, SeqNum seq) {
  return seq == c.rcv.edge && seq != c.rcv.nxt && c.rcv.gap_head == kNoNode;
}

/// Second: RST. RFC 5961 3.2: an exact match resets, a RST in the window gets a challenge ACK,
/// others are dropped.
Verdict check_reset(Core& core, Connection& c, const SegmentIn& segment, Nanos now,
                    Effects& effects) {
  if (!segment.flags.has(TcpFlags::kRst)) return Verdict::kGoOn;
  if (is_at_closed_edge(c, segment.seq)) {
    effects.drop = Drop::kTcpOutOfWindow;
    return Verdict::kDone;
  }
  if (segment.seq != c.rcv.nxt) {
    effects.drop = Drop::kTcpBadReset;
    challenge_ack(core, c, now, effects);
    return Verdict::kDone;
  }
  finish(c, reason_of_reset(c), effects);
  return Verdict::kDone;
}

/// Fourth: SYN (third, security, is not used). RFC 5961 4.2: at most a challenge ACK.
Verdict check_syn(Core& core, Connection& c, const SegmentIn& segment, Nanos now,
                  Effects& effects) {
  if (!segment.flags.has(TcpFlags::kSyn)) return Verdict::kGoOn;
  effects.drop = Drop::kTcpBadSyn;
  challenge_ack(core, c, now, effects);
  return Verdict::kDone;
}

/// RFC 9293 3.8.4: only an acceptable segment shows that the peer is alive.
void note_sign_of_life(Connection& c, Nanos now) {
  c.last_heard_at = now;
  c.keepalives_unanswered = 0;
  c.heard_unreachable = false;
}

/// A peer that was not heard for so long may have lost everything it sent, and begins again with
/// one segment (RFC 5681 3.1, 4.1): a delayed ACK would cost it 40 ms. It has more to send, so the
/// segment has no PSH.
void hasten_acks_after_outage(Connection& c, const SegmentIn& segment, Nanos now) {
  if (segment.payload_bytes == 0 || segment.flags.has(TcpFlags::kPsh)) return;
  if (now - c.last_heard_at < c.rtt.rto) return;
  c.rcv.quick_acks = std::max(c.rcv.quick_acks, kQuickAcksAfterOutage);
}

/// RFC 9293 3.10.7.4, fifth to eighth, TIME-WAIT. The peer's own FIN lies below RCV.NXT, and
/// answer_unacceptable() starts the wait anew for it. Any other segment is acknowledged, as Linux
/// does, and its text is not taken. A bare ACK at RCV.NXT is not answered: two hosts in TIME-WAIT
/// would exchange ACKs for ever.
void process_in_time_wait(Core& core, Connection& c, const SegmentIn& segment, Nanos now,
                          Effects& effects) {
  const bool is_fin = segment.flags.has(TcpFlags::kFin);
  if (!is_fin && segment.payload_bytes == 0 && segment.seq == c.rcv.nxt) return;
  effects.drop = Drop::kTcpOutOfWindow;
  challenge_ack(core, c, now, effects);
}

void run_steps(Core& core, Connection& c, const SegmentIn& segment, Nanos now, Effects& effects) {
  if (check_timestamp(core, c, segment, now, effects) == Verdict::kDone) return;
  if (check_sequence(core, c, segment, now, effects) == Verdict::kDone) return;
  if (check_reset(core, c, segment, now, effects) == Verdict::kDone) return;
  if (check_syn(core, c, segment, now, effects) == Verdict::kDone) return;
  if (process_ack(core, c, segment, now, effects) == Verdict::kDone) return;
  effects.changes = c.changes;
  hasten_acks_after_outage(c, segment, now);
  note_sign_of_life(c, now);
  take_timestamp(c, segment, now);
  if (c.state == State::kTimeWait) return process_in_time_wait(core, c, segment, now, effects);
  process_text(core, c, segment, now, effects);  // sixth, URG, is ignored: RFC 6093
  if (c.state == State::kClosed) return;
  process_fin(core, c, segment, now, effects);
}

/// The peer's SYN arrived again: our SYN,ACK was lost. Or (RFC 9293 3.5, figure 7) both sides
/// opened and this is its SYN,ACK, whose sequence number table 6 would reject.
void retake_syn(Core& core, Connection& c, const SegmentIn& segment, Nanos now, Effects& effects) {
  reconsider_ecn_offer(c, segment);
  if (!segment.flags.has(TcpFlags::kAck)) {
    resend_front(core, c);
    effects.wants_transmit = true;
    return;
  }
  SegmentIn without_syn = segment;
  without_syn.flags.bits &= static_cast<uint8_t>(~TcpFlags::kSyn);
  without_syn.seq = segment.seq + 1;
  without_syn.window = static_cast<uint16_t>(segment.window >> c.snd.scale);  // a SYN's is unscaled
  run_steps(core, c, without_syn, now, effects);
  if (c.state != State::kClosed) ack_at_once(c, effects);
}

/// accept_defer: before the peer has sent data, a bare ACK does not complete the handshake. It is
/// treated as lost, but the SYN,ACK is not sent again before the time is over.
/// The opening time is not stored. It follows from the give-up deadline, which start() set to the
/// opening time plus handshake_timeout(), and which reconfigure() moves when that timeout changes.
bool is_deferred(Connection& c, const SegmentIn& segment, Nanos now) {
  if (c.config.accept_defer_ms == 0 || c.is_active) return false;
  const Nanos opened_at = c.deadline(Timer::kGiveUp) - handshake_timeout(c);
  const Nanos until = opened_at + millis(c.config.accept_defer_ms);
  const bool is_bare_ack = segment.flags.bits == TcpFlags::kAck && segment.payload_bytes == 0 &&
                           is_acceptable(c, segment);
  if (!is_bare_ack || segment.ack != c.snd.nxt || now >= until) return false;
  c.deadline(Timer::kTimeout) = until + kDeferGrace;
  return true;
}

void on_segment_syn_received(Core& core, Connection& c, const SegmentIn& segment, Nanos now,
                             Effects& effects) {
  // Only a peer that dialed us while we dialed it sends a SYN,ACK. To a passive open it is an
  // unacceptable segment, or one with a SYN in the window: run_steps() challenges both.
  const bool is_same_syn = segment.flags.has(TcpFlags::kSyn) && segment.seq == c.rcv.irs &&
                           !segment.flags.has(TcpFlags::kRst) &&
                           (c.is_active || !segment.flags.has(TcpFlags::kAck));
  if (is_same_syn) return retake_syn(core, c, segment, now, effects);
  if (is_deferred(c, segment, now)) return;
  run_steps(core, c, segment, now, effects);
}

}  // namespace

void segment_arrives(Core& core, Connection& c, const SegmentIn& segment, Nanos now,
                     Effects& effects) {
  c.segments_received += segment.segment_count;
  switch (c.state) {
    case State::kClosed:
      effects.drop = Drop::kTcpNoConnection;
      return;
    case State::kSynSent:
      return on_segment_syn_sent(core, c, segment, now, effects);
    case State::kSynReceived:
      return on_segment_syn_received(core, c, segment, now, effects);
    default:
      return run_steps(core, c, segment, now, effects);
  }
}

}  // namespace lyre::tcp
