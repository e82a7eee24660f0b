#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "stack/base/drop_reasons.h"
#include "stack/base/ip_address.h"
#include "stack/base/siphash.h"
#include "stack/tcp/config.h"
#include "stack/tcp/info.h"
#include "stack/tcp/segment.h"
#include "stack/tcp/state.h"
#include "stack/wire/icmp.h"

namespace lyre::tcp {

/// Names a connection of one engine. The worker uses the same index for its session.
using ConnId = uint32_t;
inline constexpr ConnId kNoConn = UINT32_MAX;

/// Why a connection ended, or could not be made.
enum class EndReason : uint8_t {
  kNone,
  kClosed,       ///< both sides finished in order
  kReset,        ///< the peer sent RST
  kRefused,      ///< RST in answer to our SYN, or ICMP that nobody listens
  kTimedOut,     ///< no answer within the user timeout
  kAborted,      ///< our side aborted
  kUnreachable,  ///< ICMP said so while connecting
};

/// What the application says with a piece of data. kMore: the next piece follows at once, so a
/// segment that is not full may wait for it.
enum class SendMark : uint8_t { kPush, kMore };

/// What one call changed. The caller clears it before, and looks at it after, each call.
struct Effects {
  bool became_established = false;
  bool peer_finished = false;  ///< FIN arrived in order: after the readable bytes comes the end
  /// The connection is CLOSED and `reason` says why; release() it. With wants_transmit a RST waits:
  /// one poll_transmit() before release(). After kClosed, take_readable() still gives what came.
  bool is_over = false;
  bool entered_time_wait = false;  ///< nothing more will happen that the application should see
  EndReason reason = EndReason::kNone;
  uint32_t acked_bytes = 0;     ///< this many bytes left the front of the send queue
  bool has_readable = false;    ///< take_readable() may have something new
  bool has_superseded = false;  ///< take_superseded() until it is empty
  bool payload_kept = false;    ///< the engine holds SegmentIn::payload now
  bool wants_transmit = false;  ///< call poll_transmit() soon
  std::optional<Drop> drop;     ///< the segment, or its payload, was not used, and why

  void clear() { *this = Effects{}; }
};

/// The TCP of one worker: all its connections, sans-I/O. It knows no clock, thread, packet or
/// memory: only sequence space, time given to it and a seeded generator, so that a simulator can
/// replay it. Nothing in it is a pointer: copy_from() snapshots and restores it.
/// Thread: one. Owner: payload handles that it keeps come back through take_readable(), or
/// take_any_payload() when a connection ends early.
class Engine {
 public:
  Engine(const EngineConfig& config, SipKey isn_key, uint64_t seed);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Starts an active open: SYN-SENT, the SYN waits in poll_transmit(). kNoConn when full.
  ConnId open_active(const FourTuple& tuple, const ConnectionConfig& config, Nanos now);
  /// Answers `syn` that came to a listener: SYN-RECEIVED. kNoConn when full. `iss_after`: our
  /// sequence numbers begin behind it (may_reuse()).
  ConnId open_passive(const FourTuple& tuple, const ConnectionConfig& config, const SegmentIn& syn,
                      Nanos now, std::optional<SeqNum> iss_after = std::nullopt);
  /// The SYN,ACK for `syn` that leaves no state behind: for a listener whose backlog is full.
  SegmentOut answer_with_cookie(const FourTuple& tuple, const ConnectionConfig& config,
                                const SegmentIn& syn, Nanos now);
  /// Whether `ack`, which came to a listener and is of no connection, proves with a cookie of ours
  /// that its sender had our SYN,ACK.
  bool has_cookie(const FourTuple& tuple, const SegmentIn& ack, Nanos now) const;
  /// `ack` came to a listener, of no connection. When it is an ACK with a cookie of ours: the
  /// connection, ESTABLISHED, with what the segment did in `effects`. Else, and when full, kNoConn.
  ConnId open_by_cookie(const FourTuple& tuple, const ConnectionConfig& config,
                        const SegmentIn& ack, Nanos now, Effects& effects);
  /// RFC 6191, RFC 1122 4.2.2.13: whether `syn` may take the place of `conn`, which is in TIME-WAIT
  /// then. Abort and release that, and open_passive() behind the returned number.
  std::optional<SeqNum> may_reuse(ConnId conn, const SegmentIn& syn) const;

