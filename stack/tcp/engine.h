#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "stack/base/drop_reasons.h"
#include "stack/base/ip_address.h"
#include "stack/base/siphash.h"
#include "stack/tcp/change.h"
#include "stack/tcp/config.h"
#include "stack/tcp/info.h"
#include "stack/tcp/receive_queue.h"
#include "stack/tcp/segment.h"
#include "stack/tcp/state.h"
#include "stack/wire/icmp.h"

namespace lyre::tcp {

class ConnectionRecords;

/// Identifies a connection of one engine. The worker uses the same index for its session.
using ConnId = uint32_t;
inline constexpr ConnId kNoConn = UINT32_MAX;

/// Why a connection ended or could not be opened.
enum class EndReason : uint8_t {
  kNone,
  kClosed,       ///< both sides closed in order
  kReset,        ///< the peer sent RST
  kRefused,      ///< RST in answer to our SYN, or ICMP port or protocol unreachable
  kTimedOut,     ///< no answer within the user timeout
  kAborted,      ///< our side aborted
  kUnreachable,  ///< ICMP unreachable while connecting, or ICMP error before a timeout
};

/// The push mark of appended data. kMore: more data follows at once, so a segment that is not full
/// may wait for it.
enum class SendMark : uint8_t { kPush, kMore };

/// The results of one call, which the caller acts on.
struct [[nodiscard]] Effects {
  bool became_established = false;
  bool peer_finished = false;  ///< FIN arrived in order: the stream ends after the readable bytes
  /// The connection is CLOSED, for `reason`: release() it. If wants_transmit, a RST is queued: call
  /// poll_transmit() once before release(). After kClosed, its receive_queue() still has what was
  /// received.
  bool is_over = false;
  bool entered_time_wait = false;  ///< no later event is of interest to the application
  EndReason reason = EndReason::kNone;
  uint32_t acked_bytes = 0;     ///< so many bytes were acknowledged and leave the send queue
  bool has_readable = false;    ///< ReceiveQueue::take_readable() may have something new
  bool has_superseded = false;  ///< call ReceiveQueue::take_superseded() until empty
  bool payload_kept = false;    ///< the engine holds SegmentIn::payload now
  uint32_t kept_run = 0;        ///< payload_kept: for ReceiveQueue::find_touching()
  bool wants_transmit = false;  ///< call poll_transmit() soon
  std::optional<Drop> drop;     ///< why the segment, or its payload, was not used
  Changes changes;              ///< if any, call take_changes() now
};

/// The results of open_by_cookie(); no connection: `effects` has none either.
struct OpenedByCookie {
  ConnId conn = kNoConn;
  Effects effects;
};

/// State of the send side for an application that waits for acknowledgments.
struct SendSide {
  Nanos rtt_min;  ///< windowed (RFC 8985 6.2); zero: no sample yet
  Nanos rto;      ///< with its back-off (RFC 6298 2 and 5.5)
  /// The peer answers window probes and has no room (RFC 9293 3.8.6.1). False again when something
  /// is sent, and when a probe gets no answer before the next one.
  bool is_window_closed = false;
  bool has_changes = false;  ///< call Engine::take_changes()
  /// Found by losses: after a retransmission, new connections to the peer should know it, see
  /// Engine::assume_path_mtu().
  std::optional<BlackHole> black_hole;
};

/// The TCP of one worker: all its connections, sans-I/O. It uses no clock, thread, packet or memory
/// of others, only sequence numbers, times that are passed to it and a seeded generator, so a
/// simulator can replay it. It contains no pointers: copy_from() snapshots and restores it.
/// Thread: one. Owner: payload handles that it stores are returned by receive_queue().
class Engine {
 public:
  Engine(const EngineConfig& config, SipKey isn_key, uint64_t seed);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Starts an active open: SYN-SENT, the SYN waits in poll_transmit(). kNoConn when full.
  ConnId open_active(const FourTuple& tuple, const ConnectionConfig& config, Nanos now);
  /// Opens a connection for `syn`, which a listener received: SYN-RECEIVED. kNoConn when full.
  /// `iss_after`: a lower bound of our initial sequence number (may_reuse()).
  ConnId open_passive(const FourTuple& tuple, const ConnectionConfig& config, const SegmentIn& syn,
                      Nanos now, std::optional<SeqNum> iss_after = std::nullopt);
  /// A stateless SYN,ACK for `syn`, for a listener whose backlog is full.
  SegmentOut answer_with_cookie(const FourTuple& tuple, const ConnectionConfig& config,
                                const SegmentIn& syn, Nanos now);
  /// Whether `ack`, which a listener received and which belongs to no connection, carries a valid
  /// cookie: its sender has received our SYN,ACK.
  bool has_cookie(const FourTuple& tuple, const SegmentIn& ack, Nanos now) const;
  /// A listener received `ack`, which belongs to no connection. If it is an ACK with a valid
  /// cookie, returns the connection, ESTABLISHED, and the segment's results; else, or when full,
  /// kNoConn.
  OpenedByCookie open_by_cookie(const FourTuple& tuple, const ConnectionConfig& config,
                                const SegmentIn& ack, Nanos now);
  /// RFC 6191, RFC 1122 4.2.2.13: whether `syn` may replace `conn`, which must be in TIME-WAIT. If
  /// so, abort and release `conn`, and pass the returned number to open_passive().
  std::optional<SeqNum> may_reuse(ConnId conn, const SegmentIn& syn) const;

