#include "tests/sim/adapter/network.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace lyre::adapter_sim {
namespace {

constexpr int64_t kRtoMinNs = 200 * kMs;
constexpr int64_t kRtoMaxNs = 60 * kSecond;
constexpr int64_t kFinWaitNs = 60 * kSecond;

lyre_addr make_address(size_t host, size_t rail) {
  lyre_addr out{};
  out.address[10] = out.address[11] = 0xff;
  out.address[12] = 10;
  out.address[13] = static_cast<uint8_t>(rail);
  out.address[15] = static_cast<uint8_t>(host + 1);
  return out;
}

bool is_same_address(const lyre_addr& a, const lyre_addr& b) {
  return std::memcmp(a.address, b.address, sizeof(a.address)) == 0;
}

Network* g_network = nullptr;

}  // namespace

void set_network(Network* network) { g_network = network; }
Network* network() { return g_network; }

Network::Network(const NetworkSettings& settings, Events& events, uint64_t seed)
    : settings_(settings), events_(events), rng_(seed) {
  for (size_t i = 0; i < settings.hosts; ++i) {
    auto host = std::make_unique<Host>();
    host->index = i;
    for (size_t r = 0; r < settings.rails; ++r) {
      host->rails.push_back({.is_up = true, .address = make_address(i, r)});
    }
    hosts_.push_back(std::move(host));
  }
}

Network::~Network() = default;

Network::RailPairKey Network::key(size_t host, size_t rail, size_t peer, size_t peer_rail) {
  return {{host, rail}, {peer, peer_rail}};
}

// ---- What breaks ----

void Network::set_rail(size_t host, size_t rail, bool is_up) {
  hosts_[host]->rails[rail].is_up = is_up;
}

void Network::cut(size_t host, size_t rail, size_t peer, size_t peer_rail, int64_t until_ns) {
  cut_until_ns_[key(host, rail, peer, peer_rail)] = until_ns;
  cut_until_ns_[key(peer, peer_rail, host, rail)] = until_ns;
}

void Network::forget_all(Host& host, bool tells) {
  for (const auto& connection : connections_) {
    for (End& end : connection->ends) {
      if (end.host != &host || !knows(end) || end.state == End::State::kEnded) continue;
      if (tells) send_reset(end);
      end.pieces.clear();  // with the arena and the regions of a context that is over
      end.acked = end.queued;
      end.state = End::State::kEnded;
      end.error = LYRE_E_DAEMON;
    }
  }
  host.listeners.clear();
  host.daemon = Host::Daemon::kDead;
  for (lyre_context* context : std::exchange(host.contexts, {})) {
    on_daemon_gone(context, tells ? LYRE_E_SHUTDOWN : LYRE_E_DAEMON);
  }
}

void Network::kill_daemon(size_t host) { forget_all(*hosts_[host], false); }
void Network::stop_daemon(size_t host) { forget_all(*hosts_[host], true); }

void Network::start_daemon(size_t host) {
  hosts_[host]->daemon = Host::Daemon::kRunning;
  ++hosts_[host]->boot;
}

void Network::pause_daemon(size_t host) {
  if (hosts_[host]->daemon == Host::Daemon::kRunning) {
    hosts_[host]->daemon = Host::Daemon::kStopped;
  }
}

void Network::resume_daemon(size_t host) {
  if (hosts_[host]->daemon == Host::Daemon::kStopped) {
    hosts_[host]->daemon = Host::Daemon::kRunning;
  }
}

void Network::kill_client(lyre_context* context) {
  for (const auto& host : hosts_) {
    std::erase(host->contexts, context);
    std::erase_if(host->listeners,
                  [&](const auto& entry) { return entry.second.context == context; });
  }
  for (const auto& connection : connections_) {
    for (End& end : connection->ends) {
      if (end.context == context && knows(end)) leave(end);
    }
  }
}

// A daemon closes what a dead client had, unread bytes or not, and drops what is not acknowledged
// after a second.
void Network::leave(End& end) {
  end.readable.clear();
  end.readable_bytes = end.held_bytes = 0;
  close(end);
  events_.after(kSecond, [this, own = &end] {
    if (knows(*own) && own->state == End::State::kOpen && own->acked < own->queued) abort(*own);
  });
}

