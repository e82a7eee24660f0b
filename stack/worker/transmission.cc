#include "stack/worker/transmission.h"

#include <algorithm>

#include "stack/base/ipv6_address.h"
#include "stack/link/neighbours.h"
#include "stack/worker/port.h"
#include "stack/worker/turn_limits.h"

namespace lyre::worker {

/// A MAC address that was learned schedules the sessions that wait for one.
void Transmission::wake_for_neighbours() {
  if (state_.neighbours.generation() != neighbours_seen_) {
    neighbours_seen_ = state_.neighbours.generation();
    state_.transmit_queue.begin_waking();
  }
  state_.transmit_queue.wake_some(kWokenPerPollMax);
}

size_t Transmission::transmit() {
  wake_for_neighbours();
  size_t sent = 0;
  for (Port& port : state_.ports) {
    port.begin_turn();
    sent += port.flush();
  }
  TransmitQueue& queue = state_.transmit_queue;
  uint32_t turns = queue.size();
  uint32_t idle_turns = 0;
  while (turns-- > 0 && !queue.empty() && sent < kTxPacketsPerPollMax) {
    const TransmitQueue::Turn turn = queue.take();
    const Sent done =
        transmit_session(turn.conn, std::min(kSegmentsPerTurnMax, kTxPacketsPerPollMax - sent));
    queue.charge(turn.client, done.bytes, done.packets);
    sent += done.packets;
    idle_turns = done.packets > 0 ? 0 : idle_turns + 1;
    if (idle_turns == kIdleTurnsMax) break;  // the others are first in the next poll
  }
  for (Port& port : state_.ports) port.flush();
  if (sent == 0 && !queue.empty()) {
    note_no_progress();
  } else {
    if (queue.has_vain_turns()) queue.begin_round();
    note_progress(sent);
  }
  return sent;
}

void Transmission::repeat_an_ack() {
  for (size_t i = 0; i < RecentSenders::kKept; ++i) {
    const auto [conn, generation] = recent_.next();
    if (conn == channel::SessionName{}.index || !state_.is_same_session(conn, generation)) continue;
    if (!state_.engine.repeat_ack(conn).wants_transmit) continue;
    state_.transmit_queue.schedule(conn);
    return;
  }
}

/// When every scheduled session had a turn in vain, their ports take nothing: a round begins when
/// the retry interval is over. A poll may give turns to some of them only, so a round may take
/// several polls.
void Transmission::note_no_progress() {
  TransmitQueue& queue = state_.transmit_queue;
  if (queue.is_round_in_vain() && backoff_.stall(state_.now)) queue.begin_round();
}

/// Packets that a full port has not sent are offered to it again when the retry interval is over:
/// the session that they are of may have nothing more to send.
void Transmission::note_progress(size_t sent) {
  const bool has_unsent = std::any_of(state_.ports.begin(), state_.ports.end(),
                                      [](const Port& port) { return port.has_unsent(); });
  if (sent > 0 || !has_unsent) backoff_.reset();
  if (has_unsent && state_.transmit_queue.empty()) static_cast<void>(backoff_.stall(state_.now));
}

/// Packets that the session may build now: room where they go, and buffers in stock.
size_t Transmission::packet_room(const session::Session& sender) {
  if (sender.is_local) return parts_.output.local_room();
  const size_t room = state_.ports[sender.port].session_room();
  if (room == 0) return 0;
  // With no buffer at all the session still builds one packet, which fails and is counted.
  return std::min(room, std::max<size_t>(parts_.output.ready(), 1));
}

/// One turn of the session. It is scheduled again if it has more.
Transmission::Sent Transmission::transmit_session(uint32_t conn, size_t packets_max) {
  session::Session& sender = state_.session(conn);
  const auto mac = neighbour_of(conn);
  if (!mac) return {};
  Sent sent;
  bool has_more = true;
  while (has_more && sent.packets < packets_max && sent.bytes < kBytesPerTurnMax) {
    const size_t room = std::min(packet_room(sender), packets_max - sent.packets);
    if (room == 0) break;
    const auto segment = state_.engine.poll_transmit(conn, payload_limit(conn, room), state_.now);
    has_more = segment.has_value();
    if (!has_more) break;
    const size_t built = parts_.segments.send(conn, *segment, *mac);
    if (built == 0) break;
    sent.packets += built;
    sent.bytes += segment->payload_bytes;
    sent.has_retransmission = sent.has_retransmission || segment->is_retransmission;
  }
  if (has_more && sent.packets == 0) {
    state_.transmit_queue.schedule_after_vain_turn(conn);
  } else if (has_more) {
    state_.transmit_queue.schedule(conn);
  }
  if (sent.bytes > 0) recent_.note(state_.name_of(conn));
  state_.arm(conn);
  note_turn(conn, sent);
  return sent;
}

/// Records what changed. The client is told when the peer's window closed for long, and when that
/// is over.
void Transmission::note_turn(uint32_t conn, const Sent& sent) {
  session::Session& sender = state_.session(conn);
  const tcp::SendSide side = state_.engine.send_side(conn);
  if (side.has_changes) parts_.lifecycle.note_changes(conn);
  if (sent.has_retransmission && side.black_hole) note_black_hole(conn, *side.black_hole);
  if (side.is_window_closed == sender.is_told_closed) return;
  sender.must_announce_progress = true;
  state_.notifier.mark(conn);
}

/// Later sessions to the peer begin with segments that its path carries, until the entry ends: with
/// what ICMP, the test or the search of a session found that sends again now. A peer can shrink
/// only the segments that it gets itself. What was noted since is kept: routers may have reported
/// more.
void Transmission::note_black_hole(uint32_t conn, const tcp::BlackHole& hole) {
  if (state_.now - hole.since >= ip::kPathMtuLife) return;
  const IpAddress& peer = state_.engine.tuple(conn).remote.address;
  const auto known = state_.path_mtus.find(peer, state_.now);
  if (known && known->noted_at >= hole.since) return;
  state_.path_mtus.note(peer, hole.mtu_bytes, hole.since);
}

/// Payload that the engine may hand over at once: what fits `room` packets. A port that cuts by
/// itself takes more, but where its pieces are too many, the worker cuts into that many packets.
uint32_t Transmission::payload_limit(uint32_t conn, size_t room) const {
  const session::Session& sender = state_.sessions[conn];
  const auto packets = static_cast<uint32_t>(room) * state_.engine.segment_payload_bytes(conn);
  const IpAddress& peer = state_.engine.tuple(conn).remote.address;
  const uint32_t cut_max =
      sender.is_local ? 0 : state_.ports[sender.port].capabilities().tso_bytes_max_of(peer);
  return std::min(packets, cut_max == 0 ? kSendBytesAtOnceMax : cut_max);
}

/// The MAC to send to; empty while it is not known. TCP is not asked for a segment until then.
std::optional<MacAddress> Transmission::neighbour_of(uint32_t conn) {
  session::Session& sender = state_.session(conn);
  if (sender.is_local) return state_.ports[sender.port].mac();
  if (sender.next_hop.is_unspecified() && !reroute(conn)) {
    state_.transmit_queue.wait_for_neighbour(conn);  // an advertisement of a router wakes it
    return std::nullopt;
  }
  if (has_lost_router(conn)) reroute(conn);  // without another route it keeps its next hop
  const auto port = static_cast<uint8_t>(sender.port);
  const IpAddress& source = state_.engine.tuple(conn).local.address;
  link::Resolved resolved = state_.neighbours.resolve(port, sender.next_hop, state_.now, source);
  if (resolved.answer == link::Answer::kUnreachable && reroute(conn)) {
    resolved = state_.neighbours.resolve(port, sender.next_hop, state_.now, source);
  }
  if (!sender.holds_neighbour) state_.hold_neighbour(sender);
  if (resolved.answer == link::Answer::kKnown) return resolved.mac;
  state_.transmit_queue.wait_for_neighbour(conn);
  if (resolved.answer == link::Answer::kPending) {
    const uint32_t user = state_.accounts.user_of(sender.context);
    state_.neighbours.urge(port, sender.next_hop, user, state_.now);
  }
  if (resolved.answer == link::Answer::kUnreachable) {
    const tcp::Effects effects = state_.engine.on_host_unreachable(conn, state_.now);
    if (effects.is_over) sender.end_status = channel::EndStatus::kNoNeighbour;
    parts_.lifecycle.apply(conn, effects);
  }
  return std::nullopt;
}

/// RFC 4861 6.3.5 and 7.3.3: the session sends to a learned router that is no router any more, or
/// that the port does not store any more. A better router alone does not move the session.
bool Transmission::has_lost_router(uint32_t conn) const {
  const session::Session& sender = state_.sessions[conn];
  if (!is_ipv6_link_local(sender.next_hop)) return false;
  const link::Ndp& ndp = state_.neighbours.ndp();
  return ndp.takes_routers(sender.port) && !ndp.is_router(sender.port, sender.next_hop) &&
         sender.next_hop != state_.engine.tuple(conn).remote.address;
}

/// The neighbour does not answer, is no router any more, or is not known yet. Returns true if the
/// route has another next hop now.
bool Transmission::reroute(uint32_t conn) {
  const FourTuple& tuple = state_.engine.tuple(conn);
  const auto route = state_.routes.lookup_from(tuple.local.address, tuple.remote.address);
  if (!route || route->next_hop == state_.session(conn).next_hop) return false;
  state_.release_neighbour(state_.session(conn));
  state_.session(conn).next_hop = route->next_hop;
  return true;
}

}  // namespace lyre::worker
