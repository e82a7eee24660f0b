#pragma once

#include <cstdint>
#include <string>

#include "tests/sim/sim_host.h"

namespace lyre::sim {

/// The parameters of a run. Host 0 connects; host 1 listens, or connects at the same time.
struct Scenario {
  LinkConfig there;
  LinkConfig back;
  HostConfig dialer;
  HostConfig listener;
  uint32_t connection_count = 1;
  bool opens_simultaneously = false;
  uint64_t replace_engine_every_steps = 0;  ///< 0: never
  uint32_t forged_packets_ppm = 0;          ///< an attacker's RST, SYN or ACK beside a packet
  Nanos time_max = seconds(20'000);
  uint64_t steps_max = 20'000'000;
};

/// The result of a run. `failure` is empty when every byte arrived once, in order, and both ends
/// ended.
struct Outcome {
  std::string failure;
  uint64_t trace_hash = 0;
  uint64_t step_count = 0;
  Nanos ended_at;
  uint64_t sent_count = 0;  ///< segments, including lost ones
  uint64_t lost_count = 0;
  std::vector<App> dialer_apps;
  std::vector<App> listener_apps;
};

Outcome run_scenario(const Scenario& scenario, uint64_t seed);

}  // namespace lyre::sim
