#include <gtest/gtest.h>

#include "stack/base/rng.h"
#include "tests/unit/stack/tcp/peer.h"

namespace lyre::tcp {
namespace {

/// Arbitrary input of an attacker and an application, in any order: no invariant may break.
class Chaos {
 public:
  explicit Chaos(uint64_t seed)
      : rng_(seed),
        peer_(draw_config(),
              {.connections_max = 2, .sent_records_max = 6, .received_runs_max = 6}) {}

  void run() {
    open();
    for (int step = 0; step < 300 && is_usable(); ++step) act();
    drain_payload();
    peer_.engine.release(peer_.conn);
    EXPECT_EQ(peer_.engine.connection_count(), 0u);
  }

 private:
  ConnectionConfig draw_config() {
    ConnectionConfig config = Peer::plain_config();
    config.timestamps = rng_.chance_ppm(500'000);
    config.sack = rng_.chance_ppm(700'000);
    config.window_scaling = rng_.chance_ppm(500'000);
    config.nagle = rng_.chance_ppm(300'000);
    config.receive_buffer_bytes = static_cast<uint32_t>(rng_.below(200'000));
    config.keepalive = rng_.chance_ppm(300'000);
    config.keepalive_idle_ms = 5000;
    config.congestion =
        rng_.chance_ppm(500'000) ? CongestionAlgorithm::kNewReno : CongestionAlgorithm::kCubic;
    return config;
  }

  void open() {
    peer_.syn_options = draw_options();
    peer_.window = static_cast<uint16_t>(rng_.next());
    const uint64_t how = rng_.below(3);
    if (how == 0) peer_.dial_only();
    if (how == 1) peer_.dial(peer_.window);
    if (how == 2) peer_.accept(peer_.window);
  }

  wire::TcpOptions draw_options() {
    wire::TcpOptions options;
    if (rng_.chance_ppm(600'000)) options.mss = static_cast<uint16_t>(rng_.next());
    if (rng_.chance_ppm(600'000)) options.window_scale = static_cast<uint8_t>(rng_.next());
    options.sack_permitted = rng_.chance_ppm(700'000);
    options.has_timestamps = rng_.chance_ppm(600'000);
    options.ts_value = 1000;
    return options;
  }

  bool is_usable() const { return peer_.state() != State::kClosed; }

  /// A number near a significant one, or any number.
  uint32_t near(uint32_t about) {
    if (rng_.chance_ppm(50'000)) return static_cast<uint32_t>(rng_.next());
    return about + static_cast<uint32_t>(rng_.below(5000)) - 1500;
  }

  uint32_t expected_at() const { return static_cast<uint32_t>(peer_.info().bytes_received); }
  uint32_t acked_at() const { return static_cast<uint32_t>(peer_.info().bytes_acked); }

  void segment() {
    static constexpr uint8_t kFlags[] = {kA,  kA, kA, kA,  kA, kA, kFA,
                                         kSA, kS, kR, kRA, 0,  kF, 0xff};
    const bool is_exact = rng_.chance_ppm(400'000);
    const uint8_t flags = kFlags[rng_.below(rng_.chance_ppm(900'000) ? 7 : sizeof(kFlags))];
    const uint32_t sent = static_cast<uint32_t>(peer_.info().bytes_sent);
    const uint32_t ack = rng_.chance_ppm(500'000)
                             ? acked_at() + static_cast<uint32_t>(rng_.below(sent - acked_at() + 2))
                             : near(acked_at());
    SegmentIn in =
        peer_.make(flags, is_exact ? expected_at() : near(expected_at()), ack,
                   rng_.chance_ppm(500'000) ? static_cast<uint32_t>(rng_.below(3000)) : 0);
    in.window = static_cast<uint16_t>(rng_.chance_ppm(200'000) ? rng_.below(2000) : rng_.next());
    in.options = draw_options();
    in.options.ts_value += static_cast<uint32_t>(rng_.below(10));
    in.options.ts_echo = static_cast<uint32_t>(rng_.next());
    in.options.sack_count = static_cast<uint8_t>(rng_.below(5));
    for (uint8_t i = 0; i < in.options.sack_count; ++i) {
      in.options.sacks[i] = {.start = peer_.us(near(acked_at())),
                             .end = peer_.us(near(acked_at()))};
    }
    peer_.send(in);
    if (peer_.effects.payload_kept) ++held_;
  }

  void act() {
    switch (rng_.below(12)) {
      case 0:
        if (peer_.engine.send_room_bytes(peer_.conn) > 20'000) {
          peer_.app_send(static_cast<uint32_t>(rng_.below(20'000)));
        }
        break;
      case 1:
        if (peer_.engine.next_deadline(peer_.conn) != kNever) peer_.run_deadline();
        break;
      case 2:
        peer_.now += nanos(static_cast<int64_t>(rng_.below(1u << rng_.below(31))));
        break;
      case 3:
        read_some();
        break;
      case 4:
        if (rng_.chance_ppm(30'000)) peer_.shutdown();
        if (rng_.chance_ppm(20'000)) peer_.close();
        break;
      case 5:
        peer_.effects = peer_.engine.on_icmp_error(
            peer_.conn, peer_.us(near(acked_at())), static_cast<wire::IcmpVerdict>(rng_.below(3)),
            static_cast<uint32_t>(rng_.below(1200)), peer_.now);
        peer_.engine.check_invariants(peer_.conn);
        break;
      case 6:
      case 7:
        for (uint64_t i = rng_.below(20); i > 0; --i) {
          if (!peer_.next(static_cast<uint32_t>(rng_.below(2) * rng_.below(70'000)))) break;
        }
        break;
      default:
        segment();
    }
  }

  void read_some() {
    for (uint64_t i = rng_.below(8); i > 0; --i) {
      if (!peer_.queue().take_readable()) return;
      --held_;
      peer_.release(peer_.config.slot_bytes);
    }
  }

  void drain_payload() {
    while (peer_.queue().take_any()) --held_;
    EXPECT_EQ(held_, 0) << "every payload that was kept comes back once";
    (void)peer_.engine.on_app_abort(peer_.conn, peer_.now);
  }

  Rng rng_;
  Peer peer_;
  int64_t held_ = 0;
};

TEST(Chaos, NothingBreaksAnInvariant) {
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE(seed);
    Chaos(seed).run();
  }
}

}  // namespace
}  // namespace lyre::tcp