void Network::reset(Connection& connection) {
  for (End& end : connection.ends) {
    if (knows(end) && end.state != End::State::kEnded) end_side(end, LYRE_E_RESET);
  }
}

void Network::blackhole(Connection& connection, int64_t until_ns) {
  connection.blackholed_until_ns = until_ns;
}

std::vector<Connection*> Network::established() {
  std::vector<Connection*> found;
  for (const auto& connection : connections_) {
    const bool is_open =
        std::all_of(std::begin(connection->ends), std::end(connection->ends),
                    [&](const End& end) { return knows(end) && end.state == End::State::kOpen; });
    if (is_open && connection->ends[0].host != connection->ends[1].host) {
      found.push_back(connection.get());
    }
  }
  return found;
}

uint64_t Network::open_ends() const {
  uint64_t count = 0;
  for (const auto& connection : connections_) {
    for (const End& end : connection->ends) {
      if (knows(end) && end.state == End::State::kOpen) ++count;
    }
  }
  return count;
}

bool Network::knows(const End& end) const {
  return end.state != End::State::kNone && end.boot == end.host->boot &&
         end.host->daemon != Host::Daemon::kDead;
}

// ---- Packets ----

bool Network::is_open(const End& from) const {
  const End& to = other(from);
  if (to.host->daemon != Host::Daemon::kRunning) return false;
  if (from.host == to.host) return true;
  if (!from.host->rails[from.rail].is_up || !to.host->rails[to.rail].is_up) return false;
  if (!settings_.is_routed && from.rail != to.rail) return false;
  if (from.connection->blackholed_until_ns > events_.now_ns()) return false;
  const auto cut = cut_until_ns_.find(key(from.host->index, from.rail, to.host->index, to.rail));
  return cut == cut_until_ns_.end() || cut->second <= events_.now_ns();
}

bool Network::is_queue_full(const End& from) {
  const End& to = other(from);
  const RailPairKey path = key(from.host->index, from.rail, to.host->index, to.rail);
  const int64_t wait_ns = free_ns_[path] - events_.now_ns();
  const double queued = static_cast<double>(wait_ns) * 1e-9 * double(settings_.bytes_per_s);
  return settings_.queue_bytes > 0 && queued > static_cast<double>(settings_.queue_bytes);
}

int64_t Network::arrival_ns(End& from, size_t bytes) {
  const End& to = other(from);
  const RailPairKey path = key(from.host->index, from.rail, to.host->index, to.rail);
  auto [delay, is_new] = delay_ns_.try_emplace(path, settings_.delay_ns);
  if (is_new) delay->second *= static_cast<int64_t>(1 + rng_.below(4));
  const double wire_ns =
      static_cast<double>(bytes + 60) * 1e9 / static_cast<double>(settings_.bytes_per_s);
  int64_t& free_ns = free_ns_[path];
  free_ns = std::max(free_ns, events_.now_ns()) + static_cast<int64_t>(wire_ns);
  int64_t& last_ns = from.connection->arrival_ns[from.side];
  last_ns = std::max(free_ns + delay->second, last_ns) +
            static_cast<int64_t>(wire_ns * (from.connection->slowness - 1));
  return last_ns;
}

void Network::transmit(End& from, Packet packet) {
  ++packets_;
  packet.ack = from.received;
  packet.window_end = from.advertised = window_end(from);
  if (from.host->daemon != Host::Daemon::kRunning || !is_open(from)) return;
  if (rng_.chance_ppm(settings_.loss_ppm) || is_queue_full(from)) return;
  const int64_t at_ns = arrival_ns(from, packet.bytes.size());
  End* to = &other(from);
  // What a daemon sent before it ended arrives all the same.
  events_.at(at_ns, [this, to, packet = std::move(packet)]() mutable {
    if (is_open(other(*to))) deliver(*to, std::move(packet));
  });
}

