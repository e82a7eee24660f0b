#include "stack/wire/ethernet.h"
#include "stack/worker/impl.h"

namespace lyre::worker {

size_t Worker::Impl::receive() {
  io::PacketBuf* burst[kRxBurstPackets];
  size_t received = 0;
  for (size_t index = 0; index < ports.size(); ++index) {
    for (size_t round = 0; round < kRxBurstsPerPollMax; ++round) {
      const size_t count = ports[index].receive(burst);
      // Behind the burst: its packets may answer what a worker sent after it claimed a connection.
      received += take_handoffs();
      for (size_t i = 0; i < count; ++i) {
        burst[i]->port = static_cast<uint8_t>(index);
        on_packet(burst[i], ip::Origin::kWire, Redirect::kYes);
      }
      received += count;
      if (count < kRxBurstPackets) break;
    }
    deliver_trains();
  }
  return received + receive_local();
}

size_t Worker::Impl::receive_local() {
  if (loop.empty()) return 0;
  // What is delivered locally meanwhile waits for the next turn.
  loop_now = loop;
  loop.clear();
  for (io::PacketBuf* packet : loop_now) on_packet(packet, ip::Origin::kLocal, Redirect::kNo);
  deliver_trains();
  return loop_now.size();
}

void Worker::Impl::on_packet(io::PacketBuf* packet, ip::Origin origin, Redirect redirection) {
  if (try_extend_unparsed(packet)) return;
  const MacAddress own_mac = ports[packet->port].mac();
  bool is_kept = false;
  switch (ip::classify(*packet, own_mac, routes, origin, classified)) {
    case ip::InputKind::kDrop:
      drop(classified.drop);
      break;
    case ip::InputKind::kArp:
      on_arp(packet->port, classified.arp);
      break;
    case ip::InputKind::kNdp:
      on_ndp(packet->port, classified.ndp);
      break;
    case ip::InputKind::kMldQuery:
      carry_out(neighbours.handle_mld(packet->port, classified.mld_query, now));
      break;
    case ip::InputKind::kEchoRequest:
      on_echo(packet->port, classified.echo);
      break;
    case ip::InputKind::kIcmpError:
      is_kept = on_icmp_error(packet, classified.icmp_error, redirection);
      break;
    case ip::InputKind::kTcp:
      is_kept = on_tcp(packet, classified.tcp, redirection);
      break;
    case ip::InputKind::kRefused:
      drop(classified.drop);
      on_refused(packet->port, classified.refused);
      break;
  }
  if (!is_kept) memory.release({&packet, 1});
}

void Worker::Impl::on_echo(uint8_t port, const ip::EchoInput& input) {
  // An echo is as large as its request, and only receive buffers have room for any frame.
  io::PacketBuf* reply = memory.alloc_rx();
  if (reply == nullptr) return drop(Drop::kTxNoBuffer);
  const link::FrameAddresses addresses{.source = ports[port].mac(),
                                       .destination = input.sender_mac};
  if (const auto refused = echo.write_reply(input, addresses, ++ip_id, now, *reply)) {
    memory.release({&reply, 1});
    return drop(*refused);
  }
  send_packet(port, reply);
}

/// Only a packet that was counted comes here: what hinders the answer is not counted again.
void Worker::Impl::on_refused(uint8_t port, const ip::Refused& refused) {
  ip::Refused answerable = refused;
  if (refused.destination.is_unspecified()) {
    const auto route = routes.lookup(refused.source);
    if (!route || route->is_local) return;
    answerable.destination = route->source;
  }
  if (!routes.accepts(answerable.destination)) return;
  io::PacketBuf* packet = memory.alloc_rx();
  if (packet == nullptr) return;
  const link::FrameAddresses addresses{.source = ports[port].mac(),
                                       .destination = refused.sender_mac};
  if (echo.write_problem(answerable, addresses, now, *packet)) {
    memory.release({&packet, 1});
    return;
  }
  send_packet(port, packet);
}

bool Worker::Impl::on_icmp_error(io::PacketBuf* packet, const ip::IcmpError& error,
                                 Redirect redirection) {
  const uint32_t conn = find_connection(error.tuple);
  if (conn == FlowTable::kNone) {
    if (redirection == Redirect::kYes && redirect(packet, error.tuple)) return true;
    drop(Drop::kIcmpBadQuote);
    return false;
  }
  effects.clear();
  engine.on_icmp_error(conn, error.seq, error.verdict, error.mtu_bytes, now, effects);
  apply(conn);
  return false;
}

uint32_t Worker::Impl::find_connection(const FourTuple& tuple) const {
  return flows.find(tuple,
                    [this](uint32_t conn) -> const FourTuple& { return engine.tuple(conn); });
}

bool Worker::Impl::on_tcp(io::PacketBuf* packet, const ip::TcpInput& input, Redirect redirection) {
  const wire::TcpHeader& header = input.parsed.header;
  tcp::SegmentIn segment{
      .seq = header.seq,
      .ack = header.ack,
      .flags = header.flags,
      .window = header.window,
      .options = header.options,
      .payload = {.slot = input.payload.empty() ? PayloadHandle::kNone : packet->slot},
      .payload_bytes = static_cast<uint32_t>(input.payload.size()),
      .charge_bytes = memory.rx_slot_bytes(),
      .rx_time = now,
      .ecn = input.ecn,
  };
  Train* train = find_train(input.tuple);
  if (train != nullptr) {
    if (try_extend_train(*train, segment, packet, input.payload)) return true;
    deliver_train(train);
  }
  const uint32_t conn = find_connection(input.tuple);
  if (conn == FlowTable::kNone) {
    if (redirection == Redirect::kYes && redirect(packet, input.tuple)) return true;
    return on_unmatched(packet, input, segment, std::nullopt);
  }
  if (const auto iss_after = engine.may_reuse(conn, segment)) {
    if (try_make_way(conn, input.tuple)) return on_unmatched(packet, input, segment, iss_after);
  }
  const auto header_bytes = static_cast<size_t>(input.payload.data() - packet->data);
  const std::span<const uint8_t> headers(packet->data, header_bytes);
  become_payload(*packet, input.payload);
  return try_begin_train({.conn = conn,
                          .tuple = input.tuple,
                          .segment = segment,
                          .headers = headers,
                          .last = packet}) ||
         on_segment(conn, segment);
}

/// RFC 9293 3.10.7.1 and 3.10.7.2: a listener takes a SYN, and the ACK that answers its cookie, and
/// passes over what has neither of both flags; what else comes is answered with RST.
bool Worker::Impl::on_unmatched(io::PacketBuf* packet, const ip::TcpInput& input,
                                const tcp::SegmentIn& segment, std::optional<SeqNum> iss_after) {
  using wire::TcpFlags;
  // The answer goes back to where the frame came from: nobody need be asked for that address.
  Drop ignored;
  const auto frame = wire::parse_ethernet(packet->bytes(), ignored);
  const std::optional<MacAddress> mac =
      frame ? std::optional(frame->source) : std::optional<MacAddress>();
  const uint32_t listener = listeners.find(input.tuple.local);
  if (listener != Listeners::kNone && !segment.flags.has(TcpFlags::kRst)) {
    if (!segment.flags.has(TcpFlags::kAck)) {
      if (segment.flags.has(TcpFlags::kSyn)) {
        on_syn(listener, input.tuple, segment, iss_after, mac);
      } else {
        drop(Drop::kTcpBadFlags);
      }
      return false;
    }
    const CookieAck taken = on_cookie_ack(listener, packet, input, segment);
    if (taken.is_ours) return taken.is_kept;
  }
  drop(Drop::kTcpNoConnection);
  const auto reset = tcp::reset_for(segment);
  if (frame && reset) send_alone(input.tuple, *reset, mac);
  return false;
}

/// RFC 6191: a connection in TIME-WAIT that nobody holds any more gives way to a new one.
bool Worker::Impl::try_make_way(uint32_t conn, const FourTuple& tuple) {
  if (session(conn).context != session::kNoContext) return false;
  if (listeners.find(tuple.local) == Listeners::kNone) return false;
  end_time_wait(conn);
  return find_connection(tuple) == FlowTable::kNone;
}

bool Worker::Impl::on_segment(uint32_t conn, const tcp::SegmentIn& segment) {
  stats.worker->tcp_segments_in.add(segment.segment_count);
  if (segment.payload_bytes > 0 && !may_keep_payload(conn, segment)) {
    drop(Drop::kRxPoolLow);
    return false;
  }
  effects.clear();
  engine.on_segment(conn, segment, now, effects);
  const bool is_kept = effects.payload_kept;
  apply(conn);
  return is_kept;
}

/// When the pool runs low, sessions that hold much of it get no more, except for the very bytes
/// that their reader waits for: without these they could never give anything back.
bool Worker::Impl::may_keep_payload(uint32_t conn, const tcp::SegmentIn& segment) const {
  if (memory.rx_slots_free() >= memory.rx_slot_count() / kRxLowShare) return true;
  if (engine.is_next_expected(conn, segment.seq) && !sessions[conn].has_readable) return true;
  if (memory.rx_slots_free() < memory.rx_slot_count() / kRxReserveShare) return false;
  return engine.charged_bytes(conn) < kRxFairSlots * memory.rx_slot_bytes();
}

void Worker::Impl::on_syn(uint32_t index, const FourTuple& tuple, const tcp::SegmentIn& segment,
                          std::optional<SeqNum> iss_after, std::optional<MacAddress> mac) {
  Listener& listener = listeners[index];
  if (listener.pending - listener.embryonic >= listener.backlog) return drop(Drop::kTcpBacklogFull);
  const auto route = routes.lookup_from(tuple.local.address, tuple.remote.address);
  if (!route) return drop(Drop::kTxNoRoute);
  const tcp::ConnectionConfig connection = connection_config(*route);
  const bool is_full = listener.pending >= listener.backlog;
  // A SYN alone proves nothing, and nobody in TIME-WAIT gives way to it.
  if (connection.syn_cookies && (is_full || must_make_room())) {
    return send_alone(tuple, engine.answer_with_cookie(tuple, connection, segment, now), mac);
  }
  if (is_full) return drop(Drop::kTcpBacklogFull);
  if (!can_claim(tuple)) return drop(Drop::kRedirectFull);
  make_room();
  const uint32_t conn = engine.open_passive(tuple, connection, segment, now, iss_after);
  if (conn == tcp::kNoConn) return drop(Drop::kTcpNoSessions);
  bind_passive(conn, index, tuple, *route);
  schedule_transmit(conn);
  arm(conn);
}

void Worker::Impl::bind_passive(uint32_t conn, uint32_t index, const FourTuple& tuple,
                                const ip::RouteResult& route) {
  Listener& listener = listeners[index];
  bind_session(conn, tuple, route);
  session::Session& opened = session(conn);
  opened.is_passive = opened.is_embryonic = true;
  opened.listener = index;
  opened.listener_generation = listener.generation;
  opened.cookie = listener.cookie;
  ++listener.pending;
  ++listener.embryonic;
}

/// RFC 4987 3.6: the end of a handshake of which only the peer's ACK tells.
Worker::Impl::CookieAck Worker::Impl::on_cookie_ack(uint32_t index, io::PacketBuf* packet,
                                                    const ip::TcpInput& input,
                                                    const tcp::SegmentIn& segment) {
  const auto route = routes.lookup_from(input.tuple.local.address, input.tuple.remote.address);
  if (!route || !engine.has_cookie(input.tuple, segment, now)) return {};
  if (!can_claim(input.tuple)) {
    drop(Drop::kRedirectFull);  // the peer sends again
    return {.is_ours = true};
  }
  make_room();
  effects.clear();
  const uint32_t conn =
      engine.open_by_cookie(input.tuple, connection_config(*route), segment, now, effects);
  if (conn == tcp::kNoConn) return {};
  become_payload(*packet, input.payload);
  const bool is_kept = effects.payload_kept;
  bind_passive(conn, index, input.tuple, *route);
  apply(conn);
  if (engine.is_open(conn)) arm(conn);
  return {.is_ours = true, .is_kept = is_kept};
}

}  // namespace lyre::worker
