#include "tests/unit/stack/tcp/peer.h"

#include "stack/base/check.h"

namespace lyre::tcp {

namespace {

constexpr SipKey kKey{.k0 = 1, .k1 = 2};

FourTuple tuple() {
  return {.local = {.address = IpAddress::v4(0x0a000001), .port = 1000},
          .remote = {.address = IpAddress::v4(0x0a000002), .port = 2000}};
}

}  // namespace

ConnectionConfig Peer::plain_config() {
  ConnectionConfig config;
  config.mss_bytes = 1000;
  config.slot_bytes = 1000;
  config.receive_buffer_bytes = 60000;
  config.timestamps = false;
  config.window_scaling = false;
  return config;
}

Peer::Peer(const ConnectionConfig& wanted, const EngineConfig& engine_config)
    : config(wanted), engine(engine_config, kKey, 7) {
  syn_options.mss = 1000;
  syn_options.sack_permitted = true;
  syn_options.window_scale = 0;
}

SegmentOut Peer::dial_only() {
  conn = engine.open_active(tuple(), config, now);
  LYRE_CHECK(conn != kNoConn);
  if (known_mtu_bytes > 0) engine.assume_path_mtu(conn, known_mtu_bytes, now);
  const auto syn = next();
  LYRE_CHECK(syn.has_value());
  our_iss = syn->seq;
  return *syn;
}

void Peer::answer_syn() {
  SegmentIn answer = make(kSA, 0, 0);
  answer.seq = their_iss;
  answer.options = syn_options;
  send(answer);
}

void Peer::dial_with_lost_syn() {
  dial_only();
  run_deadline();
  next();
  answer_syn();
}

void Peer::dial(uint16_t first_window) {
  window = first_window;
  dial_only();
  now += handshake_rtt;
  answer_syn();
  LYRE_CHECK(state() == State::kEstablished);
  all();
}

void Peer::accept(uint16_t first_window) {
  window = first_window;
  SegmentIn syn = make(kS, 0, 0);
  syn.seq = their_iss;
  syn.options = syn_options;
  conn = engine.open_passive(tuple(), config, syn, now);
  LYRE_CHECK(conn != kNoConn);
  if (known_mtu_bytes > 0) engine.assume_path_mtu(conn, known_mtu_bytes, now);
  const auto answer = next();
  LYRE_CHECK(answer.has_value());
  our_iss = answer->seq;
  now += handshake_rtt;
  ack(0);
  LYRE_CHECK(state() == State::kEstablished);
  all();
}

void Peer::open_with_path_mtu(uint32_t mtu_bytes, bool is_dialed) {
  known_mtu_bytes = mtu_bytes;
  is_dialed ? dial() : accept();
}

SegmentIn Peer::make(uint8_t flags, uint32_t seq_at, uint32_t ack_position,
                     uint32_t payload_bytes) const {
  SegmentIn segment;
  segment.seq = them(seq_at);
  segment.flags.bits = flags;
  if (segment.flags.has(wire::TcpFlags::kAck)) segment.ack = us(ack_position);
  segment.window = window;
  segment.payload_bytes = payload_bytes;
  if (payload_bytes > 0) segment.flags.set(wire::TcpFlags::kPsh);  // each text is a write
  segment.charge_bytes = payload_bytes > 0 ? config.slot_bytes : 0;
  return segment;
}

const Effects& Peer::checked() {
  engine.check_invariants(conn);
  return effects;
}

const Effects& Peer::send(const SegmentIn& segment) {
  SegmentIn stamped = segment;
  stamped.rx_time = now;
  if (stamped.payload_bytes > 0 && stamped.payload.is_none()) stamped.payload.slot = next_slot_++;
  effects = engine.on_segment(conn, stamped, now);
  return checked();
}

const Effects& Peer::ack_with_sack(uint32_t ack_position,
                                   std::vector<std::pair<uint32_t, uint32_t>> blocks) {
  SegmentIn segment = make(kA, sent_, ack_position);
  for (const auto& [start, end] : blocks) {
    segment.options.sacks[segment.options.sack_count++] = {.start = us(start), .end = us(end)};
  }
  return send(segment);
}

const Effects& Peer::text(uint32_t seq_at, uint32_t payload_bytes) {
  send(make(kA, seq_at, 0, payload_bytes));
  return effects;
}

const Effects& Peer::app_send(uint32_t bytes) {
  effects = engine.on_app_send(conn, bytes, now);
  return checked();
}

const Effects& Peer::release(uint32_t charge_bytes) {
  effects = engine.on_app_release(conn, charge_bytes, now);
  return checked();
}

const Effects& Peer::shutdown() {
  effects = engine.on_app_shutdown(conn, now);
  return checked();
}

const Effects& Peer::close() {
  effects = engine.on_app_close(conn, now);
  return checked();
}

std::optional<SegmentOut> Peer::next(uint32_t payload_bytes_max) {
  auto segment = engine.poll_transmit(conn, payload_bytes_max, now);
  engine.check_invariants(conn);
  return segment;
}

std::vector<SegmentOut> Peer::all(uint32_t payload_bytes_max) {
  std::vector<SegmentOut> out;
  while (auto segment = next(payload_bytes_max)) {
    LYRE_CHECK(out.size() < 10000);
    out.push_back(*segment);
  }
  return out;
}

const Effects& Peer::run_deadline() {
  const Nanos due = engine.next_deadline(conn);
  LYRE_CHECK(due != kNever);
  now = later(now, due);
  effects = engine.on_timer(conn, now);
  return checked();
}

void Peer::wait(Nanos span) {
  const Nanos until = now + span;
  effects = {};
  while (engine.next_deadline(conn) <= until && state() != State::kClosed) {
    now = later(now, engine.next_deadline(conn));
    effects = engine.on_timer(conn, now);
    engine.check_invariants(conn);
  }
  now = until;
}

}  // namespace lyre::tcp
