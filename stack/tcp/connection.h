#pragma once

#include <array>
#include <cstdint>

#include "stack/base/buf_ref.h"
#include "stack/base/ip_address.h"
#include "stack/base/nanos.h"
#include "stack/base/seq_num.h"
#include "stack/base/slab.h"
#include "stack/tcp/config.h"
#include "stack/tcp/congestion.h"
#include "stack/tcp/engine.h"
#include "stack/tcp/rtt.h"
#include "stack/tcp/state.h"
#include "stack/wire/tcp_segment.h"

namespace lyre::tcp {

inline constexpr uint32_t kNoNode = UINT32_MAX;

/// A run of sequence space that was sent together and shares one fate (SYN and FIN count as one).
/// It hangs in the list by sequence, and in one of: the list by time of sending (in flight), the
/// list of what is to be sent again (lost), none (sacked).
struct SentRecord {
  enum class Place : uint8_t { kInFlight, kLost, kSacked };

  SeqNum start;
  SeqNum end;
  Nanos sent_at;
  uint32_t seq_next = kNoNode;
  uint32_t seq_prev = kNoNode;
  uint32_t queue_next = kNoNode;
  uint32_t queue_prev = kNoNode;
  Place place = Place::kInFlight;
  bool is_retransmitted = false;
  bool ends_pushed = false;  ///< its last byte was the last that was queued, and left with PSH

  uint32_t bytes() const { return end.since(start); }
};

/// A received payload, or what is left of it after trimming, in the list sorted by sequence.
struct ReceivedRun {
  SeqNum start;
  uint32_t length = 0;
  uint32_t offset = 0;  ///< of `start` in the payload
  uint32_t charge_bytes = 0;
  PayloadHandle handle;
  uint32_t next = kNoNode;
  uint32_t prev = kNoNode;