  /// RFC 9293 3.10.7: segment arrives, for an existing connection.
  Effects on_segment(ConnId conn, const SegmentIn& segment, Nanos now);
  /// Whether consecutive segments from `seq` on, which differ in payload only, may be passed to
  /// on_segment() as one: in order, into a queue without gaps.
  bool takes_merged(ConnId conn, SeqNum seq) const;
  /// The application appended `bytes` to the send queue.
  Effects on_app_send(ConnId conn, uint32_t bytes, Nanos now, SendMark mark = SendMark::kPush);
  /// The application released packets that were charged `charge_bytes`; this may open the window.
  /// With 0: the receive pool, which had no room for text of the peer, has room again.
  Effects on_app_release(ConnId conn, uint32_t charge_bytes, Nanos now);
  /// The application ends its data: FIN after the queued data. Receiving continues.
  Effects on_app_shutdown(ConnId conn, Nanos now);
  /// The application closed the connection, also for reading. FIN after the queued data; payload
  /// that still arrives is answered with RST (RFC 9293 3.6.1, RFC 1122 4.2.2.13).
  Effects on_app_close(ConnId conn, Nanos now);
  /// Ends the connection at once: it is CLOSED, for kAborted. Returns the RST that the peer must
  /// get; empty where none is due (RFC 9293 3.10.5).
  std::optional<SegmentOut> on_app_abort(ConnId conn, Nanos now);
  /// Changes the options that an open connection may change: nagle, cork, quick_ack, keep-alive,
  /// user and orphan timeouts, buffer sizes. The rest of `config` is ignored. Data that Nagle or
  /// cork held back is sent when the option is turned off.
  Effects configure(ConnId conn, const ConnectionConfig& config, Nanos now);
  /// A validated ICMP error quoted this connection at `quoted_seq`. A hard error ends a connection
  /// that is not established yet (RFC 5927 5.2: never an established one); a passive open only if
  /// it refuses. Any other error is remembered: if no valid segment follows it, a timeout ends the
  /// connection with kUnreachable. `mtu_bytes` > 0: packet too big.
  Effects on_icmp_error(ConnId conn, SeqNum quoted_seq, wire::IcmpVerdict verdict,
                        uint32_t mtu_bytes, Nanos now);

  /// RFC 1191 6.3: an earlier connection learned at `since` that the path to this peer carries only
  /// `mtu_bytes`. Call it right after the connection was opened. After ten minutes since then the
  /// connection tries larger segments.
  void assume_path_mtu(ConnId conn, uint32_t mtu_bytes, Nanos since);

  /// The next hop cannot be resolved. Ends an active open that is not established yet. A passive
  /// one continues until its timeout, an established connection until its user timeout.
  Effects on_host_unreachable(ConnId conn, Nanos now);

  /// This host stood still for so long, at once or in slices: no connection is given up for that.
  /// `paused_since`: of a pause at once, the last time that the engine was given before it; empty
  /// without one. What was sent until then gives no RTT sample.
  void on_standstill(Nanos stood_still, std::optional<Nanos> paused_since);
  /// Runs the timers that are due. Call when next_deadline() has passed; an early call does
  /// nothing.
  Effects on_timer(ConnId conn, Nanos now);
  Nanos next_deadline(ConnId conn) const;

  /// Requests an ACK that says nothing new. The peer ignores it, also in loss recovery: with SACK
  /// an ACK counts as a duplicate only if it reports something (RFC 6675 2). Does nothing without
  /// SACK, outside ESTABLISHED, and while data is outstanding.
  Effects repeat_ack(ConnId conn);

  /// The next segment to send now, with at most `payload_bytes_max` of payload (less than one MSS
  /// means one MSS; a path probe is larger); empty when there is none. It counts as sent once
  /// returned.
  std::optional<SegmentOut> poll_transmit(ConnId conn, uint32_t payload_bytes_max, Nanos now);

  /// Payload of one full-sized segment that poll_transmit() would return now.
  uint32_t segment_payload_bytes(ConnId conn) const;

  /// The payloads that the engine keeps for `conn`.
  ReceiveQueue receive_queue(ConnId conn);
  /// Frees the connection. REQUIRES: its receive_queue() is empty: take_any() found nothing.
  void release(ConnId conn);

  State state(ConnId conn) const;
  const FourTuple& tuple(ConnId conn) const;
  /// Bytes that the application may append before the send buffer limit is reached.
  uint32_t send_room_bytes(ConnId conn) const;
  /// The current values of the options that configure() can change.
  const ConnectionConfig& config(ConnId conn) const;
  SendSide send_side(ConnId conn) const;
  /// True when `seq` is the next sequence number expected (RCV.NXT).
  bool is_next_expected(ConnId conn, SeqNum seq) const;
  /// Charge of all payload that the connection keeps or has lent out.
  uint32_t charged_bytes(ConnId conn) const;
  ConnectionInfo info(ConnId conn) const;
  /// What happened since the last call. Effects::changes says whether there is anything; what other
  /// calls change is there when the segments that they want sent were taken from poll_transmit():
  /// send_side() says whether; or, without such a segment, when the connection is over.
  Changes take_changes(ConnId conn);
  uint32_t connection_count() const;
  /// Bound of the connections' indices; is_open() says whether an index is in use.
  uint32_t index_bound() const;
  bool is_open(ConnId conn) const;

  /// Writes connections as records, and opens them from records (connection_record.h).
  ConnectionRecords records();

  /// Aborts the process when an invariant of `conn` does not hold (simulator, fuzzers).
  void check_invariants(ConnId conn) const;
  /// Makes this engine equal to `other`, which has the same configuration.
  void copy_from(const Engine& other);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// RFC 9293 3.10.7.1: the RST that answers `segment` when no connection exists; empty when
/// `segment` is a RST itself.
std::optional<SegmentOut> reset_for(const SegmentIn& segment);

}  // namespace lyre::tcp