  /// RFC 9293 3.10.7: segment arrives, for an existing connection.
  void on_segment(ConnId conn, const SegmentIn& segment, Nanos now, Effects& effects);
  /// Whether segments that follow each other from `seq` on, equal in all but payload, may be given
  /// to on_segment() as one: in order, into a queue without gaps.
  bool takes_merged(ConnId conn, SeqNum seq) const;
  /// The application appended `bytes` to the send queue.
  void on_app_send(ConnId conn, uint32_t bytes, Nanos now, Effects& effects,
                   SendMark mark = SendMark::kPush);
  /// The application gave back packets that had cost `charge_bytes`; may open the window.
  void on_app_release(ConnId conn, uint32_t charge_bytes, Nanos now, Effects& effects);
  /// No more will be sent: FIN after what is queued. Receiving goes on.
  void on_app_shutdown(ConnId conn, Nanos now, Effects& effects);
  /// The application is gone: nobody reads any more. FIN after what is queued; payload that still
  /// arrives is answered with RST (RFC 9293 3.6.1, RFC 1122 4.2.2.13).
  void on_app_close(ConnId conn, Nanos now, Effects& effects);
  /// RST to the peer (through poll_transmit() or at once in `reset_out`) and over.
  void on_app_abort(ConnId conn, Nanos now, Effects& effects, std::optional<SegmentOut>& reset_out);
  /// Changes what may change while a connection is open: nagle, cork, quick_ack, keep-alive, user
  /// and orphan timeouts, buffer sizes. The rest of `config` is ignored. What Nagle or the cork
  /// held back leaves when it is taken off.
  void configure(ConnId conn, const ConnectionConfig& config, Nanos now, Effects& effects);
  /// A validated ICMP error quoted this connection at `quoted_seq`. What is not soft ends a
  /// connection that is not established yet (RFC 5927 5.2: never one that is). `mtu_bytes` > 0: too
  /// big.
  void on_icmp_error(ConnId conn, SeqNum quoted_seq, wire::IcmpVerdict verdict, uint32_t mtu_bytes,
                     Nanos now, Effects& effects);

  /// Nobody answers for the next hop. Ends a connection that is not established yet; one that is
  /// goes on until its user timeout.
  void on_host_unreachable(ConnId conn, Nanos now, Effects& effects);

  /// Runs what is due. Call when next_deadline() has come; calling early does nothing.
  void on_timer(ConnId conn, Nanos now, Effects& effects);
  Nanos next_deadline(ConnId conn) const;

  /// The next segment that may leave now, at most `payload_bytes_max` of payload (less than one MSS
  /// means one MSS); empty when there is none. It counts as sent once returned.
  std::optional<SegmentOut> poll_transmit(ConnId conn, uint32_t payload_bytes_max, Nanos now);

  /// Payload of one full segment of those that poll_transmit() would give now.
  uint32_t segment_payload_bytes(ConnId conn) const;

  /// The next run of in-order bytes, front of the receive queue; empty when there is none.
  /// Owner: the handle passes to the caller, its charge stays until on_app_release().
  std::optional<PayloadSlice> take_readable(ConnId conn);
  /// A payload whose bytes came again inside a longer one: the packet goes back unread. Its charge
  /// is gone already.
  std::optional<PayloadHandle> take_superseded(ConnId conn);
  /// Any payload the engine still holds for `conn`, for giving packets back before release().
  std::optional<PayloadHandle> take_any_payload(ConnId conn);
  /// Forgets the connection. REQUIRES: take_any_payload() came back empty.
  void release(ConnId conn);

  State state(ConnId conn) const;
  const FourTuple& tuple(ConnId conn) const;
  /// Bytes the application may append before the send buffer limit is reached.
  uint32_t send_room_bytes(ConnId conn) const;
  /// What configure() may change, as it is now.
  const ConnectionConfig& config(ConnId conn) const;
  /// The least round trip of late (RFC 8985 6.2); zero: none was measured.
  Nanos rtt_min(ConnId conn) const;
  /// Bytes of the send queue that have never been sent.
  uint32_t unsent_bytes(ConnId conn) const;
  /// True when `seq` is what the receive side waits for (RCV.NXT).
  bool is_next_expected(ConnId conn, SeqNum seq) const;
  /// Cost of all payload that the connection keeps or has lent out.
  uint32_t charged_bytes(ConnId conn) const;
  ConnectionInfo info(ConnId conn) const;
  uint32_t connection_count() const;
  /// Index bound for walking; is_open() tells which are taken.
  uint32_t index_bound() const;
  bool is_open(ConnId conn) const;

  /// Breaks off the process when an invariant of `conn` does not hold (simulator, fuzzers).
  void check_invariants(ConnId conn) const;
  /// Becomes equal to `other`, which has the same configuration.
  void copy_from(const Engine& other);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// RFC 9293 3.10.7.1: the RST that answers `segment` when no connection exists; empty when
/// `segment` is a RST itself.
std::optional<SegmentOut> reset_for(const SegmentIn& segment);

}  // namespace lyre::tcp
