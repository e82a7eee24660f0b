#include <algorithm>

#include "tests/fuzz/script.h"

namespace lyre::fuzz {
namespace {

using tcp::Effects;
using tcp::SegmentIn;
using tcp::SegmentOut;
using wire::TcpFlags;

constexpr SipKey kKey{.k0 = 11, .k1 = 12};
constexpr int kTimersToTheEndMax = 20'000;
constexpr uint32_t kQueuedBytesMax = 1u << 28;

constexpr FourTuple kTuple4{.local = {.address = IpAddress::v4(0x0a000001), .port = 1000},
                            .remote = {.address = IpAddress::v4(0x0a000002), .port = 2000}};
constexpr FourTuple kTuple6{.local = {.address = {{0xfd, 1}}, .port = 1000},
                            .remote = {.address = {{0xfd, 2}}, .port = 2000}};

/// An engine with one connection at a time, and the model of it that the checks use.
class SegmentRun {
 public:
  explicit SegmentRun(std::span<const uint8_t> bytes)
      : script_(bytes),
        config_(read_config(script_)),
        engine_({.connections_max = 2,
                 .sent_records_max = 4u + script_.u8() % 64,
                 .received_runs_max = 4u + script_.u8() % 64},
                kKey, 7) {}

  void run() {
    while (!script_.is_over()) {
      if (conn_ == tcp::kNoConn) open();
      if (conn_ != tcp::kNoConn) step();
      check();
    }
    if (conn_ != tcp::kNoConn) end();
    LYRE_CHECK(engine_.connection_count() == 0);
  }

 private:
  void open() {
    ledger_ = {};
    has_shut_ = false;
    queued_ = acked_ = 0;
    our_next_ = our_una_ = SeqNum(0);
    read_next_.reset();
    const uint8_t how = script_.u8();
    tuple_ = how / 3 % 2 == 0 ? kTuple4 : kTuple6;
    switch (how % 3) {
      case 0:
        conn_ = engine_.open_active(tuple_, config_, now_);
        their_next_ = SeqNum(script_.u32());
        break;
      case 1:
        open_passive(read_syn(), std::nullopt);
        break;
      default:
        open_by_cookie();
        return;
    }
    LYRE_CHECK(conn_ != tcp::kNoConn);
    transmit(0);
  }

  SegmentIn read_syn() {
    SegmentIn syn = read_segment();
    syn.flags.bits = TcpFlags::kSyn;
    syn.payload_bytes = 0;
    their_next_ = syn.seq + 1;
    return syn;
  }

  void open_passive(const SegmentIn& syn, std::optional<SeqNum> iss_after) {
    conn_ = engine_.open_passive(tuple_, config_, syn, now_, iss_after);
    LYRE_CHECK(conn_ != tcp::kNoConn);
  }

  /// A listener without room: only the ACK of a cookie that it sent may open a connection.
  void open_by_cookie() {
    const SegmentOut answer = engine_.answer_with_cookie(tuple_, config_, read_syn(), now_);
    LYRE_CHECK(engine_.connection_count() == 0);
    our_next_ = our_una_ = answer.seq + 1;
    if (answer.options.has_timestamps) last_ts_ = answer.options.ts_value;
    now_ += script_.span();
    SegmentIn ack = read_segment();
    ack.flags.bits |= TcpFlags::kAck;
    offer(ack);
    const auto opened = engine_.open_by_cookie(tuple_, config_, ack, now_);
    conn_ = opened.conn;
    effects_ = opened.effects;
    if (ack.payload_bytes > 0 && !effects_.payload_kept) ledger_.refuse(ack.payload.slot);
    if (conn_ != tcp::kNoConn) apply();
  }

  void step() {
    switch (script_.u8() % 16) {
      case 8:
        return pass(script_.span());
      case 9:
        return send(1 + (uint32_t{script_.u16()} << (script_.u8() % 5)));
      case 10:
        return read();
      case 11:
        return release();
      case 12:
        return shut(script_.u8());
      case 13:
        return transmit(script_.u16());
      case 14:
        return icmp();
      case 15:
        return (script_.u8() & 1) == 0 ? configure()
                                       : call([&] { return engine_.on_timer(conn_, now_); });
      default:
        return arrive(read_segment());
    }
  }

