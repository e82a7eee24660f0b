#include "stack/tcp/engine.h"

#include <algorithm>
#include <utility>

#include "stack/base/check.h"
#include "stack/tcp/closing.h"
#include "stack/tcp/connect.h"
#include "stack/tcp/connection_record.h"
#include "stack/tcp/core.h"
#include "stack/tcp/ecn.h"
#include "stack/tcp/invariants.h"
#include "stack/tcp/loss.h"
#include "stack/tcp/path_mtu.h"
#include "stack/tcp/receive.h"
#include "stack/tcp/reconfigure.h"
#include "stack/tcp/scoreboard.h"
#include "stack/tcp/segment_arrives.h"
#include "stack/tcp/send.h"
#include "stack/tcp/state_table.h"
#include "stack/tcp/syn_cookie.h"
#include "stack/tcp/timers.h"
#include "stack/tcp/undo.h"

namespace lyre::tcp {

namespace {

/// RFC 9293 3.7.1: the MSS that goes with an MTU; zero when it has no room for the headers.
uint32_t mss_of(const Connection& c, uint32_t mtu_bytes) {
  const uint32_t headers = wire::ip_and_tcp_header_bytes(c.tuple.remote.address);
  return mtu_bytes > headers ? mtu_bytes - headers : 0;
}

/// An error that claims less than every path carries is forged, or of a path that the test for
/// black holes finds as well. True: it told something.
bool take_path_mtu(Core& core, Connection& c, SeqNum quoted, uint32_t mtu_bytes, Nanos now) {
  const uint32_t mss = mss_of(c, mtu_bytes);
  if (mss < mss_everywhere(c.tuple.remote.address) || is_one_of(c.state, kOpening)) return false;
  return on_path_mtu(core, c, quoted, mss, now);
}

void show_waiting(const Connection& c, ConnectionInfo& info) {
  struct Shown {
    Timer timer;
    Waiting waiting;
  };
  static constexpr Shown kShown[] = {
      {Timer::kTailProbe, Waiting::kTailProbe},  // before an equal timeout
      {Timer::kTimeout, Waiting::kAcknowledgement},
      {Timer::kPersist, Waiting::kWindow},
      {Timer::kIdle, Waiting::kEnd}};
  for (const Shown& shown : kShown) {
    if (c.deadline(shown.timer) >= info.waiting_until) continue;
    info.waiting = shown.waiting;
    info.waiting_until = c.deadline(shown.timer);
  }
  const bool is_probing = info.waiting == Waiting::kWindow;
  info.backoffs = is_probing ? c.recovery.persist_backoff : c.recovery.backoff;
  if (info.waiting == Waiting::kAcknowledgement && c.is_window_withdrawn()) {
    info.waiting = Waiting::kWindow;
  }
}

}  // namespace

struct Engine::Impl {
  Core core;

  Impl(const EngineConfig& config, SipKey isn_key, uint64_t seed)
      // One record per connection is added to the configured number: see Scoreboard::can_take().
      : core{.config = config,
             .isn_key = isn_key,
             .rng = Rng(seed),
             .connections = Slab<Connection>(config.connections_max),
             .records = Slab<SentRecord>(config.sent_records_max + config.connections_max),
             .runs = Slab<ReceivedRun>(config.received_runs_max + config.connections_max),
             .undos = Slab<UndoState>(config.connections_max)} {}

