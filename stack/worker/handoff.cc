#include <cstring>
#include <utility>

#include "stack/worker/impl.h"

/// Connections among workers: a packet whose connection is not here goes to the connection's home,
/// which knows its owner, and from there to the owner, once. Nobody shares anything but rings.
namespace lyre::worker {

namespace {

/// Room that packets leave in a ring for claims, and claims leave for packets on their way back.
constexpr uint32_t kRoomAfterPacket = kPacketsAwayMax + 128;
constexpr uint32_t kRoomAfterClaim = kPacketsAwayMax;

}  // namespace

bool Worker::Impl::is_alone() const { return config.crossroads == nullptr; }

uint32_t Worker::Impl::home_of(const FourTuple& tuple) const {
  return owners.home_of(tuple, config.worker_count);
}

/// False: the ring has no more than `room_left` free places.
bool Worker::Impl::hand(uint32_t to, const Handoff& handoff, uint32_t room_left) {
  Crossroads::Ring& ring = config.crossroads->ring(config.index, to);
  if (ring.room() <= room_left) return false;
  LYRE_CHECK(ring.try_post(handoff));
  must_wake[to] = true;
  return true;
}

void Worker::Impl::wake_workers() {
  if (is_alone()) return;
  for (uint32_t i = 0; i < config.worker_count; ++i) {
    if (std::exchange(must_wake[i], false)) config.crossroads->wake(i);
  }
}

bool Worker::Impl::has_handoffs() const {
  for (uint32_t i = 0; !is_alone() && i < config.worker_count; ++i) {
    if (!config.crossroads->ring(i, config.index).is_empty()) return true;
  }
  return false;
}

/// Takes what each ring holds, and then has a second look at what nobody seemed to have before.
size_t Worker::Impl::take_handoffs() {
  if (is_alone()) return 0;
  size_t taken = 0;
  Handoff handoff;
  Crossroads::Ring& doubts = config.crossroads->ring(config.index, config.index);
  const uint32_t doubt_count = kHandoffsMax - doubts.room();
  for (uint32_t from = 0; from < config.worker_count; ++from) {
    if (from == config.index) continue;
    Crossroads::Ring& ring = config.crossroads->ring(from, config.index);
    for (size_t i = 0; i < kHandoffsMax && ring.try_take(handoff); ++i, ++taken) {
      on_handoff(from, handoff);
    }
  }
  for (uint32_t i = 0; i < doubt_count && doubts.try_take(handoff); ++i, ++taken) {
    if (!try_find_owner(handoff)) give_back(handoff, Handoff::Kind::kNobodys);
  }
  return taken;
}

void Worker::Impl::on_handoff(uint32_t from, const Handoff& handoff) {
  using Kind = Handoff::Kind;
  switch (handoff.kind) {
    case Kind::kNone:
      return;
    case Kind::kFindOwner:
      return find_owner(handoff);
    case Kind::kYours:
      return take_redirected(handoff);
    case Kind::kNobodys:
      --packets_away;
      return on_packet(handoff.packet, ip::Origin::kWire, Redirect::kNo);
    case Kind::kReturn:
      --packets_away;
      return memory.release({&handoff.packet, 1});
    case Kind::kClaim:
      if (!owners.claim(handoff.tuple, from)) drop(Drop::kRedirectFull);
      return;
    case Kind::kUnclaim:
      return owners.unclaim(handoff.tuple, from);
    case Kind::kAdopt:
      --packets_away;
      return adopt(handoff);
    case Kind::kNeighbour:
      return hear(handoff);
  }
}

/// A packet that this worker received and that may belong to another. Unused: no other worker is
/// known to have its connection.
PacketFate Worker::Impl::redirect(io::PacketBuf* packet, const FourTuple& tuple) {
  if (is_alone()) return PacketFate::kUnused;
  const uint32_t home = home_of(tuple);
  Handoff handoff{.kind = Handoff::Kind::kFindOwner,
                  .receiver = static_cast<uint8_t>(config.index),
                  .packet = packet,
                  .tuple = tuple};
  uint32_t to = home;
  if (home == config.index) {
    to = owners.find(tuple);
    if (to == OwnerTable::kNobody) return PacketFate::kUnused;
    handoff.kind = Handoff::Kind::kYours;
  }
  if (packets_away == kPacketsAwayMax || !hand(to, handoff, kRoomAfterPacket)) {
    memory.release({&packet, 1});
    drop(Drop::kRedirectFull);
    return PacketFate::kKept;
  }
  ++packets_away;
  stats.worker->redirected_out.add(1);
  return PacketFate::kKept;
}

/// REQUIRES: the packet is away, so the ring back has room.
void Worker::Impl::give_back(const Handoff& handoff, Handoff::Kind kind) {
  Handoff answer = handoff;
  answer.kind = kind;
  LYRE_CHECK(hand(handoff.receiver, answer, 0));
}

/// The owner's claim was made before the packet came, but may lie in a ring that this look has
/// passed already: who seems to be nobody's is looked for once more.
void Worker::Impl::find_owner(const Handoff& handoff) {
  if (try_find_owner(handoff) || hand(config.index, handoff, 0)) return;
  drop(Drop::kRedirectFull);
  give_back(handoff, Handoff::Kind::kReturn);
}

/// False: as far as is known here, nobody has the connection.
bool Worker::Impl::try_find_owner(const Handoff& handoff) {
  if (find_connection(handoff.tuple) != FlowTable::kNone) {
    take_redirected(handoff);
    return true;
  }
  const uint32_t owner = owners.find(handoff.tuple);
  if (owner == OwnerTable::kNobody || owner == handoff.receiver) return false;
  Handoff onward = handoff;
  onward.kind = Handoff::Kind::kYours;
  if (hand(owner, onward, kRoomAfterPacket)) return true;
  drop(Drop::kRedirectFull);
  give_back(handoff, Handoff::Kind::kReturn);
  return true;
}

/// The packet lies in another worker's memory: it is copied and goes back at once.
void Worker::Impl::take_redirected(const Handoff& handoff) {
  stats.worker->redirected_in.add(1);
  const uint32_t conn = find_connection(handoff.tuple);
  if (conn == FlowTable::kNone) {
    unclaim(handoff.tuple);  // its home did not hear of the end
    return give_back(handoff, Handoff::Kind::kNobodys);
  }
  if (may_hand_over(conn)) return hand_over(conn, handoff);
  io::PacketBuf* copy = memory.alloc_rx();
  const io::PacketBuf& original = *handoff.packet;
  if (copy == nullptr || copy->tailroom < original.length) {
    if (copy != nullptr) memory.release({&copy, 1});
    drop(Drop::kRxPoolLow);
    return give_back(handoff, Handoff::Kind::kReturn);
  }
  std::memcpy(copy->data, original.data, original.length);
  copy->length = original.length;
  copy->tailroom = static_cast<uint16_t>(copy->tailroom - original.length);
  copy->port = original.port;
  copy->ip_checksum = original.ip_checksum;
  copy->l4_checksum = original.l4_checksum;
  copy->flow_hash = original.flow_hash;
  stats.worker->copied_rx_bytes.add(original.length);
  give_back(handoff, Handoff::Kind::kReturn);
  on_packet(copy, ip::Origin::kWire, Redirect::kNo);
}

/// A connection moves only while nobody can have named memory in it, and while its SYN is the one
/// that was sent first: its round trip is measured from that.
bool Worker::Impl::may_hand_over(uint32_t conn) {
  const session::Session& moving = session(conn);
  return engine.state(conn) == tcp::State::kSynSent && moving.context != session::kNoContext &&
         !moving.was_retransmitted && !moving.is_closed_by_client && !is_shutting_down;
}

/// The answer to our SYN came to another worker: what follows will, too. So the connection goes
/// there, and its client will hear of it from there.
void Worker::Impl::hand_over(uint32_t conn, const Handoff& handoff) {
  const session::Session& moving = session(conn);
  Handoff adoption = handoff;
  adoption.body =
      Handoff::Adoption{.context = moving.context,
                        .context_generation = contexts[moving.context].attached.generation,
                        .cookie = moving.cookie,
                        .opened_at = moving.opened_at};
  give_back(adoption, Handoff::Kind::kAdopt);
  stats.worker->handed_over.add(1);
  forget_context(conn);
  effects.clear();
  std::optional<tcp::SegmentOut> nothing_to_say;
  engine.on_app_abort(conn, now, effects, nothing_to_say);
  session(conn).is_over = true;
  release_if_done(conn);
}

/// The same connection again: equal tuple, time and secret give equal sequence numbers and
/// timestamps. Its SYN has left already; the answer to it is at hand.
void Worker::Impl::adopt(const Handoff& handoff) {
  io::PacketBuf* packet = handoff.packet;
  const auto& moved = *std::get_if<Handoff::Adoption>(&handoff.body);
  const Context& context = contexts[moved.context];
  const bool is_there = context.state == Context::State::kAttached &&
                        context.attached.generation == moved.context_generation;
  const auto route = routes.lookup_from(handoff.tuple.local.address, handoff.tuple.remote.address);
  uint32_t conn = tcp::kNoConn;
  const bool is_free = find_connection(handoff.tuple) == FlowTable::kNone;
  if (is_there && route && is_free && can_claim(handoff.tuple)) {
    make_room();
    conn = engine.open_active(handoff.tuple, connection_config(*route), moved.opened_at);
  }
  if (conn == tcp::kNoConn) {
    if (is_there) refuse_adoption(handoff.tuple, moved);
    return on_packet(packet, ip::Origin::kWire, Redirect::kNo);  // which resets the peer
  }
  bind_session(conn, handoff.tuple, *route);
  session(conn).cookie = moved.cookie;
  session(conn).opened_at = moved.opened_at;
  link_to_context(conn, moved.context);
  static_cast<void>(engine.poll_transmit(conn, 0, moved.opened_at));
  arm(conn);
  on_packet(packet, ip::Origin::kWire, Redirect::kNo);
}

void Worker::Impl::refuse_adoption(const FourTuple& tuple, const Handoff::Adoption& moved) {
  stats.worker->connect_failures.add(1);
  Context& context = contexts[moved.context];
  if (context.completions.room() == 0)
    return expel(context, "no room to say that a connect failed");
  answer_open(context, channel::Event::kConnectFailed, channel::EndStatus::kNoResources,
              moved.cookie, {}, tuple);
}

/// Whether a new connection could be told to its home.
bool Worker::Impl::can_claim(const FourTuple& tuple) {
  if (is_alone() || home_of(tuple) == config.index) return true;
  return config.crossroads->ring(config.index, home_of(tuple)).room() > kRoomAfterClaim;
}

void Worker::Impl::claim(const FourTuple& tuple) {
  if (is_alone() || home_of(tuple) == config.index) return;
  const Handoff news{.kind = Handoff::Kind::kClaim, .tuple = tuple};
  if (!hand(home_of(tuple), news, kRoomAfterClaim)) drop(Drop::kRedirectFull);
}

/// One that is lost leaves a name behind that the next owner's claim replaces.
void Worker::Impl::unclaim(const FourTuple& tuple) {
  if (is_alone() || home_of(tuple) == config.index) return;
  hand(home_of(tuple), {.kind = Handoff::Kind::kUnclaim, .tuple = tuple}, kRoomAfterClaim);
}

/// What neighbours say reaches one worker, and all have asked. What is lost, each asks for again by
/// itself.
void Worker::Impl::spread_news(const Handoff& news) {
  for (uint32_t i = 0; !is_alone() && i < config.worker_count; ++i) {
    if (i != config.index) hand(i, news, kRoomAfterPacket);
  }
}

/// The worker that received it answers it, and counts it.
void Worker::Impl::hear(const Handoff& news) {
  if (const auto* arp = std::get_if<Handoff::ArpNews>(&news.body)) {
    static_cast<void>(neighbours.handle_arp(arp->port, arp->packet, now));
  } else if (const auto* ndp = std::get_if<Handoff::NdpNews>(&news.body)) {
    static_cast<void>(neighbours.handle_ndp(ndp->port, ndp->arrival, now));
    follow_neighbours();
  }
}

}  // namespace lyre::worker
