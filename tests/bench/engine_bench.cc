/// Nanoseconds per data segment of a sender and a receiver together, fed from memory: no wire, no
/// checksum, no payload. Meant to stay below 150 at MSS 1460, and 60 when segments come merged.
/// The virtual clock moves a little each round; nothing is lost.

#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "stack/base/check.h"
#include "stack/base/rng.h"
#include "stack/tcp/engine.h"

namespace lyre::tcp {
namespace {

constexpr uint32_t kQueueBytes = 1 << 20;
constexpr uint32_t kSegmentsARound = 32;  ///< a receive burst

class Pair {
 public:
  explicit Pair(uint16_t mss_bytes) : mss_(mss_bytes) {
    config_.mss_bytes = mss_bytes;
    config_.slot_bytes = mss_bytes > 2048 ? 9216 : 2048;
    config_.receive_buffer_bytes = 8 << 20;
    const FourTuple there{.local = {IpAddress::v4(1), 1}, .remote = {IpAddress::v4(2), 2}};
    const FourTuple back{.local = there.remote, .remote = there.local};
    from_ = sender_.open_active(there, config_, now_);
    const SegmentIn syn = carry(*sender_.poll_transmit(from_, 0, now_));
    to_ = receiver_.open_passive(back, config_, syn, now_);
    deliver(receiver_, to_, sender_, from_);
    deliver(sender_, from_, receiver_, to_);
    LYRE_CHECK(sender_.state(from_) == State::kEstablished);
  }

  /// One burst of segments one way and its ACKs the other. Returns the wire segments moved.
  uint32_t round(uint32_t payload_bytes_max) {
    now_ += micros(20);
    const uint32_t room = sender_.send_room_bytes(from_);
    if (room >= kQueueBytes) (void)sender_.on_app_send(from_, kQueueBytes, now_);
    uint32_t moved = 0;
    while (moved < kSegmentsARound) {
      const auto segment = sender_.poll_transmit(from_, payload_bytes_max, now_);
      if (!segment) break;
      if (segment->payload_bytes > 0) moved += (segment->payload_bytes + mss_ - 1) / mss_;
      receive(*segment);
    }
    deliver(receiver_, to_, sender_, from_);
    return moved;
  }

 private:
  SegmentIn carry(const SegmentOut& out) const {
    SegmentIn in;
    in.seq = out.seq;
    in.ack = out.ack;
    in.flags = out.flags;
    in.window = out.window;
    in.options = out.options;
    in.payload_bytes = out.payload_bytes;
    in.rx_time = now_;
    in.ecn = out.ecn;
    if (out.payload_bytes > 0) {
      in.payload.slot = 1;
      in.charge_bytes = config_.slot_bytes * ((out.payload_bytes + mss_ - 1) / mss_);
    }
    return in;
  }

  void receive(const SegmentOut& segment) {
    const SegmentIn in = carry(segment);
    const Effects effects = receiver_.on_segment(to_, in, now_);
    while (receiver_.receive_queue(to_).take_readable()) {
    }
    if (effects.payload_kept) (void)receiver_.on_app_release(to_, in.charge_bytes, now_);
  }

  void deliver(Engine& from, ConnId from_conn, Engine& to, ConnId to_conn) {
    while (const auto segment = from.poll_transmit(from_conn, 0, now_)) {
      (void)to.on_segment(to_conn, carry(*segment), now_);
    }
  }

