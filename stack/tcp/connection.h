#pragma once

#include <array>
#include <cstdint>

#include "stack/base/buf_ref.h"
#include "stack/base/ip_address.h"
#include "stack/base/nanos.h"
#include "stack/base/seq_num.h"
#include "stack/base/slab.h"
#include "stack/tcp/change.h"
#include "stack/tcp/config.h"
#include "stack/tcp/congestion.h"
#include "stack/tcp/engine.h"
#include "stack/tcp/receive_state.h"
#include "stack/tcp/rtt.h"
#include "stack/tcp/state.h"
#include "stack/tcp/state_table.h"
#include "stack/wire/tcp_segment.h"

namespace lyre::tcp {

/// A range of sequence space that was sent at once and has one state (SYN and FIN count as one). It
/// is in the list by sequence, and in at most one other list: by time of sending (in flight), or of
/// retransmissions to send (lost); none when SACKed. RecordIndex owns left, right, parent and
/// is_indexed.
struct SentRecord {
  enum class Place : uint8_t { kInFlight, kLost, kSacked };

  SeqNum start;
  SeqNum end;
  Nanos sent_at;
  uint32_t seq_next = kNoNode;
  uint32_t seq_prev = kNoNode;
  uint32_t queue_next = kNoNode;
  uint32_t queue_prev = kNoNode;
  uint32_t left = kNoNode;
  uint32_t right = kNoNode;
  uint32_t parent = kNoNode;
  Place place = Place::kInFlight;
  bool is_retransmitted = false;
  bool ends_pushed = false;  ///< its last byte was the end of the queue, and was sent with PSH
  bool is_indexed = false;
  bool ends_full = false;      ///< its last segment is a full one, so that the range may grow
  uint16_t segment_bytes = 1;  ///< it was sent in segments of this size; the last may be shorter
  uint16_t cut_bytes = 0;      ///< so much of its first segment is acknowledged

