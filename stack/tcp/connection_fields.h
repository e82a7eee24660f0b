#pragma once

#include <algorithm>
#include <type_traits>
#include <variant>

#include "stack/record/fields.h"
#include "stack/tcp/connection.h"
#include "stack/tcp/receive_window.h"
#include "stack/wire/tcp_segment.h"

/// The fields of a connection's records, in the order of the format. `Fields` is a FieldWriter or a
/// FieldReader. A field that a later version adds comes last in its list, behind has_since().
namespace lyre::tcp {

inline constexpr uint16_t kConnectionRecordVersion = 1;
inline constexpr uint16_t kSentRecordVersion = 1;
inline constexpr uint16_t kUndoRecordVersion = 1;

// A field that is new in one of these belongs into its list as well.
static_assert(sizeof(ConnectionConfig) == 80 && sizeof(ReceiveState) == 144);
static_assert(sizeof(SendState) == 136 && sizeof(Congestion) == 104);
static_assert(sizeof(RttEstimator) == 40 && sizeof(RecoveryState) == 64);
static_assert(sizeof(EcnState) == 20 && sizeof(SentRecord) == 56 && sizeof(UndoState) == 64);
static_assert(sizeof(Connection) == 808);

/// A duration that may be doubled sixteen times.
template <typename Fields, typename T>
void list_span(Fields& fields, T& span) {
  fields.number(span.value, int64_t{0}, int64_t{1} << 46);
}

template <typename Fields, typename T>
void list_config(Fields& fields, T& config) {
  constexpr uint32_t kBufferBytesMax = 1u << 30;
  fields.number(config.pacing_bytes_per_s_max);
  fields.number(config.receive_buffer_bytes, 1u, kBufferBytesMax);
  fields.number(config.receive_buffer_start_bytes, 1u, kBufferBytesMax);
  fields.number(config.send_buffer_bytes, 1u, kBufferBytesMax);
  fields.number(config.user_timeout_ms, 1u, UINT32_MAX);
  fields.number(config.connect_timeout_ms);
  fields.number(config.rto_min_us);
  fields.number(config.rto_max_ms, 1u, UINT32_MAX);
  fields.number(config.time_wait_ms);
  fields.number(config.keepalive_idle_ms);
  fields.number(config.keepalive_interval_ms);
  fields.number(config.accept_defer_ms);
  fields.number(config.orphan_timeout_ms);
  fields.number(config.ack_delay_ms);
  fields.number(config.syn_received_timeout_s);
  fields.number(config.mss_bytes, uint16_t{1}, uint16_t{UINT16_MAX});
  fields.one_of(config.congestion, CongestionAlgorithm::kDctcp);
  fields.one_of(config.ecn, EcnMode::kOn);
  fields.flag(config.pacing);
  fields.flag(config.timestamps);
  fields.flag(config.sack);
  fields.flag(config.syn_cookies);
  fields.flag(config.window_scaling);
  fields.flag(config.nagle);
  fields.flag(config.keepalive);
  fields.flag(config.cork);
  fields.flag(config.quick_ack);
  fields.flag(config.limits_challenges);
  fields.number(config.quick_acks_at_start);
  fields.number(config.keepalive_count);
}

template <typename Fields, typename T>
void list_block(Fields& fields, T& block) {
  fields.seq(block.start);
  fields.seq(block.end);
}

/// Flags of one bit, to which no reference can be had.
template <typename Fields, typename T>
void list_receive_bits(Fields& fields, T& rcv) {
  bool ack_now = rcv.ack_now;
  bool has_fin = rcv.has_fin;
  bool has_dsack = rcv.has_dsack;
  bool was_refused = rcv.was_refused;
  bool is_told_closed = rcv.is_told_closed;
  bool saw_short_round = rcv.saw_short_round;
  fields.flag(ack_now);
  fields.flag(has_fin);
  fields.flag(has_dsack);
  fields.flag(was_refused);
  fields.flag(is_told_closed);
  fields.flag(saw_short_round);
  if constexpr (!std::is_const_v<T>) {
    rcv.ack_now = ack_now;
    rcv.has_fin = has_fin;
    rcv.has_dsack = has_dsack;
    rcv.was_refused = was_refused;
    rcv.is_told_closed = is_told_closed;
    rcv.saw_short_round = saw_short_round;
  }
}

template <typename Fields, typename T>
void list_receive_state(Fields& fields, T& rcv) {
  fields.seq(rcv.nxt);
  fields.seq(rcv.edge);
  fields.seq(rcv.acked);
  fields.number(rcv.buffer_bytes);
  fields.number(rcv.round_read_bytes);
  fields.time(rcv.round_at);
  list_span(fields, rcv.rtt);
  fields.time(rcv.window_round_at);
  fields.seq(rcv.window_round_end);
  fields.number(rcv.unacked_bytes);
  fields.number(rcv.ts_recent);
  fields.number(rcv.payload_sum_bytes, 0u, 1u << 30);
  fields.number(rcv.charge_sum_bytes, 0u, 1u << 30);
  fields.number(rcv.segment_bytes_max);
  fields.number(rcv.scale, uint8_t{0}, kWindowScaleMax);
  fields.number(rcv.quick_acks);
  fields.number(rcv.dup_acks_owed);
  fields.number(rcv.sack_count, uint8_t{0}, uint8_t{wire::kSackBlocksMax});
  list_receive_bits(fields, rcv);
  fields.seq(rcv.fin_seq);
  fields.seq(rcv.irs);
  list_block(fields, rcv.dsack);
  for (auto& block : rcv.sacks) list_block(fields, block);
}

/// An upgrade forgets the loss that kFullLost has, and a search waits for its next probe as one
/// that has ended: releases before them know no such states.
template <typename Fields, typename T>
void list_path_test(Fields& fields, T& snd) {
  const bool is_search = snd.path_test > PathTest::kFullLost;
  PathTest test = is_search ? PathTest::kNone : std::min(snd.path_test, PathTest::kFull);
  fields.one_of(test, PathTest::kFull);
  if constexpr (!std::is_const_v<T>) snd.path_test = test;
}

template <typename Fields, typename T>
void list_send_state(Fields& fields, T& snd) {
  fields.seq(snd.una);
  fields.seq(snd.nxt);
  fields.seq(snd.queue_end);
  fields.seq(snd.edge);
  fields.seq(snd.wl1);
  fields.seq(snd.wl2);
  fields.number(snd.wnd_bytes_max);
  fields.number(snd.dup_bytes);
  fields.number(snd.mss_bytes);
  fields.number(snd.mss_full_bytes);
  fields.number(snd.scale, uint8_t{0}, kWindowScaleMax);
  fields.number(snd.dup_acks);
  fields.flag(snd.fin_queued);
  fields.flag(snd.is_cwnd_limited);
  fields.time(snd.mss_reduced_at);
  list_path_test(fields, snd);
  fields.flag(snd.must_retransmit);
  fields.flag(snd.probe_pending);
  fields.flag(snd.is_window_closed);
  fields.flag(snd.tail_probe_pending);
  fields.flag(snd.more_follows);
  fields.flag(snd.ends_unpushed);
  fields.flag(snd.push_held);
  fields.number(snd.cwnd_used_bytes);
  fields.seq(snd.cwnd_limited_end);
  fields.seq(snd.iss);
  fields.number(snd.ts_offset);
  fields.time(snd.last_sent_at);
  fields.time(snd.cwnd_judged_at);
  fields.time(snd.paced_until);
}

/// Windows as CUBIC computes with them.
template <typename Fields, typename T>
void list_cubic(Fields& fields, T& cubic) {
  constexpr double kWindowMax = 1e12;
  fields.real(cubic.w_max, 0, kWindowMax);
  fields.real(cubic.cwnd_prior, 0, kWindowMax);
  fields.real(cubic.w_est, 0, kWindowMax);
  fields.real(cubic.k_seconds, -1e6, 1e6);
  fields.time(cubic.epoch_start);
}

/// Which member of the variant there is follows from the algorithm.
template <typename Fields, typename T>
void list_own(Fields& fields, T& cc) {
  CubicState cubic = cc.cubic() == nullptr ? CubicState{} : *cc.cubic();
  DctcpState dctcp = cc.dctcp() == nullptr ? DctcpState{} : *cc.dctcp();
  list_cubic(fields, cubic);
  fields.real(dctcp.alpha, 0, 1);
  fields.number(dctcp.acked_bytes);
  fields.number(dctcp.marked_bytes);
  fields.seq(dctcp.window_end);
  if constexpr (!std::is_const_v<T>) {
    if (cc.algorithm == CongestionAlgorithm::kCubic) cc.own = cubic;
    if (cc.algorithm == CongestionAlgorithm::kDctcp) cc.own = dctcp;
  }
}

template <typename Fields, typename T>
void list_congestion(Fields& fields, T& cc) {
  fields.number(cc.cwnd_bytes, 0u, kCwndBytesMax + UINT16_MAX);
  fields.number(cc.ssthresh_bytes, 1u, UINT32_MAX);
  fields.number(cc.mss_bytes, 0u, uint32_t{UINT16_MAX});
  fields.one_of(cc.algorithm, CongestionAlgorithm::kDctcp);
  fields.real(cc.credit_bytes, 0, 1e12);
  list_own(fields, cc);
  fields.seq(cc.hystart.round_end);
  fields.number(cc.hystart.sample_count);
  fields.number(cc.hystart.css_rounds_left);
  fields.time(cc.hystart.last_round_rtt_min);
  fields.time(cc.hystart.round_rtt_min);
  fields.time(cc.hystart.css_baseline);
}

template <typename Fields, typename T>
void list_rtt(Fields& fields, T& rtt) {
  list_span(fields, rtt.srtt);
  list_span(fields, rtt.rtt_var);
  list_span(fields, rtt.rtt_min);
  fields.time(rtt.rtt_min_at);
  list_span(fields, rtt.rto);
}

template <typename Fields, typename T>
void list_recovery(Fields& fields, T& recovery) {
  fields.one_of(recovery.phase, RecoveryPhase::kTimeoutRecovery);
  fields.number(recovery.backoff);
  fields.number(recovery.persist_backoff);
  fields.number(recovery.reorder_mult);
  fields.number(recovery.reorder_persist);
  fields.flag(recovery.saw_reordering);
  fields.flag(recovery.rack_valid);
  fields.flag(recovery.has_dsack_round);
  fields.flag(recovery.tail_probe_open);
  fields.flag(recovery.tail_probe_is_retransmit);
  fields.flag(recovery.syn_retransmitted);
  fields.seq(recovery.recover);
  fields.seq(recovery.rack_end);
  fields.seq(recovery.rack_fack);
  fields.seq(recovery.dsack_round);
  fields.seq(recovery.tail_probe_end);
  fields.time(recovery.rack_sent_at);
  list_span(fields, recovery.rack_rtt);
  fields.number(recovery.prr_delivered_bytes);
  fields.number(recovery.prr_out_bytes);
  fields.number(recovery.recover_flight_bytes);
}

template <typename Fields, typename T>
void list_ecn(Fields& fields, T& ecn) {
  fields.flag(ecn.is_on);
  fields.flag(ecn.owes_echo);
  fields.flag(ecn.owes_cwr);
  fields.flag(ecn.last_was_marked);
  fields.number(ecn.run_ack_count, uint8_t{0}, kRunAcksMax);
  for (auto& ack : ecn.run_acks) fields.seq(ack);
}

template <typename Fields, typename T>
void list_tuple(Fields& fields, T& tuple) {
  fields.address(tuple.local.address);
  fields.number(tuple.local.port, uint16_t{1}, uint16_t{UINT16_MAX});
  fields.address(tuple.remote.address);
  fields.number(tuple.remote.port);  // a peer may send from port 0
}

template <typename Fields, typename T>
void list_counters(Fields& fields, T& c) {
  fields.number(c.timeouts);
  fields.number(c.fast_recoveries);
  fields.number(c.out_of_order_segments);
  fields.number(c.duplicate_segments);
  fields.number(c.ce_segments);
  fields.number(c.ecn_reductions);
  fields.number(c.undone_reductions);
  fields.number(c.bytes_sent);
  fields.number(c.bytes_retransmitted);
  fields.number(c.bytes_acked);
  fields.number(c.bytes_received);
  fields.number(c.segments_sent);
  fields.number(c.segments_received);
}

/// Flags of one bit, to which no reference can be had.
template <typename Fields, typename T>
void list_bits(Fields& fields, T& c) {
  bool is_active = c.is_active;
  bool reset_pending = c.reset_pending;
  bool reset_has_ack = c.reset_has_ack;
  fields.flag(is_active);
  fields.flag(reset_pending);
  fields.flag(reset_has_ack);
  if constexpr (!std::is_const_v<T>) {
    c.is_active = is_active;
    c.reset_pending = reset_pending;
    c.reset_has_ack = reset_has_ack;
  }
}

/// All of kConnection but the numbers of the records that follow.
template <typename Fields, typename T>
void list_connection(Fields& fields, T& c) {
  fields.one_of(c.state, State::kTimeWait);
  fields.flag(c.has_timestamps);
  fields.flag(c.has_sack);
  fields.flag(c.has_scaling);
  fields.flag(c.reader_gone);
  list_bits(fields, c);
  fields.flag(c.heard_unreachable);
  fields.one_of(c.end_reason, EndReason::kUnreachable);
  fields.number(c.keepalives_unanswered);
  fields.number(c.challenge_acks_left);
  fields.seq(c.reset_seq);
  list_receive_state(fields, c.rcv);
  list_send_state(fields, c.snd);
  for (auto& deadline : c.deadlines) fields.time(deadline);
  list_congestion(fields, c.cc);
  list_rtt(fields, c.rtt);
  list_recovery(fields, c.recovery);
  list_ecn(fields, c.ecn);
  fields.seq(c.reset_ack);
  fields.time(c.last_heard_at);
  fields.time(c.challenge_until);
  fields.time(c.ts_recent_at);
  list_config(fields, c.config);
  list_tuple(fields, c.tuple);
  list_counters(fields, c);
}

template <typename Fields, typename T>
void list_sent(Fields& fields, T& sent) {
  fields.seq(sent.start);
  fields.seq(sent.end);
  fields.time(sent.sent_at);
  fields.one_of(sent.place, SentRecord::Place::kSacked);
  fields.flag(sent.is_retransmitted);
  fields.flag(sent.ends_pushed);
  fields.flag(sent.ends_full);
  fields.number(sent.segment_bytes, uint16_t{1}, uint16_t{UINT16_MAX});
  fields.number(sent.cut_bytes);
}

template <typename Fields, typename T>
void list_undo(Fields& fields, T& undo) {
  fields.seq(undo.una);
  fields.number(undo.resent_bytes);
  fields.time(undo.first_resent_at);
  fields.number(undo.memory.cwnd_bytes, 1u, kCwndBytesMax);
  fields.number(undo.memory.ssthresh_bytes, 1u, UINT32_MAX);
  list_cubic(fields, undo.memory.cubic);
}

}  // namespace lyre::tcp