  /// The segment that a correct peer would send next, changed as the script says.
  SegmentIn read_segment() {
    SegmentIn segment;
    segment.flags.bits = script_.u8();
    const uint8_t fields = script_.u8();
    const uint8_t options = script_.u8();
    segment.seq = their_next_;
    segment.ack = our_next_;
    if (fields & 0x01) segment.seq += static_cast<uint32_t>(int32_t{script_.i16()});
    if (fields & 0x02) segment.seq += script_.u32();
    if (fields & 0x04) segment.ack = our_una_;
    if (fields & 0x08) segment.ack += static_cast<uint32_t>(int32_t{script_.i16()});
    if (fields & 0x10) segment.ack += script_.u32();
    segment.window = fields & 0x20 ? script_.u16() : uint16_t{60'000};
    segment.payload_bytes = fields & 0x40 ? script_.u16() % 9000u : 0;
    segment.ecn = fields & 0x80 ? wire::Ecn::kCe : wire::Ecn::kEct0;
    read_options(segment.options, options);
    segment.rx_time = now_;
    return segment;
  }

  void read_options(wire::TcpOptions& out, uint8_t which) {
    if (which & 0x01) out.mss = script_.u16();
    if (which & 0x02) out.window_scale = static_cast<uint8_t>(script_.u8() % 15);
    out.sack_permitted = (which & 0x04) != 0;
    out.has_timestamps = (which & 0x08) != 0;
    if (out.has_timestamps) {
      out.ts_value = ts_next_ += which & 0x80 ? script_.u32() : 1;
      out.ts_echo = last_ts_ + (which & 0x80 ? script_.u32() : 0);
    }
    out.sack_count = static_cast<uint8_t>((which >> 4) % (wire::kSackBlocksMax + 1));
    for (uint32_t i = 0; i < out.sack_count; ++i) {
      out.sacks[i].start = our_una_ + static_cast<uint32_t>(int32_t{script_.i16()});
      out.sacks[i].end = out.sacks[i].start + static_cast<uint32_t>(int32_t{script_.i16()});
    }
  }

  void offer(SegmentIn& segment) {
    if (segment.payload_bytes == 0) return;
    const SeqNum first = segment.seq + (segment.flags.has(TcpFlags::kSyn) ? 1 : 0);
    segment.payload.slot = ledger_.offer(first, segment.payload_bytes);
    segment.charge_bytes = kChargeBytes;
  }

  void arrive(SegmentIn segment) {
    if (const auto iss_after = engine_.may_reuse(conn_, segment)) {
      return take_place_of_old(segment, *iss_after);
    }
    offer(segment);
    effects_ = engine_.on_segment(conn_, segment, now_);
    if (segment.payload_bytes > 0 && !effects_.payload_kept) ledger_.refuse(segment.payload.slot);
    LYRE_CHECK(!effects_.payload_kept || segment.payload_bytes > 0);
    apply();
  }

  /// RFC 6191: a new connection replaces one in TIME-WAIT.
  void take_place_of_old(SegmentIn syn, SeqNum iss_after) {
    LYRE_CHECK(engine_.state(conn_) == tcp::State::kTimeWait);
    (void)engine_.on_app_abort(conn_, now_);
    bury();
    ledger_ = {};
    has_shut_ = false;
    queued_ = acked_ = 0;
    read_next_.reset();
    syn.payload_bytes = 0;
    their_next_ = syn.seq + 1;
    open_passive(syn, iss_after);
    transmit(0);
  }

  template <typename Call>
  void call(Call what) {
    effects_ = what();
    LYRE_CHECK(!effects_.payload_kept);
    apply();
  }

  void apply() {
    acked_ += effects_.acked_bytes;
    LYRE_CHECK(acked_ <= queued_);
    our_una_ = our_una_ + effects_.acked_bytes;
    while (const auto handle = engine_.receive_queue(conn_).take_superseded())
      ledger_.refuse(handle->slot);
    if (effects_.is_over) return bury();
    if (effects_.wants_transmit) transmit(0);
  }

  void transmit(uint32_t payload_bytes_max) {
    for (int i = 0; i < kSegmentsAtOnceMax; ++i) {
      const auto out = engine_.poll_transmit(conn_, payload_bytes_max, now_);
      if (!out) return;
      LYRE_CHECK(uint64_t{out->queue_offset} + out->payload_bytes <= queued_ - acked_);
      LYRE_CHECK(out->payload_bytes <= std::max<uint32_t>(payload_bytes_max, out->mss_bytes));
      const bool is_first = out->flags.has(TcpFlags::kSyn);
      const uint32_t ends = (is_first ? 1 : 0) + (out->flags.has(TcpFlags::kFin) ? 1 : 0);
      const SeqNum end = out->seq + out->payload_bytes + ends;
      if (is_first) our_una_ = out->seq + 1;
      if (is_first || end.after(our_next_)) our_next_ = end;
      if (out->flags.has(TcpFlags::kAck)) their_next_ = out->ack;
      if (out->options.has_timestamps) last_ts_ = out->options.ts_value;
    }
  }

  void pass(Nanos span) {
    now_ += span;
    for (int i = 0; conn_ != tcp::kNoConn && engine_.next_deadline(conn_) <= now_; ++i) {
      LYRE_CHECK(i < kTimersAtOnceMax);  // a timer that is always due would block a worker
      call([&] { return engine_.on_timer(conn_, now_); });
    }
  }

  void send(uint32_t bytes) {
    if (has_shut_ || queued_ + bytes > kQueuedBytesMax) return;
    queued_ += bytes;
    const auto mark = script_.u8() & 1 ? tcp::SendMark::kMore : tcp::SendMark::kPush;
    call([&] { return engine_.on_app_send(conn_, bytes, now_, mark); });
  }

  void read() {
    while (const auto slice = engine_.receive_queue(conn_).take_readable()) {
      const SeqNum start = ledger_.read(*slice);
      LYRE_CHECK(!read_next_ || start == *read_next_);
      read_next_ = start + slice->length;
    }
  }

  void release() {
    if (ledger_.lent_count == 0) return;
    --ledger_.lent_count;
    call([&] { return engine_.on_app_release(conn_, kChargeBytes, now_); });
  }

  void shut(uint8_t how) {
    has_shut_ = true;
    if (how % 8 == 0) {
      (void)engine_.on_app_abort(conn_, now_);
      return bury();
    }
    call([&] {
      return how & 1 ? engine_.on_app_shutdown(conn_, now_) : engine_.on_app_close(conn_, now_);
    });
  }

  void configure() {
    tcp::ConnectionConfig wanted = read_config(script_);
    const uint8_t more = script_.u8();
    wanted.cork = more & 1;
    wanted.quick_ack = more & 2;
    wanted.user_timeout_ms = 1000 * (1u + more);
    call([&] { return engine_.configure(conn_, wanted, now_); });
  }

  void icmp() {
    const uint8_t what = script_.u8();
    const SeqNum quoted = our_next_ - static_cast<uint32_t>(script_.u16());
    const uint32_t mtu_bytes = what & 2 ? script_.u16() : 0;
    const auto verdict = what & 8 ? wire::IcmpVerdict::kRefused : wire::IcmpVerdict(what & 1);
    call([&] {
      return what & 4 ? engine_.on_host_unreachable(conn_, now_)
                      : engine_.on_icmp_error(conn_, quoted, verdict, mtu_bytes, now_);
    });
  }

  /// The connection is over: in-order payload can still be read, the rest is returned, and nothing
  /// is left.
  void bury() {
    transmit(0);
    read();
    while (const auto handle = engine_.receive_queue(conn_).take_any())
      ledger_.refuse(handle->slot);
    LYRE_CHECK(ledger_.kept_count() == 0);
    engine_.release(conn_);
    conn_ = tcp::kNoConn;
  }

  void check() {
    if (conn_ == tcp::kNoConn) return;
    engine_.check_invariants(conn_);
    const uint64_t charged = (ledger_.kept_count() + ledger_.lent_count) * uint64_t{kChargeBytes};
    LYRE_CHECK(engine_.charged_bytes(conn_) == charged);
  }

  /// The application closes and the peer is silent: the connection must end by itself.
  void end() {
    call([&] { return engine_.on_app_close(conn_, now_); });
    for (int i = 0; conn_ != tcp::kNoConn; ++i) {
      LYRE_CHECK(i < kTimersToTheEndMax);
      read();
      while (conn_ != tcp::kNoConn && ledger_.lent_count > 0) release();
      if (conn_ == tcp::kNoConn) return;
      const Nanos next = engine_.next_deadline(conn_);
      LYRE_CHECK(next != kNever);
      pass(later(next, now_) - now_);
      if (conn_ != tcp::kNoConn) transmit(0);
      check();
    }
  }

  Script script_;
  tcp::ConnectionConfig config_;
  tcp::Engine engine_;
  tcp::ConnId conn_ = tcp::kNoConn;
  Nanos now_ = seconds(100);
  FourTuple tuple_;
  Effects effects_;
  Ledger<SeqNum> ledger_;
  std::optional<SeqNum> read_next_;
  SeqNum our_next_, our_una_, their_next_;
  uint32_t ts_next_ = 1, last_ts_ = 0;
  uint64_t queued_ = 0, acked_ = 0;
  bool has_shut_ = false;
};

}  // namespace

tcp::ConnectionConfig read_config(Script& script) {
  const uint8_t flags = script.u8();
  const uint8_t sizes = script.u8();
  tcp::ConnectionConfig config;
  config.timestamps = flags & 0x01;
  config.sack = flags & 0x02;
  config.window_scaling = flags & 0x04;
  config.nagle = flags & 0x08;
  config.congestion = static_cast<tcp::CongestionAlgorithm>((flags >> 4 & 1) + (sizes >> 3 & 1));
  config.keepalive = flags & 0x20;
  config.keepalive_idle_ms = 30'000;
  config.mss_bytes = static_cast<uint16_t>(flags & 0x40 ? 536 : 1460);
  config.slot_bytes = kChargeBytes;
  config.ecn = static_cast<tcp::EcnMode>(flags >> 7 ? 2 : sizes % 2);
  config.receive_buffer_bytes = 1u << (13 + sizes % 9);
  config.send_buffer_bytes = 1u << (13 + sizes / 16 % 9);
  return config;
}

void run_segments(std::span<const uint8_t> bytes) { SegmentRun(bytes).run(); }

}  // namespace lyre::fuzz
