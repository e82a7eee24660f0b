#include "tests/conformance/host.h"

#include <algorithm>
#include <cstring>

#include "stack/base/check.h"
#include "stack/io/complete_checksums.h"
#include "stack/ip/output.h"
#include "stack/wire/ipv6.h"

namespace lyre::conformance {

namespace {

constexpr MacAddress kOwnMac{{2, 0, 0, 0, 0, 1}};
constexpr MacAddress kPeerMac{{2, 0, 0, 0, 0, 2}};
constexpr uint32_t kFrameBytesMax = 65536 + 256;

SipKey key_of(uint64_t seed) { return {.k0 = seed * 0x9e3779b97f4a7c15u, .k1 = seed + 1}; }

}  // namespace

Host::Host(const StackOptions& options)
    : options_(options),
      engine_({.connections_max = 1024, .sent_records_max = 16384, .received_runs_max = 16384},
              key_of(options.seed), options.seed) {
  constexpr uint8_t kPrefixBitsV4 = 96 + 24;
  constexpr uint8_t kPrefixBitsV6 = 64;
  for (const IpAddress& local : {options.local_v4, options.local_v6}) {
    LYRE_CHECK(routes_.add_address(0, local, local.is_v4() ? kPrefixBitsV4 : kPrefixBitsV6));
    IpAddress gateway = local;
    gateway.bytes[15] = 254;
    LYRE_CHECK(routes_.add_route(ip::Prefix::all_of_family(local), gateway, 0));
  }
}

tcp::ConnectionConfig Host::config_for(const tcp::ConnectionConfig& wanted,
                                       const IpAddress& peer) const {
  tcp::ConnectionConfig config = wanted;
  const auto fits = static_cast<uint16_t>(options_.mtu_bytes - (peer.is_v4() ? 40 : 60));
  config.mss_bytes = std::min(config.mss_bytes, fits);
  return config;
}

void Host::advance_to(Nanos at) {
  while (next_deadline() <= at) {
    now_ = later(now_, next_deadline());
    std::vector<tcp::ConnId> due;
    for (const auto& [conn, stream] : streams_) {
      if (engine_.next_deadline(conn) <= now_) due.push_back(conn);
    }
    for (const tcp::ConnId conn : due) {
      if (!streams_.contains(conn)) continue;
      effects_.clear();
      engine_.on_timer(conn, now_, effects_);
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

/// packetdrill does not report this host's addresses: they are the destinations of its packets.
void Host::learn_address(std::span<const uint8_t> packet) {
  Drop ignored;
  const bool is_v6 = !packet.empty() && (packet[0] >> 4) == 6;
  const auto v4 = wire::parse_ipv4(packet, ignored);
  const auto v6 = wire::parse_ipv6(packet, ignored);
  if (is_v6 ? !v6.has_value() : !v4.has_value()) return;
  const IpAddress address = is_v6 ? v6->destination : v4->destination;
  if (routes_.is_own(address) || routes_.is_martian_source(address)) return;
  routes_.add_address(0, address, is_v6 ? 64 : 96 + 24);
}

void Host::receive(std::span<const uint8_t> packet) {
  if (options_.learns_addresses) learn_address(packet);
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
  switch (ip::classify(buffer, kOwnMac, routes_, ip::Origin::kWire, classified)) {
    case ip::InputKind::kTcp:
      return on_tcp(classified.tcp);
    case ip::InputKind::kIcmpError:
      return on_icmp_error(classified.icmp_error);
    case ip::InputKind::kEchoRequest:
      return on_echo(classified.echo);
    case ip::InputKind::kDrop:
      return drop(classified.drop);
    case ip::InputKind::kRefused:
      drop(classified.drop);
      return on_refused(classified.refused);
    default:
      return;
  }
}

std::optional<EmittedPacket> Host::take_emitted() {
  if (emitted_.empty()) return std::nullopt;
  EmittedPacket packet = std::move(emitted_.front());
  emitted_.pop_front();
  return packet;
}

void Host::on_echo(const ip::EchoInput& echo) {
  std::vector<uint8_t> memory(kFrameBytesMax);
  io::PacketBuf reply;
  reply.headroom = 128;
  reply.data = memory.data() + reply.headroom;
  reply.tailroom = UINT16_MAX;
  if (const auto refused = echo_.write_reply(echo, {.source = kOwnMac, .destination = kPeerMac},
                                             ++ip_id_, now_, reply)) {
    return drop(*refused);
  }
  const auto bytes = reply.bytes().subspan(wire::kEthernetHeaderBytes);
  emitted_.push_back({{bytes.begin(), bytes.end()}, now_});
}

/// RFC 8200 4: the sender of a packet that cannot be processed gets an ICMPv6 error.
void Host::on_refused(const ip::Refused& refused) {
  std::vector<uint8_t> memory(kFrameBytesMax);
  io::PacketBuf problem;
  problem.headroom = 128;
  problem.data = memory.data() + problem.headroom;
  problem.tailroom = UINT16_MAX;
  const link::FrameAddresses addresses{.source = kOwnMac, .destination = kPeerMac};
  if (echo_.write_problem(refused, addresses, now_, problem)) return;
  const auto bytes = problem.bytes().subspan(wire::kEthernetHeaderBytes);
  emitted_.push_back({{bytes.begin(), bytes.end()}, now_});
}

void Host::on_icmp_error(const ip::IcmpError& error) {
  const tcp::ConnId conn = find(error.tuple);
  if (conn == tcp::kNoConn) return drop(Drop::kIcmpBadQuote);
  effects_.clear();
  engine_.on_icmp_error(conn, error.seq, error.verdict, error.mtu_bytes, now_, effects_);
  apply(conn);
}

tcp::SegmentIn Host::segment_of(const ip::TcpInput& input) {
  const wire::TcpHeader& header = input.parsed.header;
  tcp::SegmentIn segment;
  segment.seq = header.seq;
  segment.ack = header.ack;
  segment.flags = header.flags;
  segment.window = header.window;
  segment.options = header.options;
  segment.payload_bytes = static_cast<uint32_t>(input.payload.size());
  // A packet larger than the link's MTU stands for several that were merged on receipt.
  segment.charge_bytes = std::max(options_.connection.slot_bytes, segment.payload_bytes);
  segment.rx_time = now_;
  segment.ecn = input.ecn;
  return segment;
}

void Host::on_tcp(const ip::TcpInput& input) {
  tcp::SegmentIn segment = segment_of(input);
  const tcp::ConnId conn = find(input.tuple);
  if (conn == tcp::kNoConn) return on_unmatched(input.tuple, segment, input.payload, std::nullopt);
  const auto iss_after = engine_.may_reuse(conn, segment);
  if (iss_after && find_listener(input.tuple.local) != Stream::kNoOwner) {
    effects_.clear();
    std::optional<tcp::SegmentOut> none;
    engine_.on_app_abort(conn, now_, effects_, none);
    end(conn);
    return on_unmatched(input.tuple, segment, input.payload, iss_after);
  }
  deliver(conn, segment, input.payload);
}

void Host::deliver(tcp::ConnId conn, const tcp::SegmentIn& segment,
                   std::span<const uint8_t> payload) {
  tcp::SegmentIn kept = segment;
  if (!payload.empty()) kept.payload.slot = keep(payload);
  effects_.clear();
  engine_.on_segment(conn, kept, now_, effects_);
  if (!payload.empty() && !effects_.payload_kept) payloads_.erase(kept.payload.slot);
  apply(conn);
}

/// RFC 9293 3.10.7.1 and 3.10.7.2.
void Host::on_unmatched(const FourTuple& tuple, const tcp::SegmentIn& segment,
                        std::span<const uint8_t> payload, std::optional<SeqNum> iss_after) {
  using wire::TcpFlags;
  const int listener = find_listener(tuple.local);
  const TcpFlags flags = segment.flags;
  if (listener != Stream::kNoOwner && !flags.has(TcpFlags::kRst)) {
    if (!flags.has(TcpFlags::kAck)) {
      if (flags.has(TcpFlags::kSyn)) return on_syn(listener, tuple, segment, iss_after);
      return drop(Drop::kTcpBadFlags);
    }
    if (try_cookie(listener, tuple, segment, payload)) return;
  }
  drop(Drop::kTcpNoConnection);
  if (const auto reset = tcp::reset_for(segment)) emit(tuple, *reset, {});
}

void Host::on_syn(int index, const FourTuple& tuple, const tcp::SegmentIn& segment,
                  std::optional<SeqNum> iss_after) {
  Listener& listener = listeners_.at(index);
  // As in Linux, a backlog of n accepts n + 1.
  if (listener.acceptable.size() > listener.backlog) return drop(Drop::kTcpBacklogFull);
  const uint32_t embryonic_max = std::min(listener.backlog + 1, options_.embryonic_max);
  const bool is_full = listener.embryonic >= embryonic_max;
  const tcp::ConnectionConfig config = config_for(listener.config, tuple.remote.address);
  if (options_.syn_cookies == SynCookies::kAlways ||
      (is_full && options_.syn_cookies == SynCookies::kUnderPressure)) {
    return emit(tuple, engine_.answer_with_cookie(tuple, config, segment, now_), {});
  }
  if (is_full) return drop(Drop::kTcpBacklogFull);
  const tcp::ConnId conn = engine_.open_passive(tuple, config, segment, now_, iss_after);
  if (conn == tcp::kNoConn) return drop(Drop::kTcpNoSessions);
  flows_[tuple] = conn;
  streams_[conn].listener = index;
  ++listener.embryonic;
  transmit(conn);
}

/// True when `ack` was consumed: it completed a handshake, or was ignored because the backlog is
/// full.
bool Host::try_cookie(int index, const FourTuple& tuple, const tcp::SegmentIn& ack,
                      std::span<const uint8_t> payload) {
  Listener& listener = listeners_.at(index);
  if (options_.syn_cookies == SynCookies::kNever) return false;
  tcp::SegmentIn kept = ack;
  if (!payload.empty()) kept.payload.slot = keep(payload);
  effects_.clear();
  const tcp::ConnectionConfig config = config_for(listener.config, tuple.remote.address);
  const tcp::ConnId conn = engine_.open_by_cookie(tuple, config, kept, now_, effects_);
  if (!payload.empty() && !effects_.payload_kept) payloads_.erase(kept.payload.slot);
  if (conn == tcp::kNoConn) return false;
  flows_[tuple] = conn;
  streams_[conn].listener = index;
  ++listener.embryonic;  // on_established() decrements it again
  apply(conn);
  return true;
}

void Host::apply(tcp::ConnId conn) {
  const tcp::Effects effects = effects_;
  Stream& stream = streams_.at(conn);
  if (effects.drop) drop(*effects.drop);
  while (const auto handle = engine_.take_superseded(conn)) payloads_.erase(handle->slot);
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
  Listener& listener = listeners_.at(stream.listener);
  --listener.embryonic;
  listener.acceptable.push_back(conn);
}

void Host::leave_listener(tcp::ConnId conn) {
  Stream& stream = streams_.at(conn);
  if (stream.listener == Stream::kNoOwner) return;
  Listener& listener = listeners_.at(stream.listener);
  if (!stream.is_established) --listener.embryonic;
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
  while (const auto handle = engine_.take_any_payload(conn)) payloads_.erase(handle->slot);
  const auto flow = flows_.find(engine_.tuple(conn));
  if (flow != flows_.end() && flow->second == conn) flows_.erase(flow);
  engine_.release(conn);
  streams_.erase(conn);
}

void Host::transmit(tcp::ConnId conn) {
  constexpr int kSegmentsMax = 100'000;  // more at one moment can only be an endless loop
  for (int i = 0;; ++i) {
    LYRE_CHECK(i < kSegmentsMax);
    const auto segment = engine_.poll_transmit(conn, tso_bytes(conn), now_);
    if (!segment) return;
    emit_cut(conn, *segment);
  }
}

/// The size of a send that is passed at once to a port that segments.
uint32_t Host::tso_bytes(tcp::ConnId conn) const {
  return options_.tso_segments * engine_.info(conn).mss_bytes;
}

/// Segments a large send as a port would: FIN and PSH on the last segment, CWR on the first.
void Host::emit_cut(tcp::ConnId conn, const tcp::SegmentOut& large) {
  using wire::TcpFlags;
  const std::span<const uint8_t> queue(streams_.at(conn).unacked);
  uint32_t done = 0;
  do {
    tcp::SegmentOut piece = large;
    piece.seq = large.seq + done;
    piece.payload_bytes = std::min<uint32_t>(large.payload_bytes - done, large.mss_bytes);
    const auto payload = piece.payload_bytes == 0
                             ? std::span<const uint8_t>()
                             : queue.subspan(large.queue_offset + done, piece.payload_bytes);
    if (done > 0) piece.flags.bits &= static_cast<uint8_t>(~TcpFlags::kCwr);
    done += piece.payload_bytes;
    const bool is_last = done == large.payload_bytes;
    if (!is_last) piece.flags.bits &= static_cast<uint8_t>(~(TcpFlags::kFin | TcpFlags::kPsh));
    emit(engine_.tuple(conn), piece, payload);
  } while (done < large.payload_bytes);
}

void Host::emit(const FourTuple& tuple, const tcp::SegmentOut& segment,
                std::span<const uint8_t> payload) {
  std::vector<uint8_t> memory(kFrameBytesMax);
  io::PacketBuf packet;
  packet.headroom = 256;
  packet.data = memory.data() + packet.headroom;
  packet.length = static_cast<uint32_t>(payload.size());
  std::copy(payload.begin(), payload.end(), packet.data);
  ip::TcpOutput out;
  out.frame = {.source = kOwnMac, .destination = kPeerMac};
  out.tuple = tuple;
  out.header.seq = segment.seq;
  out.header.ack = segment.ack;
  out.header.flags = segment.flags;
  out.header.window = segment.window;
  out.header.options = segment.options;
  out.payload_bytes = segment.payload_bytes;
  out.ip_id = ++ip_id_;
  out.ecn = segment.ecn;
  ip::write_tcp_packet(packet, out);
  io::complete_ip_checksum(packet);
  io::complete_tcp_checksum(packet, [](const BufRef&) { return std::span<const uint8_t>(); });
  const auto bytes = packet.bytes().subspan(wire::kEthernetHeaderBytes);
  emitted_.push_back({{bytes.begin(), bytes.end()}, now_});
}

int Host::find_listener(const Endpoint& local) const {
  int any = Stream::kNoOwner;
  for (const auto& [index, listener] : listeners_) {
    if (listener.local.port != local.port) continue;
    if (listener.local.address == local.address) return index;
    if (listener.local.address.is_unspecified()) any = index;
  }
  return any;
}

tcp::ConnId Host::find(const FourTuple& tuple) const {
  const auto found = flows_.find(tuple);
  return found == flows_.end() ? tcp::kNoConn : found->second;
}

uint32_t Host::keep(std::span<const uint8_t> payload) {
  const uint32_t slot = next_payload_++;
  payloads_[slot].assign(payload.begin(), payload.end());
  return slot;
}

}  // namespace lyre::conformance
