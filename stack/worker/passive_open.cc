#include "stack/worker/passive_open.h"

#include "stack/base/drop_reasons.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/tcp_segment.h"
#include "stack/worker/listener_lookup.h"
#include "stack/worker/payload_chain.h"
#include "stack/worker/tables/listeners.h"
#include "stack/worker/unmatched_segment.h"

namespace lyre::worker {

/// A listener takes a SYN, and the ACK that answers its cookie.
PacketFate PassiveOpen::on_segment(io::PacketBuf* packet, const ip::TcpInput& input,
                                   const tcp::SegmentIn& segment, std::optional<SeqNum> iss_after) {
  // The answer goes back to where the frame came from, without neighbour resolution.
  Drop ignored;
  const auto frame = wire::parse_ethernet(packet->bytes(), ignored);
  const std::optional<MacAddress> mac =
      frame ? std::optional(frame->source) : std::optional<MacAddress>();
  const uint32_t listener = find_listener(state_, input.tuple);
  switch (unmatched(segment.flags, listener != Listeners::kNone)) {
    case Unmatched::kSyn:
      on_syn(listener, input.tuple, segment, iss_after, mac);
      return PacketFate::kUnused;
    case Unmatched::kBadFlags:
      state_.drop(Drop::kTcpBadFlags);
      return PacketFate::kUnused;
    case Unmatched::kAck:
      if (!state_.engine.has_cookie(input.tuple, segment, state_.now)) break;
      if (const auto fate = on_cookie_ack(listener, packet, input, segment)) return *fate;
      // For the peer the connection is open, and it may wait for the server's first data: without a
      // RST it would wait for ever.
      return refuse(input.tuple, segment, mac, /*has_cookie=*/true);
    case Unmatched::kRefused:
      break;
  }
  return refuse(input.tuple, segment, mac, /*has_cookie=*/false);
}

/// Segments of no connection are answered within a rate.
PacketFate PassiveOpen::refuse(const FourTuple& tuple, const tcp::SegmentIn& segment,
                               std::optional<MacAddress> mac, bool has_cookie) {
  const auto reset = tcp::reset_for(segment);
  const auto may_answer = [&] {
    return has_cookie ? state_.places.take_cookie_reset(state_.now)
                      : state_.places.take_reset(sender_of(tuple), state_.now);
  };
  if (!mac || !reset) {
    state_.drop(Drop::kTcpNoConnection);
  } else if (may_answer()) {
    state_.drop(Drop::kTcpNoConnection);
    output_.send_alone(tuple, *reset, mac);
  } else {
    state_.drop(Drop::kTcpResetLimited);
  }
  return PacketFate::kUnused;
}

/// The user whose client sent it. Segments from the network, or from another worker's client, have
/// the number that no client has.
uint32_t PassiveOpen::sender_of(const FourTuple& tuple) const {
  const uint32_t conn = state_.find_connection({.local = tuple.remote, .remote = tuple.local});
  const uint32_t context =
      conn == FlowTable::kNone ? session::kNoContext : state_.sessions[conn].context;
  return state_.accounts.user_of(context);
}

/// The listener, without the sessions that its client has read of since.
Listener& PassiveOpen::up_to_date(uint32_t index) {
  Listener& listener = state_.listeners[index];
  listener.forget_read(state_.contexts[listener.context].completions);
  return listener;
}

bool PassiveOpen::try_reuse(uint32_t conn, const FourTuple& tuple) {
  if (state_.session(conn).context != session::kNoContext) return false;
  if (find_listener(state_, tuple) == Listeners::kNone) return false;
  lifecycle_.end_silently(conn);
  return state_.find_connection(tuple) == FlowTable::kNone;
}

bool PassiveOpen::try_fail_open(uint32_t conn) {
  const uint32_t context = state_.session(conn).context;
  if (state_.engine.state(conn) != tcp::State::kSynSent) return false;
  if (context == session::kNoContext) return false;
  const FourTuple tuple = state_.engine.tuple(conn);
  const channel::EndStatus refusal = refusal_of(context, tuple);
  if (refusal == channel::EndStatus::kOk) return false;
  lifecycle_.fail_open(conn, refusal);
  return state_.find_connection(tuple) == FlowTable::kNone;
}

/// Why the client may accept no connection of the 4-tuple; kOk: it may.
channel::EndStatus PassiveOpen::refusal_of(uint32_t context, const FourTuple& tuple) const {
  if (is_for_another_user(state_, tuple, context)) return channel::EndStatus::kAddressInUse;
  const DomainRules* rules = state_.contexts[context].attached.domain;
  const bool may_accept = rules == nullptr || rules->may_listen;
  return may_accept ? channel::EndStatus::kOk : channel::EndStatus::kRefused;
}

void PassiveOpen::on_syn(uint32_t index, const FourTuple& tuple, const tcp::SegmentIn& segment,
                         std::optional<SeqNum> iss_after, std::optional<MacAddress> mac) {
  const Listener& listener = up_to_date(index);
  if (!state_.may_add_session(listener.context)) return state_.drop(Drop::kTcpNoSessions);
  const auto route = state_.routes.lookup_from(tuple.local.address, tuple.remote.address);
  if (!route) return state_.drop(Drop::kTxNoRoute);
  const tcp::ConnectionConfig connection = lifecycle_.connection_config(*route);
  const bool is_share_used = state_.half_opens.is_share_used();
  switch (listener.answer_to_syn({.has_cookies = connection.syn_cookies,
                                  .is_scarce = is_share_used || lifecycle_.is_full(),
                                  .has_room = lifecycle_.can_make_room()})) {
    case SynAnswer::kBacklogFull:
      return state_.drop(Drop::kTcpBacklogFull);
    case SynAnswer::kNoPlace:
      return state_.drop(Drop::kTcpNoSessions);
    case SynAnswer::kCookie:
      return output_.send_alone(
          tuple, state_.engine.answer_with_cookie(tuple, connection, segment, state_.now), mac);
    case SynAnswer::kOpen:
      break;
  }
  // Before the connection exists: without a claim its packets could not be routed here.
  if (!state_.router.can_claim(tuple)) return state_.drop(Drop::kRedirectFull);
  if (is_share_used) lifecycle_.cut_half_open(index);
  lifecycle_.make_room();
  const uint32_t conn =
      state_.engine.open_passive(tuple, connection, segment, state_.now, iss_after);
  if (conn == tcp::kNoConn) return state_.drop(Drop::kTcpNoSessions);
  bind(conn, index, tuple, *route);
  state_.transmit_queue.schedule(conn);
  state_.arm(conn);
}

void PassiveOpen::bind(uint32_t conn, uint32_t index, const FourTuple& tuple,
                       const ip::RouteResult& route) {
  Listener& listener = state_.listeners[index];
  lifecycle_.bind(conn, tuple, route);
  session::Session& opened = state_.session(conn);
  opened.is_passive = opened.is_embryonic = true;
  opened.listener = index;
  opened.listener_generation = listener.generation;
  opened.cookie = listener.cookie;
  listener.begin_handshake();
  state_.half_opens.add(conn);
}

/// RFC 4987 3.6: the third segment of a handshake of which no state was kept. Empty: there is no
/// place for the connection. REQUIRES: it answers a cookie.
std::optional<PacketFate> PassiveOpen::on_cookie_ack(uint32_t index, io::PacketBuf* packet,
                                                     const ip::TcpInput& input,
                                                     const tcp::SegmentIn& segment) {
  const auto route =
      state_.routes.lookup_from(input.tuple.local.address, input.tuple.remote.address);
  if (!route) return std::nullopt;
  const Listener& listener = up_to_date(index);
  if (!listener.takes_cookie()) return std::nullopt;
  if (!state_.may_add_session(listener.context)) return std::nullopt;
  // The ring to the connection's home is full. A peer that waits would send nothing here either.
  if (!state_.router.can_claim(input.tuple)) return std::nullopt;
  lifecycle_.make_room();
  const auto [conn, effects] = state_.engine.open_by_cookie(
      input.tuple, lifecycle_.connection_config(*route), segment, state_.now);
  if (conn == tcp::kNoConn) return std::nullopt;
  reduce_to_payload(*packet, input.payload);
  // The session must exist before apply(), which tells its listener.
  bind(conn, index, input.tuple, *route);
  if (effects.payload_kept) state_.accounts.add(session::kNoContext, segment.segment_count);
  lifecycle_.apply(conn, effects);
  if (state_.engine.is_open(conn)) state_.arm(conn);
  return effects.payload_kept ? PacketFate::kKept : PacketFate::kUnused;
}

}  // namespace lyre::worker