  uint32_t bytes() const { return end.since(start); }
};

/// The deadlines of a connection.
enum class Timer : uint8_t {
  kAck,        ///< a delayed ACK
  kTimeout,    ///< RFC 6298
  kTailProbe,  ///< RFC 8985 7.2
  kReorder,    ///< RFC 8985 6.2 step 5
  kPersist,    ///< RFC 9293 3.8.6.1
  kGiveUp,     ///< handshake_timeout(), user timeout
  kPace,       ///< the next segment may leave
  kIdle,       ///< TIME-WAIT, orphaned FIN-WAIT-2, keep-alive
};
inline constexpr uint32_t kTimerCount = 8;

/// Why the window is limited. kEcnReduction: the network marked a packet, but none is known as
/// lost.
enum class RecoveryPhase : uint8_t { kOpen, kEcnReduction, kFastRecovery, kTimeoutRecovery };

inline constexpr uint8_t kRunAcksMax = 3;

/// RFC 3168 and RFC 8257, both directions.
struct EcnState {
  bool is_on = false;            ///< marks are echoed; to set ECT see may_set_ect()
  bool owes_echo = false;        ///< RFC 3168 6.1.3: ECE in every segment until CWR comes
  bool owes_cwr = false;         ///< the next new text carries CWR
  bool last_was_marked = false;  ///< DCTCP.CE of RFC 8257 3.2
  uint8_t run_ack_count = 0;
  std::array<SeqNum, kRunAcksMax> run_acks{};  ///< pending, one for each change of the mark
};

/// The records of data that was sent and not cumulatively acknowledged.
struct SentList {
  uint32_t seq_head = kNoNode;
  uint32_t seq_tail = kNoNode;
  uint32_t time_head = kNoNode;
  uint32_t time_tail = kNoNode;
  uint32_t lost_head = kNoNode;
  uint32_t lost_tail = kNoNode;
  uint32_t root = kNoNode;  ///< of the RecordIndex
  uint32_t record_count = 0;
  uint32_t sacked_bytes = 0;
  uint32_t lost_bytes = 0;
};

/// What finds out whether the path drops large segments (path_mtu.h).
enum class PathTest : uint8_t {
  kNone,
  kSmall,        ///< large ones were lost again and again, and a small one is tried
  kFull,         ///< it arrived: the full size is tried once more
  kFullLost,     ///< a large one was lost once since
  kSearch,       ///< no test: a smaller size is in use, and the next path probe is due
  kSearchAgain,  ///< it was sent; one that is lost is repeated once
};

/// RFC 9293 3.3.1, send sequence space.
struct SendState {
  SeqNum una;
  SeqNum nxt;
  SeqNum queue_end;  ///< after the last byte that the application appended: the FIN's number
  SeqNum edge;       ///< una + window, as last advertised by the peer
  SeqNum wl1;
  SeqNum wl2;
  uint32_t wnd_bytes_max = 0;
  uint32_t dup_bytes = 0;       ///< without SACK: bytes that left, by the count of duplicate ACKs
  uint16_t mss_bytes = 0;       ///< RFC 9293 3.7.1, before options
  uint16_t mss_full_bytes = 0;  ///< from the handshake; mss_bytes is less if the path carries less
  uint8_t scale = 0;
  uint8_t dup_acks = 0;
  bool fin_queued = false;
  bool is_cwnd_limited = false;
  Nanos mss_reduced_at = kNever;  ///< when mss_bytes was reduced, or tested last
  PathTest path_test = PathTest::kNone;
  bool must_retransmit = false;  ///< the next retransmission ignores cwnd
  bool probe_pending = false;    ///< window probe or keep-alive
  /// The peer's, as its answer to the last window probe, or to the retransmission of what it has no
  /// room for, says.
  bool is_window_closed = false;
  bool tail_probe_pending = false;
  bool more_follows = false;     ///< SendMark::kMore was given, and no ACK came since
  bool ends_unpushed = false;    ///< no PSH at the end of the queue
  bool push_held = false;        ///< data that Nagle or cork holds back is sent now
  uint32_t cwnd_used_bytes = 0;  ///< RFC 2861: the maximum in flight since cwnd_judged_at
  SeqNum cwnd_limited_end;
  SeqNum iss;
  uint32_t ts_offset = 0;  ///< difference of our timestamps to the clock
  Nanos last_sent_at;
  Nanos cwnd_judged_at;
  Nanos paced_until;  ///< the rate is used up to this time by what was sent
  SentList sent;
};

/// undo.h: the last reduction, and the evidence that would show it to be spurious.
struct UndoState {
  SeqNum una;                      ///< when the episode began
  uint32_t resent_bytes = 0;       ///< in the episode, and not yet reported as a duplicate
  Nanos first_resent_at = kNever;  ///< kNever: no ACK can decide any more
  CongestionMemory memory;
};

/// RFC 8985 (RACK-TLP), RFC 6937 (PRR), RFC 6582 (NewReno's recover).
struct RecoveryState {
  RecoveryPhase phase = RecoveryPhase::kOpen;
  uint8_t backoff = 0;  ///< RFC 6298 5.5: doublings of the RTO
  uint8_t persist_backoff = 0;
  uint8_t reorder_mult = 1;  ///< RACK.reo_wnd_mult
  uint8_t reorder_persist = 0;
  bool saw_reordering = false;
  bool rack_valid = false;
  bool has_dsack_round = false;
  bool tail_probe_open = false;
  bool tail_probe_is_retransmit = false;
  bool syn_retransmitted = false;
  /// Reductions that were undone since SND.UNA passed `recover`. No record has it: a successor
  /// counts from zero.
  uint8_t undo_count = 0;
  SeqNum recover;  ///< snd.nxt at the start of the phase
  SeqNum rack_end;
  SeqNum rack_fack;  ///< highest byte known to have arrived
  SeqNum dsack_round;
  SeqNum tail_probe_end;
  Nanos rack_sent_at;
  Nanos rack_rtt;
  uint32_t prr_delivered_bytes = 0;
  uint32_t prr_out_bytes = 0;
  uint32_t recover_flight_bytes = 0;
  uint32_t undo = kNoNode;  ///< index in Core::undos; kNoNode: nothing to restore
};

/// Adds one to a counter, which stays at its maximum.
constexpr void count_up(uint32_t& counter) {
  if (counter != UINT32_MAX) ++counter;
}

/// One connection: a value without pointers. Frequently used fields come first.
struct Connection {
  State state = State::kClosed;
  bool has_timestamps = false;
  bool has_sack = false;
  bool has_scaling = false;
  bool reader_gone = false;
  bool is_active : 1 = false;  ///< opened by this side
  bool reset_pending : 1 = false;
  bool reset_has_ack : 1 = false;
  /// kProbeAnswersMax, since the challenge ACKs were renewed. No record has it: a successor counts
  /// from zero.
  uint8_t probe_answers : 4 = 0;
  /// limit_late_text(). No record has it: a successor learns it from the next such text.
  bool has_late_text : 1 = false;
  bool heard_unreachable = false;  ///< an ICMP error came after the last valid segment
  EndReason end_reason = EndReason::kNone;
  uint8_t keepalives_unanswered = 0;
  uint8_t challenge_acks_left = 0;
  Changes changes;  ///< that Engine::take_changes() has not reported
  SeqNum reset_seq;
  ReceiveState rcv;
  SendState snd;
  std::array<Nanos, kTimerCount> deadlines{kNever, kNever, kNever, kNever,
                                           kNever, kNever, kNever, kNever};
  Congestion cc;
  RttEstimator rtt;
  RecoveryState recovery;
  EcnState ecn;
  SeqNum reset_ack;
  Nanos last_heard_at;  ///< keep-alive

