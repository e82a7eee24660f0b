#include <algorithm>
#include <deque>
#include <memory>
#include <utility>

#include "tests/fuzz/script.h"

namespace lyre::fuzz {
namespace {

using tcp::Effects;
using tcp::SegmentIn;
using tcp::SegmentOut;
using wire::TcpFlags;

constexpr SipKey kKeys[2] = {{.k0 = 21, .k1 = 22}, {.k0 = 23, .k1 = 24}};
constexpr size_t kPacketsMax = 256;
constexpr int kTurnsToTheEndMax = 50'000;
constexpr uint32_t kQueuedBytesOfHostMax = 1u << 17;

Endpoint endpoint(int host, bool is_v6) {
  const auto number = static_cast<uint8_t>(1 + host);
  const IpAddress address = is_v6 ? IpAddress{{0xfd, number}} : IpAddress::v4(0x0a000000u + number);
  return {.address = address, .port = static_cast<uint16_t>(1000 + host)};
}

/// A segment in flight, and the range of its sender's stream that it carries.
struct Packet {
  SegmentIn segment;
  uint64_t place = 0;
};

/// One host: at most one connection, an application that reads in order, and the model that the
/// checks use.
struct Host {
  Host(int index, const tcp::ConnectionConfig& wanted, uint32_t records)
      : config(wanted),
        engine({.connections_max = 2, .sent_records_max = records, .received_runs_max = records},
               kKeys[index], static_cast<uint64_t>(index)) {}
  tcp::ConnectionConfig config;
  tcp::Engine engine;
  tcp::ConnId conn = tcp::kNoConn;
  Effects effects;
  Ledger<uint64_t> ledger;
  std::deque<Packet> out;  ///< sent, not yet delivered to the other host
  uint64_t queued_bytes = 0;
  uint64_t acked_bytes = 0;
  uint64_t read_bytes = 0;
  tcp::EndReason reason = tcp::EndReason::kNone;
  bool was_open = false;
  bool has_shut = false;
  bool is_gone = false;  ///< its application has closed
};

class TwoStacksRun {
 public:
  explicit TwoStacksRun(std::span<const uint8_t> bytes) : script_(bytes) {
    for (int i = 0; i < 2; ++i) {
      tcp::ConnectionConfig config = read_config(script_);
      // Longer than any sequence of losses.
      config.user_timeout_ms = config.connect_timeout_ms = 1'000'000'000;
      config.syn_received_timeout_s = UINT16_MAX;
      config.time_wait_ms = 1'000'000'000;
      config.keepalive = false;
      const uint8_t more = script_.u8();
      is_v6_ = more >= 0x80;
      hosts_[i] = std::make_unique<Host>(i, config, 4u + more % 64);
    }
  }

  void run() {
    dial();
    while (!script_.is_over()) {
      step();
      check();
    }
    settle();
    for (auto& host : hosts_) bury_at_last(*host);
  }

 private:
  Host& at(int index) { return *hosts_[index]; }

  void dial() {
    Host& dialer = at(0);
    dialer.conn = dialer.engine.open_active(
        {.local = endpoint(0, is_v6_), .remote = endpoint(1, is_v6_)}, dialer.config, now_);
    dialer.was_open = true;
    transmit(0, 0);
  }

  void step() {
    const uint8_t what = script_.u8();
    const int which = what >> 7;
    switch (what % 16) {
      case 5:
        return mark(which);
      case 6:
        return rewrite(which);
      case 7:
        return lose(which);
      case 8:
        return twice(which);
      case 9:
        return swap(which);
      case 10:
        return pass(script_.span());
      case 11:
        return send(which, 1 + (uint32_t{script_.u16()} << (script_.u8() % 3)));
      case 12:
        return read(which, script_.u8() % 8);
      case 13:
        return shut(which, script_.u8());
      case 14:
        return transmit(which, script_.u16());
      default:
        for (int i = what % 16; i >= 0; --i) deliver(which);
    }
  }

  void deliver(int from) {
    Host& sender = at(from);
    if (sender.out.empty()) return;
    const Packet packet = sender.out.front();
    sender.out.pop_front();
    arrive(1 - from, packet);
  }

  void lose(int from) {
    if (!at(from).out.empty()) at(from).out.pop_front();
  }
  void twice(int from) {
    if (!at(from).out.empty()) arrive(1 - from, at(from).out.front());
  }
  void swap(int from) {
    std::deque<Packet>& out = at(from).out;
    if (out.size() > 1) std::swap(out.front(), out[1 + script_.u8() % (out.size() - 1)]);
  }

  /// RFC 3168 5: a full queue on the path marks ECN-capable packets.
  void mark(int from) {
    if (at(from).out.empty()) return;
    wire::Ecn& ecn = at(from).out.front().segment.ecn;
    if (ecn != wire::Ecn::kNotEct) ecn = wire::Ecn::kCe;
  }