  uint16_t mss_;
  ConnectionConfig config_;
  EngineConfig sizes_{.connections_max = 16, .sent_records_max = 4096, .received_runs_max = 4096};
  Engine sender_{sizes_, {.k0 = 1, .k1 = 2}, 1};
  Engine receiver_{sizes_, {.k0 = 3, .k1 = 4}, 2};
  ConnId from_ = kNoConn;
  ConnId to_ = kNoConn;
  Nanos now_ = seconds(1);
};

/// Arguments: MSS, payload handed over at once (0: one segment).
void bulk(benchmark::State& state) {
  auto pair = std::make_unique<Pair>(static_cast<uint16_t>(state.range(0)));
  const auto payload_bytes_max = static_cast<uint32_t>(state.range(1));
  int64_t segments = 0;
  for (auto _ : state) segments += pair->round(payload_bytes_max);
  LYRE_CHECK(segments > 0);
  state.SetItemsProcessed(segments);
  state.counters["per_segment"] = benchmark::Counter(
      static_cast<double>(segments), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

/// A peer that acknowledges `state.range(0)` outstanding segments selectively, four blocks an ACK,
/// at any bytes: what such an ACK costs (RFC 2018; the class of CVE-2019-11478).
void hostile_sacks(benchmark::State& state) {
  const auto segments = static_cast<uint32_t>(state.range(0));
  ConnectionConfig config;
  config.timestamps = false;
  Engine engine({.connections_max = 16}, {.k0 = 1, .k1 = 2}, 1);
  Nanos now = seconds(1);
  const FourTuple tuple{.local = {IpAddress::v4(1), 1}, .remote = {IpAddress::v4(2), 2}};
  const ConnId conn = engine.open_active(tuple, config, now);
  const SeqNum iss = engine.poll_transmit(conn, 0, now)->seq;
  SegmentIn ack{.seq = SeqNum(0), .ack = iss + 1, .window = UINT16_MAX};
  ack.flags.bits = wire::TcpFlags::kSyn | wire::TcpFlags::kAck;
  ack.options.mss = 1460;
  ack.options.sack_permitted = true;
  ack.options.window_scale = 14;
  (void)engine.on_segment(conn, ack, now);
  ack.seq = SeqNum(1);
  ack.flags.bits = wire::TcpFlags::kAck;
  ack.options = {};
  while (engine.info(conn).in_flight_bytes < segments * 1460) {  // grows the window
    (void)engine.on_app_send(conn, kQueueBytes, now);
    for (now += micros(1); const auto out = engine.poll_transmit(conn, 0, now); now += nanos(1)) {
      ack.ack = out->seq;
    }
    if (engine.info(conn).in_flight_bytes < segments * 1460) {
      (void)engine.on_segment(conn, ack, now);
    }
  }
  const SeqNum una = ack.ack = iss + 1 + static_cast<uint32_t>(engine.info(conn).bytes_acked);
  Rng rng(7);
  for (auto _ : state) {
    now += micros(300);
    ack.options.sack_count = wire::kSackBlocksMax;
    for (wire::SackBlock& block : ack.options.sacks) {
      block.start = una + 1 + static_cast<uint32_t>(rng.below(segments * 1460 - 2000));
      block.end = block.start + 1 + static_cast<uint32_t>(rng.below(3));
    }
    (void)engine.on_segment(conn, ack, now);
  }
}

/// `--rounds N MSS PAYLOAD`: that many rounds, and how many segments they moved: for callgrind.
int run_rounds(char** arguments) {
  Pair pair(static_cast<uint16_t>(std::atoi(arguments[1])));
  const auto payload_bytes_max = static_cast<uint32_t>(std::atoi(arguments[2]));
  int64_t segments = 0;
  for (int i = std::atoi(arguments[0]); i > 0; --i) segments += pair.round(payload_bytes_max);
  std::printf("%lld\n", static_cast<long long>(segments));
  return 0;
}

BENCHMARK(bulk)->Args({1460, 0})->Args({8960, 0})->Args({1460, 65536})->Args({8960, 65536});
BENCHMARK(hostile_sacks)->Arg(250)->Arg(1000)->Iterations(5000);

}  // namespace
}  // namespace lyre::tcp

int main(int argc, char** argv) {
  if (argc == 5 && std::string_view(argv[1]) == "--rounds") return lyre::tcp::run_rounds(argv + 2);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