  // Rarely used: handshake, limits, counters.
  Nanos challenge_until;
  Nanos ts_recent_at;
  ConnectionConfig config;
  FourTuple tuple;
  uint32_t timeouts = 0;
  uint32_t fast_recoveries = 0;
  uint32_t out_of_order_segments = 0;
  uint32_t duplicate_segments = 0;
  uint32_t ce_segments = 0;
  uint32_t ecn_reductions = 0;
  uint32_t undone_reductions = 0;
  uint64_t bytes_sent = 0;
  uint64_t bytes_retransmitted = 0;
  uint64_t bytes_acked = 0;
  uint64_t bytes_received = 0;
  uint64_t segments_sent = 0;
  uint64_t segments_received = 0;

  Nanos& deadline(Timer timer) { return deadlines[static_cast<size_t>(timer)]; }
  Nanos deadline(Timer timer) const { return deadlines[static_cast<size_t>(timer)]; }

  /// Later, SND.UNA may be ISS again: 4 GiB further on. A closed connection may never have had it.
  bool is_syn_acked() const {
    return state == State::kClosed ? snd.una != snd.iss : !is_one_of(state, kOpening);
  }
  /// Sequence number of the first byte in the send queue.
  SeqNum queue_start() const { return is_syn_acked() ? snd.una : snd.iss + 1; }
  uint32_t queue_bytes() const {
    const SeqNum start = queue_start();
    return start.before(snd.queue_end) ? snd.queue_end.since(start) : 0;
  }
  uint32_t unsent_bytes() const {
    const bool is_syn_unsent = !is_syn_acked() && snd.nxt == snd.iss;
    const SeqNum next = is_syn_unsent ? snd.iss + 1 : snd.nxt;
    return next.before(snd.queue_end) ? snd.queue_end.since(next) : 0;
  }
  bool is_fin_sent() const { return snd.nxt.after(snd.queue_end); }
  bool is_fin_acked() const { return snd.una.after(snd.queue_end); }
  bool wants_fin() const { return snd.fin_queued && !is_fin_sent(); }
  /// RFC 6675's pipe: sent, and neither SACKed nor marked lost.
  uint32_t in_flight_bytes() const {
    const uint32_t gone = snd.sent.sacked_bytes + snd.sent.lost_bytes + snd.dup_bytes;
    const uint32_t sent = snd.nxt.since(snd.una);
    return sent > gone ? sent - gone : 0;
  }
  /// Data is marked lost and being retransmitted.
  bool is_repairing() const {
    return recovery.phase == RecoveryPhase::kFastRecovery ||
           recovery.phase == RecoveryPhase::kTimeoutRecovery;
  }
  bool has_outstanding() const { return snd.nxt != snd.una; }
  /// RFC 9293 3.8.6, a window that shrank: the peer has no room for what was sent already.
  bool is_window_withdrawn() const { return has_outstanding() && snd.edge.at_or_before(snd.una); }
  uint32_t receive_window_bytes() const { return rcv.edge.since(rcv.nxt); }
};
/// The budget of an idle session is 1 KiB: this, session::Session, and 31 bytes of tables (wheel,
/// slabs).
static_assert(sizeof(Connection) <= 808);

}  // namespace lyre::tcp
