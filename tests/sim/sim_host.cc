#include "tests/sim/sim_host.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "stack/base/check.h"

namespace lyre::sim {

using tcp::ConnId;
using tcp::Effects;
using tcp::kNoConn;
using tcp::SegmentOut;

namespace {

constexpr SipKey kIsnKey{.k0 = 0x0706050403020100u, .k1 = 0x0f0e0d0c0b0a0908u};
constexpr uint32_t kSegmentsAStepMax = 256;

}  // namespace

uint8_t pattern_byte(uint64_t seed, uint64_t at) {
  uint64_t x = (at >> 3) * 0x9e3779b97f4a7c15u + seed;
  x ^= x >> 29;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 32;
  return static_cast<uint8_t>(x >> (8 * (at & 7)));
}

SimHost::SimHost(const HostConfig& config, IpAddress address, uint64_t seed, uint64_t name)
    : config_(config),
      address_(address),
      seed_(seed),
      name_(name),
      engine_(std::make_unique<tcp::Engine>(config.engine, kIsnKey, seed)) {}

void SimHost::connect(const Endpoint& remote, uint16_t local_port, uint64_t stream_seed,
                      Nanos now) {
  const FourTuple tuple{.local = {.address = address_, .port = local_port}, .remote = remote};
  const ConnId conn = engine_->open_active(tuple, config_.connection, now);
  LYRE_CHECK(conn != kNoConn);
  add_app(conn, tuple, stream_seed, name_ == 0);
}

uint32_t SimHost::add_app(ConnId conn, const FourTuple& tuple, uint64_t stream_seed,
                          bool is_first) {
  const auto index = static_cast<uint32_t>(apps_.size());
  App app;
  app.plan = config_.app;
  app.send_seed = stream_seed + (is_first ? 1 : 2);
  app.receive_seed = stream_seed + (is_first ? 2 : 1);
  apps_.push_back(app);
  app_of_[conn] = index;
  table_[tuple] = conn;
  return index;
}

ConnId SimHost::find(const FourTuple& tuple) const {
  const auto found = table_.find(tuple);
  return found == table_.end() ? kNoConn : found->second;
}

uint32_t SimHost::hold_bytes(std::vector<uint8_t> bytes) {
  if (store_free_.empty()) {
    store_.push_back(std::move(bytes));
    return static_cast<uint32_t>(store_.size() - 1);
  }
  const uint32_t slot = store_free_.back();
  store_free_.pop_back();
  store_[slot] = std::move(bytes);
  return slot;
}

uint32_t SimHost::held_payload_count() const {
  return static_cast<uint32_t>(store_.size() - store_free_.size());
}

void SimHost::on_packet(Packet packet, Nanos now, SimLink& out) {
  const FourTuple tuple = packet.at_receiver;
  ConnId conn = find(tuple);
  const wire::TcpFlags flags = packet.segment.flags;
  const bool is_first_syn = flags.has(wire::TcpFlags::kSyn) && !flags.has(wire::TcpFlags::kAck) &&
                            !flags.has(wire::TcpFlags::kRst);
  if (conn == kNoConn && config_.listens && is_first_syn) {
    conn = engine_->open_passive(tuple, config_.connection, packet.segment, now);
    if (conn == kNoConn) return;
    // Both ends derive the stream's seed from the dialer's port.
    add_app(conn, tuple, uint64_t{tuple.remote.port} << 8, name_ == 0);
    return transmit(conn, now, out);
  }
  if (conn == kNoConn) return refuse(packet, now, out);
  tcp::SegmentIn segment = packet.segment;
  segment.rx_time = now;
  if (!packet.bytes.empty()) {
    segment.payload_bytes = static_cast<uint32_t>(packet.bytes.size());
    segment.charge_bytes = config_.charge_bytes;
    segment.payload.slot = hold_bytes(std::move(packet.bytes));
  }
  const Effects effects = engine_->on_segment(conn, segment, now);
  if (!effects.payload_kept && !segment.payload.is_none())
    store_free_.push_back(segment.payload.slot);
  apply(conn, effects, now);
  step_app(conn, now);
  transmit(conn, now, out);
}

void SimHost::refuse(const Packet& packet, Nanos now, SimLink& out) {
  tcp::SegmentIn segment = packet.segment;
  segment.payload_bytes = static_cast<uint32_t>(packet.bytes.size());
  if (const auto reset = tcp::reset_for(segment))
    send_piece(packet.at_receiver, *reset, {}, now, out);
}

void SimHost::apply(ConnId conn, const Effects& effects, Nanos now) {
  while (const auto handle = engine_->receive_queue(conn).take_superseded())
    store_free_.push_back(handle->slot);
  App& app = apps_[app_of_.at(conn)];
  app.acked_bytes += effects.acked_bytes;
  if (effects.acked_bytes > 0 && app.acked_bytes == app.plan.send_bytes) app.all_acked_at = now;
  app.is_established = app.is_established || effects.became_established;
  app.has_peer_finished = app.has_peer_finished || effects.peer_finished;
  if (effects.is_over) {
    app.is_over = true;
    app.reason = effects.reason;
    trace(static_cast<uint64_t>(effects.reason));
  }
}

void SimHost::step_app(ConnId conn, Nanos now) {
  App& app = apps_[app_of_.at(conn)];
  read(conn, app, now);
  if (app.is_over) return;
  write(conn, app, now);
  end(conn, app, now);
}

void SimHost::read(ConnId conn, App& app, Nanos now) {
  if (now < app.read_at) return;
  uint32_t budget = app.plan.read_bytes_a_step;
  while (budget > 0) {
    const auto slice = engine_->receive_queue(conn).take_readable();
    if (!slice) break;
    const std::vector<uint8_t>& bytes = store_[slice->handle.slot];
    LYRE_CHECK(slice->offset + slice->length <= bytes.size() && slice->length > 0);
    for (uint32_t i = 0; i < slice->length; ++i) {
      if (bytes[slice->offset + i] != pattern_byte(app.receive_seed, app.read_bytes + i)) {
        return fail("wrong byte at " + std::to_string(app.read_bytes + i));
      }
    }
    app.read_bytes += slice->length;
    budget -= std::min(budget, slice->length);
    store_free_.push_back(slice->handle.slot);
    const Effects effects = engine_->on_app_release(conn, config_.charge_bytes, now);
    apply(conn, effects, now);
  }
  app.read_at = app.plan.read_pause.value > 0 ? now + app.plan.read_pause : nanos(0);
}

void SimHost::write(ConnId conn, App& app, Nanos now) {
  while (app.appended_bytes < app.plan.send_bytes && now >= app.append_at) {
    const uint64_t left = app.plan.send_bytes - app.appended_bytes;
    const uint32_t room = engine_->send_room_bytes(conn);
    const auto bytes =
        static_cast<uint32_t>(std::min<uint64_t>({left, app.plan.chunk_bytes, room}));
    if (bytes == 0) return;
    const Effects effects = engine_->on_app_send(conn, bytes, now);
    apply(conn, effects, now);
    app.appended_bytes += bytes;
    if (app.plan.chunk_pause.value > 0) app.append_at = now + app.plan.chunk_pause;
  }
}

void SimHost::end(ConnId conn, App& app, Nanos now) {
  if (app.has_ended || app.plan.ending == Ending::kNever || !app.is_established) return;
  if (app.appended_bytes < app.plan.send_bytes) return;
  const bool waits =
      app.plan.ending == Ending::kShutdownWhenHeard || app.plan.ending == Ending::kCloseWhenHeard;
  if (waits && !app.has_peer_finished) return;
  app.has_ended = true;
  Effects effects;
  if (app.plan.ending == Ending::kAbortWhenSent) {
    const auto reset = engine_->on_app_abort(conn, now);
    effects.is_over = true;
    effects.reason = tcp::EndReason::kAborted;
    if (reset) trace(reset->seq.raw());
  } else if (app.plan.ending == Ending::kCloseWhenHeard) {
    effects = engine_->on_app_close(conn, now);
  } else {
    effects = engine_->on_app_shutdown(conn, now);
  }
  apply(conn, effects, now);
}

void SimHost::transmit(ConnId conn, Nanos now, SimLink& out) {
  for (uint32_t i = 0; i < kSegmentsAStepMax; ++i) {
    const auto segment = engine_->poll_transmit(conn, config_.tso_bytes, now);
    if (!segment) break;
    check_window(conn, *segment);
    emit(conn, *segment, now, out);
  }
  engine_->check_invariants(conn);
  const App& app = apps_[app_of_.at(conn)];
  // After an orderly end a slow reader can still read what had arrived.
  const bool reads_on = app.reason == tcp::EndReason::kClosed && app.plan.read_pause.value > 0 &&
                        app.read_bytes < engine_->info(conn).bytes_received;
  if (app.is_over && !reads_on) bury(conn);
}

/// RFC 9293 3.8.6, RFC 7323 2.4: the right edge of the window never moves left. A window of zero
/// takes nothing back: it says that text in the window found no room (field_for_edge()), and the
/// edge is told again later.
void SimHost::check_window(ConnId conn, const SegmentOut& segment) {
  App& app = apps_[app_of_.at(conn)];
  const bool is_syn = segment.flags.has(wire::TcpFlags::kSyn);
  if (is_syn) app.offered_scale = segment.options.window_scale.value_or(0);
  const bool tells_window =
      segment.flags.has(wire::TcpFlags::kAck) && !segment.flags.has(wire::TcpFlags::kRst);
  if (!tells_window || segment.window == 0) return;
  // RFC 7323 2.2: in a SYN the window is never scaled.
  const bool is_scaled = !is_syn && engine_->info(conn).has_scaling;
  const SeqNum edge =
      segment.ack + (uint32_t{segment.window} << (is_scaled ? app.offered_scale : 0));
  if (app.told_window_edge && edge.before(*app.told_window_edge)) {
    fail("the window shrank by " + std::to_string(app.told_window_edge->since(edge)));
  }
  app.told_window_edge = edge;
}

/// Does what a NIC with segmentation offload does: splits one segment into several packets.
void SimHost::emit(ConnId conn, const SegmentOut& segment, Nanos now, SimLink& out) {
  const App& app = apps_[app_of_.at(conn)];
  LYRE_CHECK(segment.payload_bytes <= std::max<uint32_t>(config_.tso_bytes, segment.mss_bytes));
  const uint64_t stream_at = app.acked_bytes + segment.queue_offset;
  LYRE_CHECK(stream_at + segment.payload_bytes <= app.appended_bytes);
  uint32_t done = 0;
  do {
    const uint32_t length =
        std::min<uint32_t>(segment.payload_bytes - done, std::max<uint32_t>(segment.mss_bytes, 1));
    SegmentOut piece = segment;
    piece.seq = segment.seq + done;
    piece.payload_bytes = length;
    if (done > 0) piece.flags.bits &= static_cast<uint8_t>(~wire::TcpFlags::kCwr);
    if (done + length < segment.payload_bytes) {
      piece.flags.bits &= static_cast<uint8_t>(~(wire::TcpFlags::kFin | wire::TcpFlags::kPsh));
    }
    std::vector<uint8_t> bytes(length);
    for (uint32_t i = 0; i < length; ++i) {
      bytes[i] = pattern_byte(app.send_seed, stream_at + done + i);
    }
    send_piece(engine_->tuple(conn), piece, std::move(bytes), now, out);
    done += length;
  } while (done < segment.payload_bytes);
}

void SimHost::send_piece(const FourTuple& tuple, const SegmentOut& piece,
                         std::vector<uint8_t> bytes, Nanos now, SimLink& out) {
  Packet packet;
  packet.at_receiver = {.local = tuple.remote, .remote = tuple.local};
  packet.segment.seq = piece.seq;
  packet.segment.ack = piece.ack;
  packet.segment.flags = piece.flags;
  packet.segment.window = piece.window;
  packet.segment.options = piece.options;
  packet.segment.ecn = piece.ecn;
  packet.bytes = std::move(bytes);
  trace(static_cast<uint64_t>(now.value));
  trace((uint64_t{piece.seq.raw()} << 32) | piece.ack.raw());
  trace((static_cast<uint64_t>(piece.ecn) << 62) | (uint64_t{piece.flags.bits} << 32) |
        (uint64_t{piece.window} << 40) | packet.bytes.size());
  if (config_.prints_packets) print(packet, now);
  out.send(std::move(packet), now);
}

void SimHost::run(Nanos now, SimLink& out) {
  std::vector<ConnId> conns;
  for (const auto& [conn, index] : app_of_) conns.push_back(conn);
  for (const ConnId conn : conns) {
    Effects effects;
    if (engine_->next_deadline(conn) <= now) effects = engine_->on_timer(conn, now);
    apply(conn, effects, now);
    step_app(conn, now);
    transmit(conn, now, out);
  }
}

Nanos SimHost::next_deadline() const {
  Nanos first = kNever;
  for (const auto& [conn, index] : app_of_) {
    first = earlier(first, engine_->next_deadline(conn));
    const App& app = apps_[index];
    const bool reads_later = app.plan.read_pause.value > 0 && !app.has_peer_finished;
    const bool has_unread =
        app.plan.read_pause.value > 0 && engine_->info(conn).receive_charged_bytes > 0;
    if (reads_later || has_unread) first = earlier(first, app.read_at);
    const bool writes_later =
        app.appended_bytes < app.plan.send_bytes && engine_->send_room_bytes(conn) > 0;
    if (writes_later && app.plan.chunk_pause.value > 0) first = earlier(first, app.append_at);
  }
  return first;
}

void SimHost::bury(ConnId conn) {
  App& app = apps_[app_of_.at(conn)];
  app.last_info = engine_->info(conn);
  while (const auto handle = engine_->receive_queue(conn).take_any())
    store_free_.push_back(handle->slot);
  table_.erase(engine_->tuple(conn));
  app_of_.erase(conn);
  engine_->release(conn);
}

void SimHost::replace_engine() {
  auto fresh = std::make_unique<tcp::Engine>(config_.engine, kIsnKey, seed_ + 1);
  fresh->copy_from(*engine_);
  engine_ = std::move(fresh);
}

void SimHost::check() const {
  for (const auto& [conn, index] : app_of_) engine_->check_invariants(conn);
}

bool SimHost::is_done() const { return app_of_.empty() && !apps_.empty(); }

void SimHost::fail(std::string text) {
  if (failure_.empty()) failure_ = std::move(text);
}

void SimHost::print(const Packet& packet, Nanos now) const {
  static constexpr char kLetters[] = "FSRPAUEC";
  const tcp::SegmentIn& segment = packet.segment;
  std::string flags;
  for (unsigned i = 0; i < 8; ++i) {
    if (segment.flags.has(static_cast<uint8_t>(1u << i))) flags += kLetters[i];
  }
  std::printf("%14.6f %s port %u %-4s seq %u +%zu ack %u win %u",
              static_cast<double>(now.value) * 1e-9, name_ == 0 ? "->" : "  <-",
              name_ == 0 ? packet.at_receiver.remote.port : packet.at_receiver.local.port,
              flags.c_str(), segment.seq.raw(), packet.bytes.size(), segment.ack.raw(),
              segment.window);
  for (unsigned i = 0; i < segment.options.sack_count; ++i) {
    std::printf(" sack %u-%u", segment.options.sacks[i].start.raw(),
                segment.options.sacks[i].end.raw());
  }
  std::printf("\n");
}

void SimHost::trace(uint64_t value) { trace_hash_ = (trace_hash_ ^ value) * 0x100000001b3u; }

}  // namespace lyre::sim