  SeqNum end() const { return start + length; }
};

/// What arms which deadline of a connection.
enum class Timer : uint8_t {
  kAck,        ///< a delayed ACK
  kTimeout,    ///< RFC 6298
  kTailProbe,  ///< RFC 8985 7.2
  kReorder,    ///< RFC 8985 6.2 step 5
  kPersist,    ///< RFC 9293 3.8.6.1
  kGiveUp,     ///< connect timeout, user timeout
  kPace,       ///< the next segment may leave
  kIdle,       ///< TIME-WAIT, orphaned FIN-WAIT-2, keep-alive
};
inline constexpr uint32_t kTimerCount = 8;

/// What bounds the window. kEcnReduction: the network marked, nothing is known to be lost.
enum class RecoveryPhase : uint8_t { kOpen, kEcnReduction, kFastRecovery, kTimeoutRecovery };

inline constexpr uint8_t kRunAcksMax = 3;

/// RFC 3168 and RFC 8257, both directions.
struct EcnState {
  bool is_on = false;
  bool owes_echo = false;        ///< RFC 3168 6.1.3: ECE in every segment until CWR comes
  bool owes_cwr = false;         ///< the next new text tells that the window was reduced
  bool last_was_marked = false;  ///< DCTCP.CE of RFC 8257 3.2
  uint8_t run_ack_count = 0;
  std::array<SeqNum, kRunAcksMax> run_acks{};  ///< owed, one for each change of the mark
};

/// RFC 9293 3.3.1, receive sequence space, and the queue of what arrived.
struct ReceiveState {
  SeqNum nxt;
  SeqNum edge;   ///< nxt + window as the peer knows it; never moves left
  SeqNum acked;  ///< Last.ACK.sent of RFC 7323 4.3
  uint32_t run_head = kNoNode;
  uint32_t run_tail = kNoNode;
  uint32_t gap_head = kNoNode;         ///< first run beyond nxt: behind the first gap
  uint32_t superseded_head = kNoNode;  ///< runs that a later segment holds too, to be taken
  uint32_t charged_bytes = 0;          ///< of all payload that was kept and not released yet
  uint32_t buffer_bytes = 0;           ///< charge that may be promised: tuned, and only ever grows
  uint32_t round_read_bytes = 0;       ///< charge that the reader gave back since round_at
  Nanos round_at;
  Nanos rtt;  ///< as a receiver sees it; zero: no sample yet
  Nanos window_round_at;
  SeqNum window_round_end;     ///< when it arrives, a window has taken at least a round trip
  uint32_t unacked_bytes = 0;  ///< arrived in order since the last ACK
  uint32_t ts_recent = 0;
  uint32_t payload_sum_bytes = 0;  ///< payload and charge of late: their ratio turns free charge
  uint32_t charge_sum_bytes = 0;   ///< into window
  uint16_t segment_bytes_max = 0;  ///< the peer's full-sized segment, as seen
  uint8_t scale = 0;
  uint8_t quick_acks = 0;     ///< so many segments are acknowledged at once
  uint8_t dup_acks_owed = 0;  ///< RFC 5681 4.2: one for each segment out of order
  uint8_t sack_count = 0;
  bool ack_now = false;
  bool has_fin = false;          ///< a FIN arrived, maybe out of order, at fin_seq
  bool has_dsack = false;        ///< RFC 2883: report `dsack` once
  bool saw_short_round = false;  ///< an echo came back within one tick of its clock
  SeqNum fin_seq;
  SeqNum irs;
  wire::SackBlock dsack;
  std::array<wire::SackBlock, wire::kSackBlocksMax> sacks{};  ///< RFC 2018 4: latest first
};

/// The records of what was sent and not cumulatively acknowledged.
struct SentList {
  uint32_t seq_head = kNoNode;
  uint32_t seq_tail = kNoNode;
  uint32_t time_head = kNoNode;
  uint32_t time_tail = kNoNode;
  uint32_t lost_head = kNoNode;
  uint32_t lost_tail = kNoNode;
  uint32_t hint = kNoNode;  ///< where the last SACK block was found
  uint32_t record_count = 0;
  uint32_t sacked_bytes = 0;
  uint32_t lost_bytes = 0;
};

/// RFC 9293 3.3.1, send sequence space.
struct SendState {
  SeqNum una;
  SeqNum nxt;
  SeqNum queue_end;  ///< behind the last byte that the application gave: where the FIN goes
  SeqNum edge;       ///< una + window, as the peer last said
  SeqNum wl1;
  SeqNum wl2;
  uint32_t wnd_bytes_max = 0;
  uint32_t dup_bytes = 0;       ///< without SACK: what duplicate ACKs say has left the network
  uint16_t mss_bytes = 0;       ///< RFC 9293 3.7.1, before options
  uint16_t mss_full_bytes = 0;  ///< the same, as the handshake agreed: paths may carry less
  uint8_t scale = 0;
  uint8_t dup_acks = 0;
  bool fin_queued = false;
  bool is_cwnd_limited = false;
  Nanos mss_reduced_at = kNever;
  bool suspects_black_hole = false;
  bool must_retransmit = false;  ///< the next retransmission leaves whatever cwnd says
  bool probe_pending = false;    ///< window probe or keep-alive
  bool tail_probe_pending = false;
  bool more_follows = false;     ///< SendMark::kMore was said, and no ACK came since
  bool ends_unpushed = false;    ///< the queue's end is no place to push at
  bool push_held = false;        ///< what Nagle or cork holds back leaves now
  uint32_t cwnd_used_bytes = 0;  ///< RFC 2861: most in flight since cwnd_judged_at
  SeqNum cwnd_limited_end;
  SeqNum iss;
  uint32_t ts_offset = 0;  ///< what our timestamps are ahead of the clock
  Nanos last_sent_at;
  Nanos cwnd_judged_at;
  Nanos paced_until;  ///< what was sent so far fills the rate up to here
  SentList sent;
};

/// undo.h: the last reduction, and what would prove that it was for nothing.
struct UndoState {
  SeqNum una;                      ///< when the episode began
  uint32_t resent_bytes = 0;       ///< in it, and not reported to have arrived twice
  Nanos first_resent_at = kNever;  ///< kNever: no ACK has still to tell
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
  SeqNum recover;  ///< snd.nxt when the phase began
  SeqNum rack_end;
  SeqNum rack_fack;  ///< highest byte known to have arrived
  SeqNum dsack_round;
  SeqNum tail_probe_end;
  Nanos rack_sent_at;
  Nanos rack_rtt;
  uint32_t prr_delivered_bytes = 0;
  uint32_t prr_out_bytes = 0;
  uint32_t recover_flight_bytes = 0;
  uint32_t undo = kNoNode;  ///< in Core::undos; kNoNode: nothing that could be given back
};

/// One connection: a plain value without pointers, hot fields first.
struct Connection {
  State state = State::kClosed;
  bool has_timestamps = false;
  bool has_sack = false;
  bool has_scaling = false;
  bool reader_gone = false;
  bool is_active = false;  ///< we dialed
  bool reset_pending = false;
  bool reset_has_ack = false;
  EndReason end_reason = EndReason::kNone;
  uint8_t keepalives_unanswered = 0;
  uint8_t challenge_acks_left = 0;
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

  // Cold: handshake, limits, counters.
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

  /// Sequence number of the first byte in the send queue.
  SeqNum queue_start() const { return snd.una == snd.iss ? snd.iss + 1 : snd.una; }
  uint32_t queue_bytes() const {
    const SeqNum start = queue_start();
    return start.before(snd.queue_end) ? snd.queue_end.since(start) : 0;
  }
  uint32_t unsent_bytes() const {
    const SeqNum next = snd.nxt == snd.iss ? snd.iss + 1 : snd.nxt;
    return next.before(snd.queue_end) ? snd.queue_end.since(next) : 0;
  }
  bool is_fin_sent() const { return snd.nxt.after(snd.queue_end); }
  bool wants_fin() const { return snd.fin_queued && !is_fin_sent(); }
  /// RFC 6675's pipe: sent, and neither arrived nor given up.
  uint32_t in_flight_bytes() const {
    const uint32_t gone = snd.sent.sacked_bytes + snd.sent.lost_bytes + snd.dup_bytes;
    const uint32_t sent = snd.nxt.since(snd.una);
    return sent > gone ? sent - gone : 0;
  }
  /// Something is taken for lost and being sent again.
  bool is_repairing() const {
    return recovery.phase == RecoveryPhase::kFastRecovery ||
           recovery.phase == RecoveryPhase::kTimeoutRecovery;
  }
  bool has_outstanding() const { return snd.nxt != snd.una; }
  uint32_t receive_window_bytes() const { return rcv.edge.since(rcv.nxt); }
};
/// An idle session has 1 KiB: this, session::Session, and 29 bytes of tables (wheel, slabs).
static_assert(sizeof(Connection) <= 808);

}  // namespace lyre::tcp