  /// REQUIRES: an open connection. The owner's tables (flows, timers, sessions) contain no other:
  /// they drop a connection when they call release().
  Connection& at(ConnId conn) {
    LYRE_CHECK(core.connections.is_taken(conn));
    return core.connections[conn];
  }
};

Engine::Engine(const EngineConfig& config, SipKey isn_key, uint64_t seed)
    : impl_(std::make_unique<Impl>(config, isn_key, seed)) {}

Engine::~Engine() = default;

ConnId Engine::open_active(const FourTuple& tuple, const ConnectionConfig& config, Nanos now) {
  return start_active(impl_->core, tuple, config, now);
}

ConnId Engine::open_passive(const FourTuple& tuple, const ConnectionConfig& config,
                            const SegmentIn& syn, Nanos now, std::optional<SeqNum> iss_after) {
  return start_passive(impl_->core, tuple, config, syn, now, iss_after);
}

SegmentOut Engine::answer_with_cookie(const FourTuple& tuple, const ConnectionConfig& config,
                                      const SegmentIn& syn, Nanos now) {
  impl_->core.last_cookie_at = now;
  return make_cookie_answer(tuple, config, impl_->core.isn_key, syn, now);
}

bool Engine::has_cookie(const FourTuple& tuple, const SegmentIn& ack, Nanos now) const {
  return answered_syn(impl_->core, tuple, ack, now).has_value();
}

OpenedByCookie Engine::open_by_cookie(const FourTuple& tuple, const ConnectionConfig& config,
                                      const SegmentIn& ack, Nanos now) {
  OpenedByCookie opened;
  opened.conn = start_by_cookie(impl_->core, tuple, config, ack, now, opened.effects);
  return opened;
}

std::optional<SeqNum> Engine::may_reuse(ConnId conn, const SegmentIn& syn) const {
  return number_behind(impl_->at(conn), syn);
}

Effects Engine::on_segment(ConnId conn, const SegmentIn& segment, Nanos now) {
  Effects effects;
  segment_arrives(impl_->core, impl_->at(conn), segment, now, effects);
  return effects;
}

Effects Engine::on_app_send(ConnId conn, uint32_t bytes, Nanos now, SendMark mark) {
  Effects effects;
  Connection& c = impl_->at(conn);
  if (c.state == State::kClosed || c.snd.fin_queued) return effects;  // RFC 9293 3.10.2: "closing"
  c.snd.queue_end += bytes;
  c.snd.more_follows = mark == SendMark::kMore;
  c.snd.ends_unpushed = mark == SendMark::kMore;
  effects.wants_transmit = !is_one_of(c.state, kOpening);
  arm_after_queue(c, now);
  return effects;
}

Effects Engine::on_app_release(ConnId conn, uint32_t charge_bytes, Nanos now) {
  Effects effects;
  release_charge(impl_->at(conn), charge_bytes, now, effects);
  return effects;
}

Effects Engine::on_app_shutdown(ConnId conn, Nanos now) {
  Effects effects;
  app_shutdown(impl_->at(conn), effects);
  arm_after_queue(impl_->at(conn), now);
  return effects;
}

Effects Engine::on_app_close(ConnId conn, Nanos now) {
  Effects effects;
  app_close(impl_->at(conn), now, effects);
  return effects;
}

std::optional<SegmentOut> Engine::on_app_abort(ConnId conn, Nanos now) {
  return app_abort(impl_->at(conn), now);
}

Effects Engine::configure(ConnId conn, const ConnectionConfig& config, Nanos now) {
  Effects effects;
  reconfigure(impl_->at(conn), config, now, effects);
  return effects;
}

Effects Engine::on_icmp_error(ConnId conn, SeqNum quoted_seq, wire::IcmpVerdict verdict,
                              uint32_t mtu_bytes, Nanos now) {
  Effects effects;
  Connection& c = impl_->at(conn);
  // RFC 5927 4.1: the quoted sequence number must be in flight.
  if (c.state == State::kClosed || !quoted_seq.in_window(c.snd.una, c.snd.nxt.since(c.snd.una))) {
    effects.drop = Drop::kIcmpBadQuote;
    return effects;
  }
  const bool is_opening = is_one_of(c.state, kOpening);
  if (mtu_bytes > 0) {
    effects.wants_transmit = take_path_mtu(impl_->core, c, quoted_seq, mtu_bytes, now);
    if (!effects.wants_transmit) effects.drop = Drop::kIcmpIgnored;
    return effects;
  }
  const bool is_refused = verdict == wire::IcmpVerdict::kRefused;
  // The peer of a passive open may have our SYN,ACK, and wait in ESTABLISHED for our first byte.
  const bool is_down = verdict == wire::IcmpVerdict::kUnreachable && c.is_active;
  if (!is_opening || (!is_refused && !is_down)) {
    c.heard_unreachable = true;
    effects.drop = Drop::kIcmpIgnored;
    return effects;
  }
  finish(c, is_refused ? EndReason::kRefused : EndReason::kUnreachable, effects);
  return effects;
}

void Engine::assume_path_mtu(ConnId conn, uint32_t mtu_bytes, Nanos since) {
  Connection& c = impl_->at(conn);
  const uint32_t mss = mss_of(c, mtu_bytes);
  if (mss >= mss_everywhere(c.tuple.remote.address) && mss <= UINT16_MAX) {
    tcp::assume_path_mtu(c, static_cast<uint16_t>(mss), since);
  }
}

Effects Engine::on_host_unreachable(ConnId conn, Nanos) {
  Effects effects;
  Connection& c = impl_->at(conn);
  // A passive open waits for its peer: on_icmp_error().
  if (is_one_of(c.state, kOpening) && c.is_active) finish(c, EndReason::kUnreachable, effects);
  return effects;
}

void Engine::on_standstill(Nanos stood_still, std::optional<Nanos> paused_since) {
  if (paused_since) impl_->core.paused_since = *paused_since;
  for (ConnId conn = 0; conn < index_bound(); ++conn) {
    if (is_open(conn)) extend_give_up(impl_->at(conn), stood_still);
  }
}

Effects Engine::on_timer(ConnId conn, Nanos now) {
  Effects effects;
  Connection& c = impl_->at(conn);
  if (c.state != State::kClosed) run_timers(impl_->core, c, now, effects);
  return effects;
}

Nanos Engine::next_deadline(ConnId conn) const { return earliest_deadline(impl_->at(conn)); }

Effects Engine::repeat_ack(ConnId conn) {
  Effects effects;
  Connection& c = impl_->at(conn);
  const bool is_quiet = c.state == State::kEstablished && !c.has_outstanding();
  if (is_quiet && c.has_sack) ack_at_once(c, effects);
  return effects;
}

std::optional<SegmentOut> Engine::poll_transmit(ConnId conn, uint32_t payload_bytes_max,
                                                Nanos now) {
  return next_segment(impl_->core, impl_->at(conn), payload_bytes_max, now);
}

bool Engine::takes_merged(ConnId conn, SeqNum seq) const {
  const Connection& c = impl_->at(conn);
  return seq == c.rcv.nxt && c.rcv.gap_head == kNoNode && !c.rcv.has_fin &&
         is_one_of(c.state, kMayReceiveText);
}

uint32_t Engine::segment_payload_bytes(ConnId conn) const {
  return full_payload_bytes(impl_->at(conn));
}

ReceiveQueue Engine::receive_queue(ConnId conn) { return queue_of(impl_->core, impl_->at(conn)); }

void Engine::release(ConnId conn) {
  Connection& c = impl_->at(conn);
  // The worker has taken what was received: REQUIRES of release().
  LYRE_CHECK(c.rcv.run_head == kNoNode && c.rcv.superseded_head == kNoNode);
  Scoreboard(impl_->core, c).release_all();
  forget_reduction(impl_->core, c);
  impl_->core.connections.give_back(conn);
}

State Engine::state(ConnId conn) const { return impl_->at(conn).state; }

const FourTuple& Engine::tuple(ConnId conn) const { return impl_->at(conn).tuple; }

uint32_t Engine::send_room_bytes(ConnId conn) const {
  const Connection& c = impl_->at(conn);
  if (c.state == State::kClosed || c.snd.fin_queued) return 0;
  const uint32_t used = c.queue_bytes();
  return c.config.send_buffer_bytes > used ? c.config.send_buffer_bytes - used : 0;
}

const ConnectionConfig& Engine::config(ConnId conn) const { return impl_->at(conn).config; }

bool Engine::is_next_expected(ConnId conn, SeqNum seq) const {
  return impl_->at(conn).rcv.nxt == seq;
}

uint32_t Engine::charged_bytes(ConnId conn) const { return impl_->at(conn).rcv.charged_bytes; }

SendSide Engine::send_side(ConnId conn) const {
  const Connection& c = impl_->at(conn);
  return {.rtt_min = c.rtt.rtt_min,
          .rto = current_rto(c),
          .is_window_closed = c.snd.is_window_closed,
          .has_changes = c.changes.any(),
          .black_hole = black_hole_of(c)};
}

ConnectionInfo Engine::info(ConnId conn) const {
  const Connection& c = impl_->at(conn);
  ConnectionInfo info;
  show_waiting(c, info);
  info.has_timestamps = c.has_timestamps;
  info.has_sack = c.has_sack;
  info.has_scaling = c.has_scaling;
  info.last_sent_at = c.snd.last_sent_at;
  info.last_heard_at = c.last_heard_at;
  info.state = c.state;
  info.send_next = c.snd.nxt;
  info.congestion = c.cc.algorithm;
  info.has_ecn = may_set_ect(c);
  info.mss_bytes = c.snd.mss_bytes;
  info.mss_full_bytes = c.snd.mss_full_bytes;
  info.cwnd_bytes = c.cc.cwnd_bytes;
  info.ssthresh_bytes = c.cc.ssthresh_bytes;
  info.in_flight_bytes = c.in_flight_bytes();
  info.send_window_bytes = c.snd.edge.after(c.snd.una) ? c.snd.edge.since(c.snd.una) : 0;
  info.send_window_bytes_max = c.snd.wnd_bytes_max;
  info.receive_window_bytes = c.receive_window_bytes();
  info.send_queue_bytes = c.queue_bytes();
  info.unsent_bytes = c.unsent_bytes();
  info.receive_charged_bytes = c.rcv.charged_bytes;
  info.srtt = c.rtt.srtt;
  info.rtt_var = c.rtt.rtt_var;
  info.rtt_min = c.rtt.rtt_min;
  info.rto = current_rto(c);
  info.bytes_sent = c.bytes_sent;
  info.bytes_retransmitted = c.bytes_retransmitted;
  info.bytes_acked = c.bytes_acked;
  info.bytes_received = c.bytes_received;
  info.segments_sent = c.segments_sent;
  info.segments_received = c.segments_received;
  info.timeouts = c.timeouts;
  info.fast_recoveries = c.fast_recoveries;
  info.out_of_order_segments = c.out_of_order_segments;
  info.duplicate_segments = c.duplicate_segments;
  info.ce_segments = c.ce_segments;
  info.undone_reductions = c.undone_reductions;
  info.ecn_reductions = c.ecn_reductions;
  return info;
}

Changes Engine::take_changes(ConnId conn) {
  return std::exchange(impl_->at(conn).changes, Changes{});
}

uint32_t Engine::connection_count() const { return impl_->core.connections.used(); }

uint32_t Engine::index_bound() const { return impl_->core.connections.touched(); }

bool Engine::is_open(ConnId conn) const { return impl_->core.connections.is_taken(conn); }

ConnectionRecords Engine::records() { return ConnectionRecords(impl_->core); }

void Engine::check_invariants(ConnId conn) const {
  Connection& c = impl_->at(conn);
  check_connection(impl_->core, c);
  const ReceiveQueue queue = queue_of(impl_->core, c);
  queue.check_invariants(queue.text_end());
}

void Engine::copy_from(const Engine& other) {
  const Core& from = other.impl_->core;
  Core& to = impl_->core;
  to.isn_key = from.isn_key;
  to.last_cookie_at = from.last_cookie_at;
  to.paused_since = from.paused_since;
  to.rng = from.rng;
  to.connections.copy_from(from.connections);
  to.records.copy_from(from.records);
  to.runs.copy_from(from.runs);
  to.undos.copy_from(from.undos);
}

std::optional<SegmentOut> reset_for(const SegmentIn& segment) {
  if (segment.flags.has(wire::TcpFlags::kRst)) return std::nullopt;
  SegmentOut out;
  out.flags.set(wire::TcpFlags::kRst);
  if (segment.flags.has(wire::TcpFlags::kAck)) {
    out.seq = segment.ack;
    return out;
  }
  const uint32_t length = segment.payload_bytes +
                          (segment.flags.has(wire::TcpFlags::kSyn) ? 1 : 0) +
                          (segment.flags.has(wire::TcpFlags::kFin) ? 1 : 0);
  out.flags.set(wire::TcpFlags::kAck);
  out.ack = segment.seq + length;
  return out;
}

}  // namespace lyre::tcp
