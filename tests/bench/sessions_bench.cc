/// What many idle sessions cost: real workers and clients on the simulated wire. `sessions_bench N`
/// opens N sessions between two hosts and prints JSON: resident bytes of a session on one host,
/// what a turn of a worker with nothing to do takes with a hundred sessions and with N, and what
/// opening one takes both hosts together.

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "tests/support/channel_client.h"
#include "tests/support/worker_host.h"

namespace lyre::test {
namespace {

constexpr uint32_t kServer = 0x0a090002;
constexpr uint16_t kFirstPort = 5000;
/// Of one port: fewer than there are ports to dial from.
constexpr uint32_t kSessionsPerPort = 10'000;
constexpr uint32_t kFewSessions = 100;
/// Under way at a time: fewer than the backlog.
constexpr uint32_t kDialsMax = 64;
constexpr int kTurnsMeasured = 200'000;

double seconds_now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

/// Of this process, now.
double resident_bytes() {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/proc/self/statm", "r"),
                                                       std::fclose);
  long pages = 0;
  LYRE_CHECK(file != nullptr && std::fscanf(file.get(), "%*d %ld", &pages) == 1);
  return static_cast<double>(pages) * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

HostOptions host(int end, uint32_t address, uint32_t sessions_max) {
  HostOptions options{.end = end, .address = address};
  options.connections_max = sessions_max + kDialsMax;
  return options;
}

class Crowd {
 public:
  explicit Crowd(uint32_t sessions_max)
      : a_(link_, host(0, 0x0a090001, sessions_max)), b_(link_, host(1, kServer, sessions_max)) {
    for (uint32_t first = 0; first < sessions_max; first += kSessionsPerPort) {
      server_.listen(port_of(first), first, 2 * kDialsMax);
    }
    turn();
  }

  /// Until there are `count` in all.
  void open(uint32_t count) {
    uint32_t dialed = opened_;
    for (uint32_t idle_turns = 0; accepted_ < count || opened_ < count; ++idle_turns) {
      LYRE_CHECK(idle_turns < 1'000'000);
      for (; dialed < count && dialed - opened_ < kDialsMax; ++dialed) {
        LYRE_CHECK(client_.connect({IpAddress::v4(kServer), port_of(dialed)}, dialed + 1));
      }
      if (turn() > 0) idle_turns = 0;
    }
    for (int i = 0; i < 1000; ++i) turn();
  }
  /// Seconds of one turn of the server's worker that finds nothing.
  double idle_turn_s() {
    const double begun = seconds_now();
    for (int i = 0; i < kTurnsMeasured; ++i) {
      now_ += nanos(100);
      LYRE_CHECK(b_.worker().poll_once(now_) == 0);
    }
    return (seconds_now() - begun) / kTurnsMeasured;
  }

 private:
  static uint16_t port_of(uint32_t session) {
    return static_cast<uint16_t>(kFirstPort + session / kSessionsPerPort);
  }
  size_t turn() {
    now_ += micros(1);
    link_.advance(now_);
    const size_t work = a_.worker().poll_once(now_) + b_.worker().poll_once(now_);
    take(client_, channel::Event::kConnected, opened_);
    take(server_, channel::Event::kAccepted, accepted_);
    return work;
  }
  static void take(ChannelClient& client, channel::Event wanted, uint32_t& count) {
    for (auto entry = client.next(); entry.event != channel::Event::kNone; entry = client.next()) {
      LYRE_CHECK(entry.event == wanted || entry.event == channel::Event::kListening ||
                 entry.event == channel::Event::kConnecting);
      if (entry.event == wanted) ++count;
    }
  }

  Nanos now_ = seconds(1);
  io::sim::Link link_{{}};
  WorkerHost a_;
  WorkerHost b_;
  ChannelClient client_{a_.worker(), 0};
  ChannelClient server_{b_.worker(), 0};
  uint32_t opened_ = 0;
  uint32_t accepted_ = 0;
};

int run(uint32_t sessions) {
  Crowd crowd(sessions);
  crowd.open(kFewSessions);
  const double few_turn_s = crowd.idle_turn_s();
  const double few_bytes = resident_bytes();
  const double begun = seconds_now();
  crowd.open(sessions);
  const double open_s = seconds_now() - begun;
  const uint32_t added = sessions - kFewSessions;
  std::printf("{\"bytes\": %.0f, \"turn_ns\": %.1f, \"few_turn_ns\": %.1f, \"open_ns\": %.0f}\n",
              (resident_bytes() - few_bytes) / added / 2, crowd.idle_turn_s() * 1e9,
              few_turn_s * 1e9, open_s / added * 1e9);
  return 0;
}

}  // namespace
}  // namespace lyre::test

int main(int argc, char** argv) {
  const int sessions = argc == 2 ? std::atoi(argv[1]) : 0;
  if (sessions < 1000 || sessions > 1'000'000) {
    std::fprintf(stderr, "usage: sessions_bench SESSIONS (1000 to 1000000)\n");
    return 2;
  }
  return lyre::test::run(static_cast<uint32_t>(sessions));
}
