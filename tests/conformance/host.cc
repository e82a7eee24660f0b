#include "tests/conformance/host.h"

#include <algorithm>

#include "stack/base/check.h"
#include "stack/worker/unmatched_segment.h"

namespace lyre::conformance {

namespace {

SipKey key_of(uint64_t seed) { return {.k0 = seed * 0x9e3779b97f4a7c15u, .k1 = seed + 1}; }

tcp::SegmentIn segment_of(const ip::TcpInput& input, uint32_t slot_bytes, Nanos now) {
  const wire::TcpHeader& header = input.parsed.header;
  tcp::SegmentIn segment;
  segment.seq = header.seq;
  segment.ack = header.ack;
  segment.flags = header.flags;
  segment.window = header.window;
  segment.options = header.options;
  segment.payload_bytes = static_cast<uint32_t>(input.payload.size());
  // A packet larger than the link's MTU stands for several that were merged on receipt.
  segment.charge_bytes = std::max(slot_bytes, segment.payload_bytes);
  segment.rx_time = now;
  segment.ecn = input.ecn;
  return segment;
}

}  // namespace

Host::Host(const StackOptions& options)
    : options_(options),
      addresses_(options),
      engine_({.connections_max = 1024, .sent_records_max = 16384, .received_runs_max = 16384},
              key_of(options.seed), options.seed) {}

void Host::advance_to(Nanos at) {
  while (next_deadline() <= at) {
    now_ = later(now_, next_deadline());
    std::vector<tcp::ConnId> due;
    for (const auto& [conn, stream] : streams_) {
      if (engine_.next_deadline(conn) <= now_) due.push_back(conn);
    }
    for (const tcp::ConnId conn : due) {
      if (!streams_.contains(conn)) continue;
      effects_ = engine_.on_timer(conn, now_);
      apply(conn);
    }
  }
  now_ = later(now_, at);
}

Nanos Host::next_deadline() const {
  Nanos first = kNever;
  for (const auto& [conn, stream] : streams_) first = earlier(first, engine_.next_deadline(conn));
  return first;
}

void Host::receive(std::span<const uint8_t> packet) {
  if (options_.learns_addresses) addresses_.learn_from(packet);
  std::vector<uint8_t> frame(wire::kEthernetHeaderBytes + packet.size());
  const bool is_v6 = !packet.empty() && (packet[0] >> 4) == 6;
  wire::write_ethernet(
      {.destination = kOwnMac,
       .source = kPeerMac,
       .type = is_v6 ? wire::kEtherTypeIpv6 : wire::kEtherTypeIpv4},
      std::span<uint8_t, wire::kEthernetHeaderBytes>(frame.data(), wire::kEthernetHeaderBytes));
  std::copy(packet.begin(), packet.end(), frame.begin() + wire::kEthernetHeaderBytes);
  io::PacketBuf buffer;
  buffer.data = frame.data();
  buffer.length = static_cast<uint32_t>(frame.size());
  ip::Classified classified;
  switch (ip::classify(buffer, kOwnMac, addresses_.routes(), ip::Origin::kWire, classified)) {
    case ip::InputKind::kTcp:
      return on_tcp(classified.tcp);
    case ip::InputKind::kIcmpError:
      return on_icmp_error(classified.icmp_error);
    case ip::InputKind::kEchoRequest:
      if (const auto refused = output_.reply(classified.echo, now_)) drop(*refused);
      return;
    case ip::InputKind::kDrop:
      return drop(classified.drop);
    case ip::InputKind::kRefused:
      drop(classified.drop);
      return output_.report(classified.refused, now_);
    default:
      return;
  }
}

void Host::on_icmp_error(const ip::IcmpError& error) {
  const tcp::ConnId conn = find(error.tuple);
  if (conn == tcp::kNoConn) return drop(Drop::kIcmpBadQuote);
  effects_ = engine_.on_icmp_error(conn, error.seq, error.verdict, error.mtu_bytes, now_);
  apply(conn);
}

void Host::on_tcp(const ip::TcpInput& input) {
  const tcp::SegmentIn segment = segment_of(input, options_.connection.slot_bytes, now_);
  const tcp::ConnId conn = find(input.tuple);
  if (conn == tcp::kNoConn) return on_unmatched(input.tuple, segment, input.payload, std::nullopt);
  const auto iss_after = engine_.may_reuse(conn, segment);
  if (iss_after && listeners_.find(input.tuple.local) != Stream::kNoOwner) {
    (void)engine_.on_app_abort(conn, now_);  // TIME-WAIT ends without a RST
    end(conn);
    return on_unmatched(input.tuple, segment, input.payload, iss_after);
  }
  deliver(conn, segment, input.payload);
}

void Host::deliver(tcp::ConnId conn, const tcp::SegmentIn& segment,
                   std::span<const uint8_t> payload) {
  tcp::SegmentIn kept = segment;
  if (!payload.empty()) kept.payload.slot = payloads_.keep(payload);
  effects_ = engine_.on_segment(conn, kept, now_);
  if (!payload.empty() && !effects_.payload_kept) payloads_.erase(kept.payload.slot);
  apply(conn);
}

void Host::on_unmatched(const FourTuple& tuple, const tcp::SegmentIn& segment,
                        std::span<const uint8_t> payload, std::optional<SeqNum> iss_after) {
  const int listener = listeners_.find(tuple.local);
  switch (worker::unmatched(segment.flags, listener != Stream::kNoOwner)) {
    case worker::Unmatched::kSyn:
      return on_syn(listener, tuple, segment, iss_after);
    case worker::Unmatched::kBadFlags:
      return drop(Drop::kTcpBadFlags);
    case worker::Unmatched::kAck:
      if (try_cookie(listener, tuple, segment, payload)) return;
      break;
    case worker::Unmatched::kRefused:
      break;
  }
  drop(Drop::kTcpNoConnection);
  if (const auto reset = tcp::reset_for(segment)) output_.emit(tuple, *reset, {}, now_);
}

/// A worker's answer; what a worker shares among all listeners, tcp_max_syn_backlog limits here.
void Host::on_syn(int index, const FourTuple& tuple, const tcp::SegmentIn& segment,
                  std::optional<SeqNum> iss_after) {
  worker::Listener& listener = listeners_.at(index);
  const bool is_always = options_.syn_cookies == SynCookies::kAlways;
  const bool is_scarce = is_always || listener.embryonic >= options_.embryonic_max;
  const bool has_cookies = options_.syn_cookies != SynCookies::kNever;
  const tcp::ConnectionConfig config =
      fit_mss(listeners_.config(index), options_.mtu_bytes, tuple.remote.address);
  switch (listener.answer_to_syn({.has_cookies = has_cookies,
                                  .is_scarce = is_scarce,
                                  .has_room = has_cookies || !is_scarce})) {
    case worker::SynAnswer::kBacklogFull:
    case worker::SynAnswer::kNoPlace:
      return drop(Drop::kTcpBacklogFull);
    case worker::SynAnswer::kCookie:
      return output_.emit(tuple, engine_.answer_with_cookie(tuple, config, segment, now_), {},
                          now_);
    case worker::SynAnswer::kOpen:
      break;
  }
  const tcp::ConnId conn = engine_.open_passive(tuple, config, segment, now_, iss_after);
  if (conn == tcp::kNoConn) return drop(Drop::kTcpNoSessions);
  flows_[tuple] = conn;
  streams_[conn].listener = index;
  listener.begin_handshake();
  transmit(conn);
}

/// True when `ack` was consumed: it completed a handshake.
bool Host::try_cookie(int index, const FourTuple& tuple, const tcp::SegmentIn& ack,
                      std::span<const uint8_t> payload) {
  worker::Listener& listener = listeners_.at(index);
  if (options_.syn_cookies == SynCookies::kNever || !listener.takes_cookie()) return false;
  tcp::SegmentIn kept = ack;
  if (!payload.empty()) kept.payload.slot = payloads_.keep(payload);
  const tcp::ConnectionConfig config =
      fit_mss(listeners_.config(index), options_.mtu_bytes, tuple.remote.address);
  const auto [conn, opened] = engine_.open_by_cookie(tuple, config, kept, now_);
  effects_ = opened;
  if (!payload.empty() && !effects_.payload_kept) payloads_.erase(kept.payload.slot);
  if (conn == tcp::kNoConn) return false;
  flows_[tuple] = conn;
  streams_[conn].listener = index;
  listener.begin_handshake();  // on_established() ends it again
  apply(conn);
  return true;
}

void Host::apply(tcp::ConnId conn) {
  const tcp::Effects effects = effects_;
  Stream& stream = streams_.at(conn);
  if (effects.drop) drop(*effects.drop);
  while (const auto handle = engine_.receive_queue(conn).take_superseded())
    payloads_.erase(handle->slot);
  if (effects.acked_bytes > 0) {
    stream.unacked.erase(stream.unacked.begin(), stream.unacked.begin() + effects.acked_bytes);
  }
  if (effects.became_established) on_established(conn);
  if (!streams_.contains(conn)) return;
  if (effects.peer_finished) stream.has_peer_finished = true;
  if (effects.wants_transmit) transmit(conn);
  if (effects.is_over || engine_.state(conn) == tcp::State::kClosed) {
    stream.reason = effects.reason;
    end(conn);
  }
}

void Host::on_established(tcp::ConnId conn) {
  Stream& stream = streams_.at(conn);
  stream.is_established = true;
  if (stream.listener == Stream::kNoOwner) return;
  listeners_.on_established(stream.listener, conn);
}

void Host::leave_listener(tcp::ConnId conn) {
  Stream& stream = streams_.at(conn);
  if (stream.listener == Stream::kNoOwner) return;
  if (!stream.is_established) listeners_.on_abandoned(stream.listener);
  stream.listener = Stream::kNoOwner;
}

/// The engine is done with the connection. Received data stays readable as long as a socket refers
/// to it.
void Host::end(tcp::ConnId conn) {
  Stream& stream = streams_.at(conn);
  stream.is_over = true;
  flows_.erase(engine_.tuple(conn));
  const bool waits_for_accept = stream.listener != Stream::kNoOwner && stream.is_established;
  if (waits_for_accept) return;
  leave_listener(conn);
  if (stream.socket == Stream::kNoOwner) forget(conn);
}

void Host::forget(tcp::ConnId conn) {
  while (const auto handle = engine_.receive_queue(conn).take_any()) payloads_.erase(handle->slot);
  const auto flow = flows_.find(engine_.tuple(conn));
  if (flow != flows_.end() && flow->second == conn) flows_.erase(flow);
  engine_.release(conn);
  streams_.erase(conn);
}

void Host::transmit(tcp::ConnId conn) {
  constexpr int kSegmentsMax = 100'000;  // more at one moment can only be an endless loop
  for (int i = 0;; ++i) {
    LYRE_CHECK(i < kSegmentsMax);
    // The size of a send that is passed at once to a port that segments.
    const uint32_t send_bytes_max = options_.tso_segments * engine_.info(conn).mss_bytes;
    const auto segment = engine_.poll_transmit(conn, send_bytes_max, now_);
    if (!segment) return;
    output_.emit_cut(engine_.tuple(conn), *segment, streams_.at(conn).unacked, now_);
  }
}

tcp::ConnId Host::find(const FourTuple& tuple) const {
  const auto found = flows_.find(tuple);
  return found == flows_.end() ? tcp::kNoConn : found->second;
}

}  // namespace lyre::conformance