void Network::deliver(End& to, Packet packet) {
  using Kind = Packet::Kind;
  if (packet.kind == Kind::kSyn) return on_syn(to);
  if (!knows(to)) {
    if (packet.kind != Kind::kReset) send_reset(to);
    return;
  }
  if (to.state == End::State::kEnded) {
    // TIME-WAIT answers; who was reset or aborted resets.
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

void Network::on_syn(End& to) {
  if (knows(to)) {
    if (to.state == End::State::kEnded) return send_reset(to);
    if (to.state == End::State::kOpen) return send_ack(to);
  } else {
    if (!to.host->listeners.contains(to.local.port)) return send_reset(to);
    to.state = End::State::kOpening;
    to.boot = to.host->boot;
    to.rto_ns = to.rtt.rto.value;
    to.user_timeout_ns = settings_.user_timeout_ns;
    begin_timing(to, 0);
  }
  transmit(to, {.kind = Packet::Kind::kSynAck});
}

void Network::on_syn_ack(End& to, const Packet& packet) {
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

void Network::establish(End& to) {
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

void Network::on_data(End& to, Packet packet) {
  const uint64_t end = packet.from + packet.bytes.size();
  if (to.is_client_gone() && end > to.received) {
    // Nobody is there to read it (RFC 9293 3.6.1).
    send_reset(to);
    return end_side(to, LYRE_E_RESET);
  }
  if (packet.from <= to.received) take(to, packet);
  if (to.state == End::State::kOpen) send_ack(to);
  finish_if_over(to);
}

void Network::take(End& to, const Packet& packet) {
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

void Network::on_ack(End& to, const Packet& packet) {
  to.window_end = std::max(to.window_end, packet.window_end);
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

void Network::finish_pieces(End& end) {
  bool is_any_done = false;
  while (!end.pieces.empty() && end.pieces.front().from + end.pieces.front().bytes <= end.acked) {
    const Piece piece = end.pieces.front();
    end.pieces.pop_front();
    if (piece.block != nullptr && end.context != nullptr) on_block_free(end.context, piece.block);
    is_any_done = true;
  }
  if (is_any_done && end.session != nullptr) on_session_ready(end.session);
}

std::vector<uint8_t> Network::read(const End& end, uint64_t from, uint64_t bytes) const {
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

void Network::push(End& end) {
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

void Network::send_segment(End& end) {
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

void Network::send_syn(End& end) {
  if (++end.syn_count == 1) begin_timing(end, 0);
  transmit(end, {.kind = Packet::Kind::kSyn});
  arm(end);
}

void Network::send_ack(End& end) { transmit(end, {.kind = Packet::Kind::kAck}); }
void Network::send_reset(End& end) { transmit(end, {.kind = Packet::Kind::kReset}); }

uint64_t Network::window_end(const End& end) const {
  const uint64_t used = end.readable_bytes + end.held_bytes;
  return end.received + settings_.pool_bytes - std::min<uint64_t>(used, settings_.pool_bytes);
}

// ---- Timers ----

void Network::begin_timing(End& end, uint64_t until) {
  end.timed_ns = events_.now_ns();
  end.timed_end = until;
}

// RFC 6298 3: what was sent twice measures nothing, and leaves the back-off as it is.
void Network::take_sample(End& end) {
  if (end.timed_ns == 0) return;
  const Nanos round_trip = nanos(events_.now_ns() - std::exchange(end.timed_ns, 0));
  end.rtt.on_sample(round_trip, nanos(events_.now_ns()), nanos(kRtoMinNs), nanos(kRtoMaxNs));
  end.rto_ns = end.rtt.rto.value;
}

void Network::arm(End& end) {
  const int64_t now_ns = events_.now_ns();
  end.timer_ns = now_ns + end.rto_ns;
  if (end.unanswered_ns != 0) {
    end.timer_ns = std::min(end.timer_ns, end.unanswered_ns + end.user_timeout_ns);
  }
  end.timer_ns = std::max(end.timer_ns, now_ns + 1);
  expect_timer(end, end.timer_ns);
}

void Network::expect_timer(End& end, int64_t at_ns) {
  if (end.timer_event_ns != 0 && end.timer_event_ns <= at_ns) return;
  end.timer_event_ns = at_ns;
  events_.at(at_ns, [this, own = &end, at_ns] {
    if (own->timer_event_ns == at_ns) on_timer(*own);
  });
}

void Network::on_timer(End& end) {
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

void Network::retransmit(End& end) {
  end.sent = end.acked;
  if (end.window_end <= end.acked && end.acked < end.queued) {
    transmit(end, {.kind = Packet::Kind::kProbe});
  } else {
    push(end);
  }
  arm(end);
}

void Network::set_keepalive(End& end) {
  if (end.keepalive_ns == 0 || end.is_keepalive_armed) return;
  end.is_keepalive_armed = true;
  end.probes_unanswered = 0;
  events_.after(end.keepalive_ns, [this, own = &end] { probe(*own); });
}

void Network::probe(End& end) {
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

Rail* Network::find_rail(const lyre_addr& address, size_t* host, size_t* rail) {
  for (const auto& each : hosts_) {
    for (size_t r = 0; r < each->rails.size(); ++r) {
      if (!is_same_address(each->rails[r].address, address)) continue;
      *host = each->index;
      *rail = r;
      return &each->rails[r];
    }
  }
  return nullptr;
}

End* Network::connect(lyre_context* context, const lyre_addr* local, const lyre_addr& remote) {
  size_t own_host = 0;
  size_t own_rail = 0;
  size_t peer_host = 0;
  size_t peer_rail = 0;
  if (find_rail(*local, &own_host, &own_rail) == nullptr) return nullptr;
  if (find_rail(remote, &peer_host, &peer_rail) == nullptr) return nullptr;
  connections_.push_back(std::make_unique<Connection>());
  Connection& connection = *connections_.back();
  connection.number = connections_.size();
  for (int side = 0; side < 2; ++side) {
    connection.ends[side].connection = &connection;
    connection.ends[side].side = side;
  }
  End& own = connection.ends[0];
  End& peer = connection.ends[1];
  own.host = hosts_[own_host].get();
  own.rail = own_rail;
  own.local = *local;
  own.local.port = own.host->next_port++;
  own.remote = remote;
  own.boot = own.host->boot;
  own.context = context;
  own.state = End::State::kOpening;
  own.rto_ns = own.rtt.rto.value;
  own.user_timeout_ns = settings_.user_timeout_ns;
  own.unanswered_ns = events_.now_ns();
  peer.host = hosts_[peer_host].get();
  peer.rail = peer_rail;
  peer.local = remote;
  peer.remote = own.local;
  send_syn(own);
  return &own;
}

uint16_t Network::listen(lyre_context* context, lyre_listener* handle, uint16_t port) {
  size_t index = 0;
  for (const auto& host : hosts_) {
    const auto& contexts = host->contexts;
    if (std::find(contexts.begin(), contexts.end(), context) != contexts.end()) index = host->index;
  }
  Host& host = *hosts_[index];
  if (port == 0) port = host.next_port++;
  if (host.listeners.contains(port)) return 0;
  host.listeners[port] = {handle, context};
  return port;
}

void Network::close_listener(Host& host, lyre_listener* handle) {
  std::erase_if(host.listeners, [&](const auto& entry) { return entry.second.handle == handle; });
}

void Network::on_released(End& end) {
  if (!knows(end) || end.state != End::State::kOpen) return;
  if (window_end(end) - end.advertised >= settings_.pool_bytes / 4) send_ack(end);
}

void Network::close(End& end) {
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

void Network::abort(End& end) {
  end.session = nullptr;
  if (!knows(end) || end.state == End::State::kEnded) return;
  send_reset(end);
  end_side(end, LYRE_E_ABORTED);
}

void Network::end_side(End& end, int error) {
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

void Network::finish_if_over(End& end) {
  if (end.state != End::State::kOpen || !end.is_fin_received || !end.is_fin_queued) return;
  if (end.acked == end.to_send()) end_side(end, 0);
}

}  // namespace lyre::adapter_sim
