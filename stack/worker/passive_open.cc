#include <optional>

#include "stack/ip/input.h"
#include "stack/tcp/engine.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/tcp_segment.h"
#include "stack/worker/impl.h"
#include "stack/worker/tables/listeners.h"
#include "stack/worker/payload_chain.h"

/// Segments without a connection: SYNs to listeners, ACKs that answer SYN cookies, and resets.
namespace lyre::worker {

/// RFC 9293 3.10.7.1 and 3.10.7.2: a listener takes a SYN, and the ACK that answers its cookie. It
/// ignores a segment with neither flag. Anything else is answered with RST.
PacketFate Worker::Impl::on_unmatched(io::PacketBuf* packet, const ip::TcpInput& input,
                                      const tcp::SegmentIn& segment,
                                      std::optional<SeqNum> iss_after) {
  using wire::TcpFlags;
  // The answer goes back to where the frame came from, without neighbour resolution.
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
      return PacketFate::kUnused;
    }
    if (const auto fate = on_cookie_ack(listener, packet, input, segment)) return *fate;
  }
  drop(Drop::kTcpNoConnection);
  const auto reset = tcp::reset_for(segment);
  if (frame && reset) send_alone(input.tuple, *reset, mac);
  return PacketFate::kUnused;
}

/// RFC 6191: a connection in TIME-WAIT without an owner makes way for a new one.
bool Worker::Impl::try_make_way(uint32_t conn, const FourTuple& tuple) {
  if (session(conn).context != session::kNoContext) return false;
  if (listeners.find(tuple.local) == Listeners::kNone) return false;
  end_time_wait(conn);
  return find_connection(tuple) == FlowTable::kNone;
}

void Worker::Impl::on_syn(uint32_t index, const FourTuple& tuple, const tcp::SegmentIn& segment,
                          std::optional<SeqNum> iss_after, std::optional<MacAddress> mac) {
  Listener& listener = listeners[index];
  if (listener.pending - listener.embryonic >= listener.backlog) return drop(Drop::kTcpBacklogFull);
  const auto route = routes.lookup_from(tuple.local.address, tuple.remote.address);
  if (!route) return drop(Drop::kTxNoRoute);
  const tcp::ConnectionConfig connection = connection_config(*route);
  const bool is_full = listener.pending >= listener.backlog;
  // A SYN proves nothing about its sender, so no TIME-WAIT ends for it: a cookie answers instead.
  if (connection.syn_cookies && (is_full || must_make_room())) {
    return send_alone(tuple, engine.answer_with_cookie(tuple, connection, segment, now), mac);
  }
  if (is_full) return drop(Drop::kTcpBacklogFull);
  // Before the connection exists: without a claim its packets could not be routed here.
  if (!router.can_claim(tuple)) return drop(Drop::kRedirectFull);
  make_room();
  const uint32_t conn = engine.open_passive(tuple, connection, segment, now, iss_after);
  if (conn == tcp::kNoConn) return drop(Drop::kTcpNoSessions);
  bind_passive(conn, index, tuple, *route);
  transmit_queue.schedule(conn);
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

/// RFC 4987 3.6: the third segment of a handshake of which no state was kept. Empty: the segment
/// answers no cookie of this listener.
std::optional<PacketFate> Worker::Impl::on_cookie_ack(uint32_t index, io::PacketBuf* packet,
                                                      const ip::TcpInput& input,
                                                      const tcp::SegmentIn& segment) {
  const auto route = routes.lookup_from(input.tuple.local.address, input.tuple.remote.address);
  if (!route || !engine.has_cookie(input.tuple, segment, now)) return std::nullopt;
  if (!router.can_claim(input.tuple)) {
    drop(Drop::kRedirectFull);  // the peer sends again
    return PacketFate::kUnused;
  }
  make_room();
  tcp::Effects effects;
  const uint32_t conn =
      engine.open_by_cookie(input.tuple, connection_config(*route), segment, now, effects);
  if (conn == tcp::kNoConn) return std::nullopt;
  reduce_to_payload(*packet, input.payload);
  // The session must exist before apply(), which tells its listener.
  bind_passive(conn, index, input.tuple, *route);
  apply(conn, effects);
  if (engine.is_open(conn)) arm(conn);
  return effects.payload_kept ? PacketFate::kKept : PacketFate::kUnused;
}

}  // namespace lyre::worker