  /// An attacker on the path rewrites a packet: from now on only the invariants are checked.
  void rewrite(int from) {
    std::deque<Packet>& out = at(from).out;
    if (out.empty()) return;
    is_true_ = false;
    SegmentIn& segment = out.front().segment;
    const uint8_t field = script_.u8() % 9;
    const auto moved = static_cast<uint32_t>(int32_t{script_.i16()});
    if (field == 0) segment.seq += moved;
    if (field == 1) segment.ack += moved;
    if (field == 2) segment.flags.bits = static_cast<uint8_t>(moved);
    if (field == 3) segment.window = static_cast<uint16_t>(moved);
    if (field == 4) segment.options.ts_value += moved;
    if (field == 5) segment.options.ts_echo += moved;
    if (field == 6) {
      segment.options.sack_count = static_cast<uint8_t>(1 + moved % wire::kSackBlocksMax);
      for (wire::SackBlock& block : segment.options.sacks) {
        block.start = segment.ack + static_cast<uint32_t>(int32_t{script_.i16()});
        block.end = block.start + script_.u16();
      }
    }
    if (field == 7) segment.options.window_scale = static_cast<uint8_t>(moved % 15);
    if (field == 8) segment.options.mss = static_cast<uint16_t>(moved);
  }

  void arrive(int to, const Packet& packet) {
    Host& host = at(to);
    SegmentIn segment = packet.segment;
    segment.rx_time = now_;
    if (host.conn == tcp::kNoConn) return arrive_at_nobody(to, segment);
    if (segment.payload_bytes > 0) {
      segment.payload.slot = host.ledger.offer(packet.place, segment.payload_bytes);
      segment.charge_bytes = kChargeBytes;
    }
    host.effects = host.engine.on_segment(host.conn, segment, now_);
    if (segment.payload_bytes > 0 && !host.effects.payload_kept) {
      host.ledger.refuse(segment.payload.slot);
    }
    apply(to);
  }

  void arrive_at_nobody(int to, const SegmentIn& segment) {
    Host& host = at(to);
    const bool is_opening = segment.flags.has(TcpFlags::kSyn) &&
                            !segment.flags.has(TcpFlags::kAck) &&
                            !segment.flags.has(TcpFlags::kRst);
    if (to == 1 && is_opening && !host.was_open) {
      host.conn =
          host.engine.open_passive({.local = endpoint(1, is_v6_), .remote = endpoint(0, is_v6_)},
                                   host.config, segment, now_);
      LYRE_CHECK(host.conn != tcp::kNoConn);
      host.was_open = true;
      return transmit(to, 0);
    }
    const auto reset = tcp::reset_for(segment);
    if (reset) put(to, *reset);
  }

  void apply(int which) {
    Host& host = at(which);
    host.acked_bytes += host.effects.acked_bytes;
    LYRE_CHECK(host.acked_bytes <= host.queued_bytes);
    while (const auto handle = host.engine.receive_queue(host.conn).take_superseded()) {
      host.ledger.refuse(handle->slot);
    }
    if (host.effects.is_over) {
      host.reason = host.effects.reason;
      transmit(which, 0);
      return bury(host);
    }
    if (host.effects.wants_transmit) transmit(which, 0);
  }

  void transmit(int which, uint32_t payload_bytes_max) {
    Host& host = at(which);
    if (host.conn == tcp::kNoConn) return;
    for (int i = 0; i < kSegmentsAtOnceMax && host.out.size() < kPacketsMax; ++i) {
      const auto out = host.engine.poll_transmit(host.conn, payload_bytes_max, now_);
      if (!out) return;
      put(which, *out);
    }
  }

  void put(int which, const SegmentOut& out) {
    Host& host = at(which);
    LYRE_CHECK(host.acked_bytes + out.queue_offset + out.payload_bytes <= host.queued_bytes);
    Packet packet;
    packet.place = host.acked_bytes + out.queue_offset;
    packet.segment = {.seq = out.seq,
                      .ack = out.ack,
                      .flags = out.flags,
                      .window = out.window,
                      .options = out.options,
                      .payload = {},
                      .payload_bytes = out.payload_bytes,
                      .ecn = out.ecn};
    if (host.out.size() < kPacketsMax) host.out.push_back(packet);
  }

  void pass(Nanos span) {
    now_ += span;
    for (int which = 0; which < 2; ++which) {
      Host& host = at(which);
      for (int i = 0; host.conn != tcp::kNoConn && host.engine.next_deadline(host.conn) <= now_;
           ++i) {
        LYRE_CHECK(i < kTimersAtOnceMax);
        call(which, [&] { return host.engine.on_timer(host.conn, now_); });
      }
    }
  }

  template <typename Call>
  void call(int which, Call what) {
    at(which).effects = what();
    apply(which);
  }

