#include "stack/tcp/connect.h"

#include <algorithm>

#include "stack/tcp/ack.h"
#include "stack/tcp/closing.h"
#include "stack/tcp/ecn.h"
#include "stack/tcp/isn.h"
#include "stack/tcp/path_mtu.h"
#include "stack/tcp/receive.h"
#include "stack/tcp/receive_window.h"
#include "stack/tcp/scoreboard.h"
#include "stack/tcp/state_table.h"
#include "stack/tcp/syn_cookie.h"
#include "stack/tcp/timers.h"

namespace lyre::tcp {

namespace {

constexpr uint16_t kMssMin = 64;             ///< the minimum used for a peer that requests less
constexpr uint32_t kIssGap = 65537;          ///< from the last number of a replaced connection
constexpr Nanos kCookieLife = seconds(128);  ///< as long as syn_cookie.h accepts them
constexpr uint32_t kRatioStartPackets = 16;

void set_iss(Connection& c, SeqNum iss) {
  c.snd.iss = c.snd.una = c.snd.nxt = iss;
  c.snd.queue_end = c.snd.edge = iss + 1;
  c.recovery.recover = iss;
}

ConnId start(Core& core, const FourTuple& tuple, const ConnectionConfig& config, Nanos now) {
  const ConnId id = core.connections.take();
  if (id == Slab<Connection>::kNone) return kNoConn;
  Connection& c = core.connections[id];
  c.tuple = tuple;
  c.config = config;
  c.config.receive_buffer_bytes = workable_buffer_bytes(config, config.receive_buffer_bytes);
  c.rcv.buffer_bytes = std::min(c.config.receive_buffer_bytes,
                                workable_buffer_bytes(config, config.receive_buffer_start_bytes));
  c.rcv.round_at = now;
  c.snd.ts_offset = timestamp_offset(tuple, core.isn_key);
  set_iss(c, initial_seq(tuple, core.isn_key, now));
  c.snd.mss_bytes = std::min(config.mss_bytes, mss_everywhere(tuple.remote.address));
  c.rcv.scale = config.window_scaling ? window_scale_for(c.config.receive_buffer_bytes) : 0;
  c.rcv.quick_acks = config.quick_acks_at_start;
  c.rcv.payload_sum_bytes = kRatioStartPackets * config.mss_bytes;
  c.rcv.charge_sum_bytes = kRatioStartPackets * std::max<uint32_t>(config.slot_bytes, 1);
  c.has_timestamps = config.timestamps;
  c.has_sack = config.sack;
  c.has_scaling = config.window_scaling;
  c.last_heard_at = now;
  congestion_start(c.cc, config.congestion, c.snd.mss_bytes);
  return id;
}

/// Takes sequence numbers and options from the peer's SYN.
void accept_syn(Connection& c, const SegmentIn& syn, Nanos now) {
  accept_ecn_offer(c, syn);
  c.rcv.irs = syn.seq;
  c.rcv.nxt = syn.seq + 1;
  c.rcv.edge = c.rcv.acked = c.rcv.nxt;
  advertise_window(c, true);  // as the SYN offered: the window follows from the buffer
  const wire::TcpOptions& offer = syn.options;
  c.has_sack = c.has_sack && offer.sack_permitted;
  c.has_scaling = c.has_scaling && offer.window_scale.has_value();
  c.has_timestamps = c.has_timestamps && offer.has_timestamps;
  // RFC 7323 2.3: a shift above 14 is used as 14.
  c.snd.scale = c.has_scaling ? std::min(*offer.window_scale, kWindowScaleMax) : uint8_t{0};
  if (!c.has_scaling) c.rcv.scale = 0;
  if (c.has_timestamps) {
    c.rcv.ts_recent = offer.ts_value;
    c.ts_recent_at = now;
  }
  const uint16_t unsaid = mss_everywhere(c.tuple.remote.address);
  const uint16_t asked = std::max(offer.mss.value_or(unsaid), kMssMin);
  c.snd.mss_full_bytes = std::min(asked, c.config.mss_bytes);
  const bool is_path_known = c.snd.mss_reduced_at != kNever;  // assume_path_mtu()
  c.snd.mss_bytes =
      is_path_known ? std::min(c.snd.mss_bytes, c.snd.mss_full_bytes) : c.snd.mss_full_bytes;
  c.snd.wl1 = syn.seq;
  c.snd.wl2 = syn.ack;
  c.snd.edge = c.snd.una + syn.window;  // RFC 7323 2.2: never scaled in a SYN
  if (c.snd.una == c.snd.iss) c.snd.edge += 1;
  c.snd.wnd_bytes_max = syn.window;
}

/// RFC 9293 3.10.7.3, first: checks that the ACK, if there is one, acknowledges our SYN.
Verdict check_syn_sent_ack(Connection& c, const SegmentIn& segment, Effects& effects) {
  if (!segment.flags.has(wire::TcpFlags::kAck)) return Verdict::kGoOn;
  const bool is_acceptable = segment.ack.after(c.snd.iss) && segment.ack.at_or_before(c.snd.nxt);
  if (is_acceptable) return Verdict::kGoOn;
  effects.drop = Drop::kTcpBadAck;
  if (!segment.flags.has(wire::TcpFlags::kRst)) queue_reset(c, segment.ack, false, effects);
  return Verdict::kDone;
}

/// RFC 9293 3.10.7.3, second.
void reset_syn_sent(Connection& c, const SegmentIn& segment, Effects& effects) {
  if (segment.flags.has(wire::TcpFlags::kAck)) return finish(c, EndReason::kRefused, effects);
  effects.drop = Drop::kTcpBadReset;
}

/// RFC 9293 3.5 figure 7: simultaneous open. Our SYN is sent again as a SYN,ACK.
void open_simultaneously(Core& core, Connection& c, const SegmentIn& segment, Nanos now,
                         Effects& effects) {
  accept_syn(c, segment, now);
  set_state(c, State::kSynReceived);
  resend_front(core, c);
  effects.wants_transmit = true;
}

}  // namespace

ConnId start_active(Core& core, const FourTuple& tuple, const ConnectionConfig& config, Nanos now) {
  const ConnId id = start(core, tuple, config, now);
  if (id == kNoConn) return id;
  Connection& c = core.connections[id];
  c.is_active = true;
  c.deadline(Timer::kGiveUp) = now + handshake_timeout(c);
  set_state(c, State::kSynSent);
  return id;
}

ConnId start_passive(Core& core, const FourTuple& tuple, const ConnectionConfig& config,
                     const SegmentIn& syn, Nanos now, std::optional<SeqNum> iss_after) {
  const ConnId id = start(core, tuple, config, now);
  if (id == kNoConn) return id;
  Connection& c = core.connections[id];
  c.deadline(Timer::kGiveUp) = now + handshake_timeout(c);
  if (iss_after && c.snd.iss.at_or_before(*iss_after)) set_iss(c, *iss_after + kIssGap);
  accept_syn(c, syn, now);
  set_state(c, State::kSynReceived);
  ++c.segments_received;
  return id;
}

std::optional<SegmentIn> answered_syn(const Core& core, const FourTuple& tuple,
                                      const SegmentIn& ack, Nanos now) {
  using wire::TcpFlags;
  const TcpFlags flags = ack.flags;
  if (!flags.has(TcpFlags::kAck) || flags.has(TcpFlags::kSyn) || flags.has(TcpFlags::kRst)) {
    return std::nullopt;
  }
  if (now - core.last_cookie_at > kCookieLife) return std::nullopt;
  return syn_behind_cookie(tuple, core.isn_key, ack, now);
}

ConnId start_by_cookie(Core& core, const FourTuple& tuple, const ConnectionConfig& config,
                       const SegmentIn& ack, Nanos now, Effects& effects) {
  const auto syn = answered_syn(core, tuple, ack, now);
  if (!syn) return kNoConn;
  const ConnId id = start(core, tuple, config, now);
  if (id == kNoConn) return id;
  Connection& c = core.connections[id];
  set_iss(c, ack.ack - 1);
  accept_syn(c, *syn, now);
  c.snd.nxt = c.snd.iss + 1;  // our SYN was sent in the cookie's SYN,ACK and needs no record
  c.rcv.acked = c.rcv.nxt;
  set_state(c, State::kSynReceived);
  ++c.segments_received;
  establish(core, c, ack, now, effects);
  process_text(core, c, ack, now, effects);
  if (c.state != State::kClosed) process_fin(core, c, ack, now, effects);
  return id;
}

std::optional<SeqNum> number_behind(const Connection& c, const SegmentIn& syn) {
  using wire::TcpFlags;
  if (c.state != State::kTimeWait || !syn.flags.has(TcpFlags::kSyn)) return std::nullopt;
  if (syn.flags.has(TcpFlags::kAck) || syn.flags.has(TcpFlags::kRst)) return std::nullopt;
  const bool is_behind = syn.seq.after(c.rcv.nxt);
  bool is_new = is_behind;
  if (c.has_timestamps && syn.options.has_timestamps) {
    const SeqNum offered(syn.options.ts_value);
    const SeqNum seen(c.rcv.ts_recent);
    is_new = offered.after(seen) || (offered == seen && is_behind);
  }
  if (!is_new) return std::nullopt;
  return c.snd.nxt;
}

void on_segment_syn_sent(Core& core, Connection& c, const SegmentIn& segment, Nanos now,
                         Effects& effects) {
  if (check_syn_sent_ack(c, segment, effects) == Verdict::kDone) return;
  if (segment.flags.has(wire::TcpFlags::kRst)) return reset_syn_sent(c, segment, effects);
  if (!segment.flags.has(wire::TcpFlags::kSyn)) {  // fifth: neither SYN nor RST
    effects.drop = Drop::kTcpBadFlags;
    return;
  }
  if (!segment.flags.has(wire::TcpFlags::kAck)) {
    return open_simultaneously(core, c, segment, now, effects);
  }
  accept_syn(c, segment, now);  // fourth
  establish(core, c, segment, now, effects);
  ack_at_once(c, effects);
  if (c.snd.fin_queued ||
      (segment.payload_bytes == 0 && !segment.flags.has(wire::TcpFlags::kFin))) {
    return;
  }
  SegmentIn text = segment;  // continues at the sixth step
  text.flags.bits &= static_cast<uint8_t>(~wire::TcpFlags::kSyn);
  text.seq = segment.seq + 1;
  process_text(core, c, text, now, effects);
  if (c.state != State::kClosed) process_fin(core, c, text, now, effects);
}

void establish(Core& core, Connection& c, const SegmentIn& segment, Nanos now, Effects& effects) {
  set_state(c, State::kEstablished);
  c.heard_unreachable = false;
  effects.became_established = true;
  effects.wants_transmit = true;
  const CongestionAlgorithm wanted = c.config.congestion;
  congestion_start(c.cc, may_set_ect(c) ? wanted : traits_of(wanted).without_ecn, c.snd.mss_bytes);
  congestion_start_data(c.cc, c.snd.nxt);
  // RFC 5681 3.1: after a lost SYN the initial window is one segment.
  if (c.recovery.syn_retransmitted) c.cc.cwnd_bytes = c.cc.mss_bytes;
  process_syn_ack(core, c, segment, now);
  // RFC 6298 5.7: after a lost SYN, without an RTT sample, data starts with an RTO of 3 s.
  if (c.recovery.syn_retransmitted && !c.rtt.has_sample()) c.rtt.rto = seconds(3);
  c.deadline(Timer::kGiveUp) = kNever;
  arm_keepalive(c, now);
  if (c.snd.fin_queued) begin_fin(c, effects);
  arm_after_queue(c, now);
}

wire::TcpOptions syn_options(const Connection& c, Nanos now) {
  wire::TcpOptions options;
  options.mss = c.config.mss_bytes;
  if (c.has_scaling) options.window_scale = c.rcv.scale;
  options.sack_permitted = c.has_sack;
  put_timestamps(c, now, options);
  return options;
}

}  // namespace lyre::tcp
