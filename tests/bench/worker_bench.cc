/// What a segment costs whole workers: real ones on the simulated wire, with a client each. For
/// instruction counts; no time is measured. `worker_bench SHAPE ROUNDS` prints how many segments
/// the workers sent; callgrind counts what they did for them:
///
///   valgrind --tool=callgrind --toggle-collect='lyre::worker::Worker::poll_once*' BENCH bulk 120
///
/// The difference of two runs leaves out what starting takes. Shapes: `bulk`, 1460-byte segments
/// that arrive merged; `small`, one 64-byte segment at a time and its answer; `redirected`, bulk
/// between two hosts of two workers each, whose port sends connections to the wrong worker.

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tests/support/many_workers.h"

namespace lyre::test {
namespace {

constexpr uint32_t kBlockBytes = 60'000;
constexpr uint32_t kBlocksARound = 8;
constexpr uint32_t kSmallBytes = 64;
constexpr uint32_t kSmallARound = 32;
constexpr uint32_t kTurnsMax = 1'000'000;

io::sim::LinkOptions wire() { return {.checksums = io::sim::Checksums::kTrusted}; }

uint64_t run_pair(int rounds, uint32_t count, uint32_t bytes) {
  TwoWorkers hosts(wire());
  hosts.app_a->checks_bytes = hosts.app_b->checks_bytes = false;
  LYRE_CHECK(hosts.connect());
  const channel::SessionName session = hosts.app_a->only().name;
  const bool is_small = bytes == kSmallBytes;
  uint64_t sent = 0;
  for (int round = 0; round < rounds; ++round) {
    for (uint32_t i = 0; i < count; ++i) {
      LYRE_CHECK(hosts.client_a->send(session, 0, bytes));
      ++sent;
      if (is_small) hosts.turn();
    }
    LYRE_CHECK(hosts.run_until([&] { return hosts.app_a->only().sends_done == sent; }));
  }
  return hosts.a.stats().tcp_segments_out.get() + hosts.b.stats().tcp_segments_out.get();
}

/// Two hosts whose connections were opened before their port began to spread packets otherwise.
class Redirected {
 public:
  Redirected() {
    for (ManyWorkers* host : {&a_, &b_}) {
      for (const auto& seat : host->seats) seat->app->checks_bytes = false;
    }
    for (const auto& seat : b_.seats) seat->client->listen(5000, 7);
    for (uint32_t i = 0; i < 100; ++i) turn();
    for (uint32_t i = 0; i < kSessions; ++i) {
      a_.seats[i % 2]->client->connect({b_.address(), 5000}, i);
    }
    for (uint32_t i = 0; a_.stream_count() < kSessions; ++i, turn()) LYRE_CHECK(i < kTurnsMax);
    link_.redistribute(0, 99);
    link_.redistribute(1, 77);
  }
  void round() {
    for (const auto& seat : a_.seats) {
      for (const auto& [index, stream] : seat->app->streams()) {
        LYRE_CHECK(seat->client->send(stream.name, 0, kBlockBytes));
      }
    }
    const uint64_t wanted = payload_in() + kSessions * kBlockBytes;
    for (uint32_t i = 0; payload_in() < wanted; ++i, turn()) LYRE_CHECK(i < kTurnsMax);
  }
  uint64_t segments() const {
    return a_.sum(&channel::WorkerStats::tcp_segments_out) +
           b_.sum(&channel::WorkerStats::tcp_segments_out);
  }

 private:
  static constexpr uint32_t kSessions = 8;

  uint64_t payload_in() const { return b_.sum(&channel::WorkerStats::tcp_payload_in); }
  void turn() {
    link_.advance(now_);
    if (a_.poll(now_) + b_.poll(now_) > 0) {
      now_ += micros(1);
      return;
    }
    const Nanos next =
        earlier(link_.next_deadline(), earlier(a_.next_deadline(), b_.next_deadline()));
    now_ = later(now_ + micros(1), next == kNever ? now_ + millis(10) : next);
  }

  Nanos now_ = seconds(1);
  io::sim::Link link_{wire()};
  ManyWorkers a_{link_, 0, 2, {.rx_slots = 1024}};
  ManyWorkers b_{link_, 1, 2, {.rx_slots = 1024}};
};

uint64_t run_redirected(int rounds) {
  Redirected hosts;
  for (int round = 0; round < rounds; ++round) hosts.round();
  return hosts.segments();
}

int run(std::string_view shape, int rounds) {
  uint64_t segments = 0;
  if (shape == "bulk") segments = run_pair(rounds, kBlocksARound, kBlockBytes);
  if (shape == "small") segments = run_pair(rounds, kSmallARound, kSmallBytes);
  if (shape == "redirected") segments = run_redirected(rounds);
  std::printf("%llu\n", static_cast<unsigned long long>(segments));
  return segments > 0 ? 0 : 2;
}

}  // namespace
}  // namespace lyre::test

int main(int argc, char** argv) {
  const int rounds = argc == 3 ? std::atoi(argv[2]) : 0;
  if (rounds < 1) {
    std::fprintf(stderr, "usage: worker_bench bulk|small|redirected ROUNDS\n");
    return 2;
  }
  return lyre::test::run(argv[1], rounds);
}