  void send(int which, uint32_t bytes) {
    Host& host = at(which);
    const bool may = host.conn != tcp::kNoConn && !host.has_shut;
    if (!may || host.queued_bytes + bytes > kQueuedBytesOfHostMax) return;
    host.queued_bytes += bytes;
    call(which, [&] { return host.engine.on_app_send(host.conn, bytes, now_); });
  }

  /// Reads all available payload and releases `releases` payloads.
  void read(int which, uint32_t releases) {
    Host& host = at(which);
    if (host.conn == tcp::kNoConn) return;
    take(host);
    for (; releases > 0 && host.ledger.lent_count > 0 && host.conn != tcp::kNoConn; --releases) {
      --host.ledger.lent_count;
      call(which, [&] { return host.engine.on_app_release(host.conn, kChargeBytes, now_); });
    }
  }
  void take(Host& host) {
    while (const auto slice = host.engine.receive_queue(host.conn).take_readable()) {
      const uint64_t place = host.ledger.read(*slice);
      LYRE_CHECK(!is_true_ || place == host.read_bytes);  // every byte once, in order
      host.read_bytes += slice->length;
    }
  }

  void shut(int which, uint8_t how) {
    Host& host = at(which);
    if (host.conn == tcp::kNoConn) return;
    host.has_shut = true;
    if (how % 16 == 0) {
      host.is_gone = true;
      const auto reset = host.engine.on_app_abort(host.conn, now_);
      if (reset) put(which, *reset);
      host.reason = tcp::EndReason::kAborted;
      return bury(host);
    }
    if (how % 16 == 1) host.is_gone = true;
    call(which, [&] {
      return host.is_gone ? host.engine.on_app_close(host.conn, now_)
                          : host.engine.on_app_shutdown(host.conn, now_);
    });
  }

  void bury(Host& host) {
    if (host.conn == tcp::kNoConn) return;
    take(host);
    while (const auto handle = host.engine.receive_queue(host.conn).take_any()) {
      host.ledger.refuse(handle->slot);
    }
    LYRE_CHECK(host.ledger.kept_count() == 0);
    host.engine.release(host.conn);
    host.conn = tcp::kNoConn;
  }

  void check() {
    for (auto& host : hosts_) {
      if (host->conn == tcp::kNoConn) continue;
      host->engine.check_invariants(host->conn);
      const uint64_t charged =
          (host->ledger.kept_count() + host->ledger.lent_count) * uint64_t{kChargeBytes};
      LYRE_CHECK(host->engine.charged_bytes(host->conn) == charged);
    }
  }

  bool has_ended(const Host& host) const {
    return host.conn == tcp::kNoConn || host.engine.state(host.conn) == tcp::State::kTimeWait;
  }

  /// From now on the wire is reliable and both sides finish: then all bytes must have arrived.
  /// After a rewritten packet it is enough that the run ends.
  void settle() {
    int turns = 0;
    for (; turns < kTurnsToTheEndMax && !(has_ended(at(0)) && has_ended(at(1))); ++turns) {
      for (int which = 0; which < 2; ++which) {
        while (!at(which).out.empty()) deliver(which);
        read(which, UINT32_MAX);
        if (!at(which).has_shut) shut(which, 3);
        transmit(which, 0);
      }
      check();
      if (!at(0).out.empty() || !at(1).out.empty()) continue;
      Nanos next = kNever;
      for (auto& host : hosts_) {
        if (host->conn != tcp::kNoConn)
          next = earlier(next, host->engine.next_deadline(host->conn));
      }
      if (next == kNever) break;
      pass(later(next, now_) - now_);
    }
    for (int which = 0; which < 2; ++which) read(which, UINT32_MAX);
    if (is_true_) judge();
  }

  void judge() {
    const bool is_polite = !at(0).is_gone && !at(1).is_gone;
    if (!is_polite || !at(1).was_open) return;
    for (int which = 0; which < 2; ++which) {
      LYRE_CHECK(has_ended(at(which)));
      LYRE_CHECK(at(which).read_bytes == at(1 - which).queued_bytes);
      LYRE_CHECK(at(which).acked_bytes == at(which).queued_bytes);
    }
  }

  void bury_at_last(Host& host) {
    if (host.conn == tcp::kNoConn) return;
    (void)host.engine.on_app_abort(host.conn, now_);
    bury(host);
    LYRE_CHECK(host.engine.connection_count() == 0);
  }

  Script script_;
  std::unique_ptr<Host> hosts_[2];
  Nanos now_ = seconds(100);
  bool is_v6_ = false;
  bool is_true_ = true;  ///< no packet was rewritten yet
};

}  // namespace

void run_two_stacks(std::span<const uint8_t> bytes) { TwoStacksRun(bytes).run(); }

}  // namespace lyre::fuzz
