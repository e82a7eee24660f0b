#include "tests/sim/simulation.h"

#include <utility>

namespace lyre::sim {

namespace {

constexpr uint16_t kServicePort = 7000;
constexpr uint16_t kFirstDialPort = 20000;

/// Two hosts, two directions of one wire, and one virtual clock that advances to the next event.
class Simulation {
 public:
  Simulation(const Scenario& scenario, uint64_t seed)
      : scenario_(scenario),
        rng_(seed ^ 0x5ca1ab1e),
        there_(scenario.there, seed * 3 + 1),
        back_(scenario.back, seed * 3 + 2),
        hosts_{SimHost(scenario.dialer, IpAddress::v4(0x0a000001), seed * 5 + 3, 0),
               SimHost(scenario.listener, IpAddress::v4(0x0a000002), seed * 5 + 4, 1)} {}

  Outcome run() {
    dial();
    Outcome outcome;
    while (!is_finished(outcome)) {
      step();
      ++outcome.step_count;
      const uint64_t every = scenario_.replace_engine_every_steps;
      if (every > 0 && outcome.step_count % every == 0) replace_one(outcome.step_count / every);
    }
    fill(outcome);
    return outcome;
  }

 private:
  void dial() {
    const Endpoint service{.address = IpAddress::v4(0x0a000002), .port = kServicePort};
    for (uint32_t i = 0; i < scenario_.connection_count; ++i) {
      const auto port = static_cast<uint16_t>(kFirstDialPort + i);
      const uint64_t stream_seed = uint64_t{port} << 8;
      hosts_[0].connect(service, port, stream_seed, now_);
      if (!scenario_.opens_simultaneously) continue;
      const Endpoint dialer{.address = IpAddress::v4(0x0a000001), .port = port};
      hosts_[1].connect(dialer, kServicePort, stream_seed, now_);
    }
    for (int i = 0; i < 2; ++i) hosts_[i].run(now_, out_of(i));
  }

  SimLink& out_of(int host) { return host == 0 ? there_ : back_; }
  SimLink& into(int host) { return host == 0 ? back_ : there_; }

  Nanos next_event() const {
    const Nanos wire = earlier(there_.next_arrival(), back_.next_arrival());
    return earlier(wire, earlier(hosts_[0].next_deadline(), hosts_[1].next_deadline()));
  }

  bool is_finished(Outcome& outcome) {
    for (const SimHost& host : hosts_) {
      if (!host.failure().empty()) {
        outcome.failure = host.failure();
        return true;
      }
    }
    const Nanos next = next_event();
    const bool is_quiet = there_.next_arrival() == kNever && back_.next_arrival() == kNever;
    if (hosts_[0].is_done() && hosts_[1].is_done() && is_quiet) return true;
    if (next == kNever) return true;
    if (next > scenario_.time_max || outcome.step_count >= scenario_.steps_max) {
      outcome.failure = "not done in the virtual time or the steps allowed";
      return true;
    }
    return false;
  }

  void step() {
    now_ = later(now_, next_event());
    for (int i = 0; i < 2; ++i) {
      if (into(i).next_arrival() <= now_) {
        Packet packet = into(i).take();
        maybe_forge(packet, i);
        hosts_[i].on_packet(std::move(packet), now_, out_of(i));
        return;
      }
    }
    for (int i = 0; i < 2; ++i) {
      if (hosts_[i].next_deadline() <= now_) hosts_[i].run(now_, out_of(i));
    }
  }

  /// RFC 5961: an attacker who knows the 4-tuple but not the sequence numbers cannot change
  /// anything.
  void maybe_forge(const Packet& real, int host) {
    if (!rng_.chance_ppm(scenario_.forged_packets_ppm)) return;
    if (real.segment.flags.has(wire::TcpFlags::kSyn))
      return;  // before that, a forged packet may
               // succeed
    Packet forged;
    forged.at_receiver = real.at_receiver;
    static constexpr uint8_t kFlags[] = {
        wire::TcpFlags::kRst, wire::TcpFlags::kRst | wire::TcpFlags::kAck, wire::TcpFlags::kSyn,
        wire::TcpFlags::kAck, wire::TcpFlags::kSyn | wire::TcpFlags::kAck};
    forged.segment.flags.bits = kFlags[rng_.below(5)];
    const auto near = static_cast<uint32_t>(2 + rng_.below(3000));  // in the window, mostly
    const bool is_blind = rng_.chance_ppm(500'000);
    forged.segment.seq =
        is_blind ? SeqNum(static_cast<uint32_t>(rng_.next())) : real.segment.seq + near;
    forged.segment.ack = SeqNum(static_cast<uint32_t>(rng_.next()));
    hosts_[host].on_packet(std::move(forged), now_, out_of(host));
  }

  void replace_one(uint64_t turn) { hosts_[turn % 2].replace_engine(); }

  void fill(Outcome& outcome) const {
    outcome.trace_hash = hosts_[0].trace_hash() * 31 + hosts_[1].trace_hash();
    outcome.ended_at = now_;
    outcome.sent_count = there_.sent_count() + back_.sent_count();
    outcome.lost_count = there_.lost_count() + back_.lost_count();
    outcome.dialer_apps = hosts_[0].apps();
    outcome.listener_apps = hosts_[1].apps();
    if (!outcome.failure.empty()) return;
    for (const SimHost& host : hosts_) {
      if (host.is_done() && host.held_payload_count() != 0)
        outcome.failure = "payload was lost track of";
    }
  }

  Scenario scenario_;
  Rng rng_;
  SimLink there_;
  SimLink back_;
  SimHost hosts_[2];
  Nanos now_ = seconds(1);
};

}  // namespace

Outcome run_scenario(const Scenario& scenario, uint64_t seed) {
  return Simulation(scenario, seed).run();
}

}  // namespace lyre::sim
