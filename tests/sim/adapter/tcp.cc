#include "tests/sim/adapter/tcp.h"

#include <algorithm>
#include <utility>

namespace lyre::adapter_sim {
namespace {

constexpr int64_t kRtoMinNs = 200 * kMs;
constexpr int64_t kRtoMaxNs = 60 * kSecond;
constexpr int64_t kFinWaitNs = 60 * kSecond;

}  // namespace

void Tcp::open(End& end) {
  begin(end);
  end.unanswered_ns = events_.now_ns();
  send_syn(end);
}

void Tcp::begin(End& end) {
  end.state = End::State::kOpening;
  end.boot = end.host->boot;
  end.rto_ns = end.rtt.rto.value;
  end.user_timeout_ns = settings_.user_timeout_ns;
}

void Tcp::forget(End& end, bool tells) {
  if (!knows(end) || end.state == End::State::kEnded) return;
  if (tells) send_reset(end);
  end.pieces.clear();  // with the arena and the regions of a context that is over
  end.acked = end.queued;
  end.state = End::State::kEnded;
  end.error = LYRE_E_DAEMON;
}

void Tcp::reset(Connection& connection) {
  for (End& end : connection.ends) {
    if (knows(end) && end.state != End::State::kEnded) end_side(end, LYRE_E_RESET);
  }
}

// ---- Packets ----

void Tcp::transmit(End& from, Packet packet) {
  ++packets_;
  packet.ack = from.received;
  packet.window_end = from.advertised = window_end(from);
  if (from.host->daemon != Host::Daemon::kRunning || !is_open(from)) return;
  if (!wires_.takes(place_of(from), place_of(other(from)))) return;
  const int64_t at_ns = arrival_ns(from, packet.bytes.size());
  End* to = &other(from);
  // What a daemon sent before it ended arrives all the same.
  events_.at(at_ns, [this, to, packet = std::move(packet)]() mutable {
    if (is_open(other(*to))) deliver(*to, std::move(packet));
  });
}

bool Tcp::is_open(const End& from) const {
  const End& to = other(from);
  return to.host->daemon == Host::Daemon::kRunning &&
         (from.host == to.host || from.connection->blackholed_until_ns <= events_.now_ns()) &&
         wires_.is_open(place_of(from), place_of(to));
}

int64_t Tcp::arrival_ns(End& from, size_t bytes) {
  Connection& connection = *from.connection;
  const Place to = place_of(other(from));
  int64_t at_ns = wires_.arrival_ns(place_of(from), to, bytes, connection.fabric_path);
  at_ns = connection.meters[from.side].pass(at_ns, bytes, settings_.flow_bytes_per_s);
  int64_t& last_ns = connection.arrival_ns[from.side];
  last_ns = std::max(at_ns, last_ns) +
            static_cast<int64_t>(wires_.wire_ns(bytes) * (connection.slowness - 1));
  return last_ns;
}

void Tcp::deliver(End& to, Packet packet) {
  using Kind = Packet::Kind;
  if (packet.kind == Kind::kSyn) return on_syn(to);
  if (!knows(to)) {
    if (packet.kind != Kind::kReset) send_reset(to);
    return;
  }
  if (to.state == End::State::kEnded) {
    // TIME-WAIT answers with an ACK; an end that was reset or aborted answers RST.
    if (packet.kind == Kind::kReset || packet.kind == Kind::kAck) return;
    return to.error == 0 ? send_ack(to) : send_reset(to);
  }
  if (packet.kind == Kind::kReset) {
    const bool is_refused = to.state == End::State::kOpening && to.side == 0;
    return end_side(to, is_refused ? LYRE_E_REFUSED : LYRE_E_RESET);
  }
  to.probes_unanswered = 0;
  if (packet.kind == Kind::kSynAck) return on_syn_ack(to, packet);
  if (to.state == End::State::kOpening) establish(to);
  if (to.state != End::State::kOpen) return;
  on_ack(to, packet);
  if (packet.kind == Kind::kProbe) send_ack(to);
  if (packet.kind == Kind::kData && to.state == End::State::kOpen) on_data(to, std::move(packet));
}

bool Tcp::may_accept(const End& to) {
  std::vector<const End*>& accepted = to.host->accepted;
  std::erase_if(accepted,
                [](const End* end) { return !knows(*end) || end->state == End::State::kEnded; });
  const size_t most = settings_.host_accepts_max;
  if (most != 0 && accepted.size() >= most) return false;
  accepted.push_back(&to);
  return true;
}

void Tcp::on_syn(End& to) {
  if (knows(to)) {
    if (to.state == End::State::kEnded) return send_reset(to);
    if (to.state == End::State::kOpen) return send_ack(to);
  } else {
    if (!to.host->listeners.contains(to.local.port)) return send_reset(to);
    if (!may_accept(to)) return;
    begin(to);
    begin_timing(to, 0);
  }
  transmit(to, {.kind = Packet::Kind::kSynAck});
}

void Tcp::on_syn_ack(End& to, const Packet& packet) {
  if (to.state == End::State::kOpening && to.side == 0) {
    to.state = End::State::kOpen;
    take_sample(to);
    to.timer_ns = to.unanswered_ns = 0;
    to.window_end = packet.window_end;
    send_ack(to);
    if (to.session != nullptr) on_session_ready(to.session);
    return push(to);
  }
  send_ack(to);
}

void Tcp::establish(End& to) {
  const auto found = to.host->listeners.find(to.local.port);
  if (found == to.host->listeners.end()) {
    send_reset(to);
    return end_side(to, LYRE_E_RESET);
  }
  to.state = End::State::kOpen;
  take_sample(to);
  to.context = found->second.context;
  on_connection_arrived(found->second.handle, to);
}

void Tcp::on_data(End& to, Packet packet) {
  const uint64_t end = packet.from + packet.bytes.size();
  if (to.is_client_gone() && end > to.received) {
    // No client is left to read it (RFC 9293 3.6.1).
    send_reset(to);
    return end_side(to, LYRE_E_RESET);
  }
  if (packet.from <= to.received) take(to, packet);
  if (to.state == End::State::kOpen) acknowledge(to);
  finish_if_over(to);
}

// RFC 9293 3.8.6.3: a FIN is acknowledged at once.
void Tcp::acknowledge(End& to) {
  if (settings_.ack_delay_ns == 0 || to.is_fin_received) return send_ack(to);
  events_.after(settings_.ack_delay_ns, [this, own = &to] {
    if (knows(*own) && own->state == End::State::kOpen) send_ack(*own);
  });
}

void Tcp::take(End& to, const Packet& packet) {
  const uint64_t skipped = to.received - packet.from;
  if (to.is_fin_received) return;
  if (skipped < packet.bytes.size()) {
    const uint64_t used = to.readable_bytes + to.held_bytes;
    const uint64_t room = settings_.pool_bytes - std::min<uint64_t>(used, settings_.pool_bytes);
    const uint64_t count = std::min<uint64_t>(packet.bytes.size() - skipped, room);
    if (count == 0) return;
    const auto first = packet.bytes.begin() + static_cast<ptrdiff_t>(skipped);
    // The NIC's buffers end anywhere.
    const auto middle = first + static_cast<ptrdiff_t>(rng_.below(count + 1));
    const auto last = first + static_cast<ptrdiff_t>(count);
    if (middle > first) to.readable.emplace_back(first, middle);
    if (last > middle) to.readable.emplace_back(middle, last);
    to.readable_bytes += count;
    to.received += count;
  }
  if (packet.is_fin && to.received == packet.from + packet.bytes.size()) {
    ++to.received;
    to.is_fin_received = true;
  }
  if (to.session != nullptr) on_session_ready(to.session);
}

void Tcp::on_ack(End& to, const Packet& packet) {
  to.window_end = std::max(to.window_end, packet.window_end);
  const bool is_answer = std::exchange(to.awaits_probe_answer, false);
  to.is_window_closed = to.window_end <= to.acked && (is_answer || to.is_window_closed);
  if (packet.ack > to.acked && packet.ack <= to.to_send()) {
    to.window.on_acked(packet.ack - to.acked, settings_.segment_bytes_max);
    to.acked = packet.ack;
    to.sent = std::max(to.sent, to.acked);
    if (to.acked >= to.timed_end) take_sample(to);
    to.told_rto_ns = to.rto_ns;
    to.unanswered_ns = to.acked < to.to_send() ? events_.now_ns() : 0;
    if (to.unanswered_ns != 0) {
      arm(to);
    } else {
      to.timer_ns = 0;
    }
    finish_pieces(to);
  } else if (to.window_end <= to.acked && to.unanswered_ns != 0) {
    to.unanswered_ns = events_.now_ns();  // a closed window that is answered for is no silence
  }
  push(to);
  finish_if_over(to);
}

void Tcp::finish_pieces(End& end) {
  bool is_any_done = false;
  while (!end.pieces.empty() && end.pieces.front().from + end.pieces.front().bytes <= end.acked) {
    const Piece piece = end.pieces.front();
    end.pieces.pop_front();
    if (piece.block != nullptr && end.context != nullptr) on_block_free(end.context, piece.block);
    is_any_done = true;
  }
  if (is_any_done && end.session != nullptr) on_session_ready(end.session);
}

std::vector<uint8_t> Tcp::read(const End& end, uint64_t from, uint64_t bytes) const {
  std::vector<uint8_t> out;
  out.reserve(bytes);
  for (const Piece& piece : end.pieces) {
    if (piece.from + piece.bytes <= from || out.size() == bytes) continue;
    const uint64_t skip = from + out.size() - piece.from;
    const uint64_t count = std::min<uint64_t>(piece.bytes - skip, bytes - out.size());
    out.insert(out.end(), piece.data + skip, piece.data + skip + count);
  }
  return out;
}

void Tcp::push(End& end) {
  if (end.state != End::State::kOpen || !knows(end)) return;
  const bool had_nothing = end.unanswered_ns == 0;
  const uint64_t cwnd =
      settings_.queue_bytes > 0 ? end.window.bytes(settings_.segment_bytes_max) : UINT64_MAX;
  const uint64_t window = std::min<uint64_t>(settings_.in_flight_bytes_max, cwnd);
  while (end.sent < end.to_send() && end.sent - end.acked < window) {
    if (end.sent >= end.window_end && end.sent != end.queued) break;
    send_segment(end);
  }
  if (end.acked == end.to_send()) return;
  if (had_nothing) {
    end.unanswered_ns = events_.now_ns();
    arm(end);
  }
}

void Tcp::send_segment(End& end) {
  const uint64_t left = std::min(end.queued, std::max(end.window_end, end.sent)) - end.sent;
  uint64_t bytes = std::min<uint64_t>(left, settings_.segment_bytes_max);
  if (bytes > 1 && rng_.below(8) == 0) bytes = 1 + rng_.below(bytes);
  Packet packet{.kind = Packet::Kind::kData, .from = end.sent};
  packet.bytes = read(end, end.sent, bytes);
  packet.is_fin = end.is_fin_queued && end.sent + bytes == end.queued;
  end.sent += bytes + (packet.is_fin ? 1 : 0);
  if (end.timed_ns == 0 && end.sent > end.sent_max) begin_timing(end, end.sent);
  end.sent_max = std::max(end.sent_max, end.sent);
  transmit(end, std::move(packet));
}

void Tcp::send_syn(End& end) {
  if (++end.syn_count == 1) begin_timing(end, 0);
  transmit(end, {.kind = Packet::Kind::kSyn});
  arm(end);
}

void Tcp::send_ack(End& end) { transmit(end, {.kind = Packet::Kind::kAck}); }
void Tcp::send_reset(End& end) { transmit(end, {.kind = Packet::Kind::kReset}); }

uint64_t Tcp::window_end(const End& end) const {
  const uint64_t used = end.readable_bytes + end.held_bytes;
  return end.received + settings_.pool_bytes - std::min<uint64_t>(used, settings_.pool_bytes);
}

// ---- Timers ----

void Tcp::begin_timing(End& end, uint64_t until) {
  end.timed_ns = events_.now_ns();
  end.timed_end = until;
}

// RFC 6298 3: what was sent twice measures nothing, and leaves the back-off as it is.
void Tcp::take_sample(End& end) {
  if (end.timed_ns == 0) return;
  const Nanos round_trip = nanos(events_.now_ns() - std::exchange(end.timed_ns, 0));
  end.rtt.on_sample(round_trip, nanos(events_.now_ns()), nanos(kRtoMinNs), nanos(kRtoMaxNs));
  end.rto_ns = end.rtt.rto.value;
}

void Tcp::arm(End& end) {
  const int64_t now_ns = events_.now_ns();
  end.timer_ns = now_ns + end.rto_ns;
  if (end.unanswered_ns != 0) {
    end.timer_ns = std::min(end.timer_ns, end.unanswered_ns + end.user_timeout_ns);
  }
  end.timer_ns = std::max(end.timer_ns, now_ns + 1);
  expect_timer(end, end.timer_ns);
}

void Tcp::expect_timer(End& end, int64_t at_ns) {
  if (end.timer_event_ns != 0 && end.timer_event_ns <= at_ns) return;
  end.timer_event_ns = at_ns;
  events_.at(at_ns, [this, own = &end, at_ns] {
    if (own->timer_event_ns == at_ns) on_timer(*own);
  });
}

void Tcp::on_timer(End& end) {
  end.timer_event_ns = 0;
  if (end.timer_ns == 0 || !knows(end) || end.state == End::State::kEnded) return;
  if (events_.now_ns() < end.timer_ns || end.host->daemon != Host::Daemon::kRunning) {
    return expect_timer(end, std::max(end.timer_ns, events_.now_ns() + kMs));
  }
  if (events_.now_ns() - end.unanswered_ns >= end.user_timeout_ns) {
    send_reset(end);
    return end_side(end, LYRE_E_TIMEDOUT);
  }
  end.rto_ns = std::min(end.rto_ns * 2, kRtoMaxNs);
  end.timed_ns = 0;
  end.window.on_timeout(end.sent - end.acked, settings_.segment_bytes_max);
  if (end.state == End::State::kOpening) return send_syn(end);
  retransmit(end);
}

void Tcp::retransmit(End& end) {
  end.sent = end.acked;
  if (end.window_end <= end.acked && end.acked < end.queued) {
    if (std::exchange(end.awaits_probe_answer, true)) end.is_window_closed = false;
    transmit(end, {.kind = Packet::Kind::kProbe});
  } else {
    push(end);
  }
  arm(end);
}

void Tcp::set_keepalive(End& end) {
  if (end.keepalive_ns == 0 || end.is_keepalive_armed) return;
  end.is_keepalive_armed = true;
  end.probes_unanswered = 0;
  events_.after(end.keepalive_ns, [this, own = &end] { probe(*own); });
}

void Tcp::probe(End& end) {
  end.is_keepalive_armed = false;
  if (end.keepalive_ns == 0 || !knows(end) || end.state != End::State::kOpen) return;
  const uint32_t unanswered = end.probes_unanswered;
  if (end.host->daemon == Host::Daemon::kRunning && end.acked == end.to_send()) {
    if (unanswered >= end.probes_max) {
      send_reset(end);
      return end_side(end, LYRE_E_TIMEDOUT);
    }
    transmit(end, {.kind = Packet::Kind::kProbe});
  }
  set_keepalive(end);
  end.probes_unanswered = unanswered + 1;
}

// ---- The client's side ----

void Tcp::on_released(End& end) {
  if (!knows(end) || end.state != End::State::kOpen) return;
  if (window_end(end) - end.advertised >= settings_.pool_bytes / 4) send_ack(end);
}

void Tcp::shut(End& end) {
  if (!knows(end) || end.state != End::State::kOpen) return;
  end.is_fin_queued = true;
  push(end);
}

void Tcp::close(End& end) {
  if (!knows(end) || end.state == End::State::kEnded) {
    end.session = nullptr;
    return;
  }
  // Who closes without having read everything resets (RFC 2525 2.17).
  if (end.state != End::State::kOpen || end.readable_bytes > 0) return abort(end);
  end.session = nullptr;
  end.is_fin_queued = true;
  push(end);
  finish_if_over(end);
  events_.after(kFinWaitNs, [this, own = &end] {
    const bool is_waiting = knows(*own) && own->state == End::State::kOpen;
    if (is_waiting && own->acked == own->to_send()) end_side(*own, 0);
  });
}

void Tcp::abort(End& end) {
  end.session = nullptr;
  if (!knows(end) || end.state == End::State::kEnded) return;
  send_reset(end);
  end_side(end, LYRE_E_ABORTED);
}

void Tcp::end_side(End& end, int error) {
  end.state = End::State::kEnded;
  end.error = error;
  end.acked = end.queued;
  finish_pieces(end);
  end.pieces.clear();
  end.timer_ns = 0;
  if (end.is_client_gone()) {
    end.readable.clear();
    end.readable_bytes = 0;
  } else {
    on_session_ready(end.session);
  }
}

void Tcp::finish_if_over(End& end) {
  if (end.state != End::State::kOpen || !end.is_fin_received || !end.is_fin_queued) return;
  if (end.acked == end.to_send()) end_side(end, 0);
}

}  // namespace lyre::adapter_sim
