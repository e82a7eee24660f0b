#include "tests/sim/world/world_drivers.h"

#include <algorithm>
#include <array>

namespace lyre::sim {
namespace {

using io::sim::TxRelease;

constexpr Nanos kFirstFault = seconds(1) + millis(2);

uint32_t between(Rng& rng, uint32_t low, uint32_t high) {
  return low + static_cast<uint32_t>(rng.below(high - low + 1));
}

/// vmxnet3, ENA and others: few segments for each packet, and memory in small pages.
void cap_segments(WorldPlan& plan, Rng& rng) {
  plan.link.checksums = io::sim::Checksums::kHardware;
  plan.link.tso_bytes_max = between(rng, 2'000, 3'000);  // six frames, or some more of MTU 576
  plan.link.tso_segments_max = between(rng, 3, 8);
  plan.link.cut_segments_max = between(rng, 2, plan.link.tso_segments_max);
  for (WorldHostOptions& host : plan.hosts) host.segment_bytes = 1024;
}

/// The steps of a restart, as the daemon takes them: it notices, closes the driver, and opens it
/// when the device is back.
void add_fault(WorldPlan& plan, int end, uint32_t frames, Nanos at, Nanos noticed, Nanos back) {
  plan.events.push_back({at, [end, frames](World& world) { world.link().take_away(end, frames); }});
  plan.events.push_back({noticed, [end](World& world) { world.link().close_driver(end); }});
  plan.events.push_back({back, [end](World& world) {
                           world.link().bring_back(end);
                           world.host(static_cast<uint32_t>(end))
                               .worker()
                               .inbox()
                               .try_post({.kind = worker::Command::Kind::kLinkUp, .port = 0});
                         }});
}

void add_faults(WorldPlan& plan, Rng& rng, uint32_t away_us_max) {
  // TIME-WAIT must outlast the outages: a FIN that arrives after it would be answered with a reset.
  for (WorldHostOptions& host : plan.hosts) {
    host.connection.time_wait_ms = std::max(host.connection.time_wait_ms, 200'000u);
  }
  plan.may_be_unreachable = true;
  plan.needs_no_timers = false;
  Nanos at = kFirstFault;
  for (uint32_t i = between(rng, 1, 4); i > 0; --i) {
    at += micros(between(rng, 1, 300'000));
    const Nanos noticed = at + micros(between(rng, 1, 250'000));
    const Nanos back = noticed + micros(between(rng, 1, away_us_max));
    // The order in which a compiler evaluates arguments must not change the world.
    const auto end = static_cast<int>(rng.below(2));
    const uint32_t frames = between(rng, 0, 40);
    add_fault(plan, end, frames, at, noticed, back);
    at = back;
  }
}

struct NamedDriver {
  const char* name;
  void (*apply)(WorldPlan&, Rng&);
};

constexpr auto kDrivers = std::to_array<NamedDriver>({
    {"copies", [](WorldPlan& plan, Rng&) { plan.link.tx_release = TxRelease::kAtOnce; }},
    {"asked", [](WorldPlan& plan, Rng&) { plan.link.tx_release = TxRelease::kOnReclaim; }},
    {"by-32", [](WorldPlan& plan, Rng&) { plan.link.tx_release = TxRelease::kBySending32; }},
    {"by-reuse",
     [](WorldPlan& plan, Rng&) {
       plan.link.tx_release = TxRelease::kByReuse;
       plan.link.tx_ring_packets = io::kFreedWithinPackets;
     }},
    {"keeps-while-down",
     [](WorldPlan& plan, Rng&) { plan.link.tx_release = TxRelease::kOnReclaimWhileUp; }},
    {"capped", cap_segments},
    {"resets", [](WorldPlan& plan, Rng& rng) { add_faults(plan, rng, 300'000); }},
    {"goes", [](WorldPlan& plan, Rng& rng) { add_faults(plan, rng, 10'000'000); }},
});

}  // namespace

std::vector<std::string> driver_names() {
  std::vector<std::string> names;
  for (const NamedDriver& driver : kDrivers) names.emplace_back(driver.name);
  return names;
}

bool use_driver(WorldPlan& plan, const std::string& name) {
  const auto* found = std::ranges::find(kDrivers, name, &NamedDriver::name);
  if (found == kDrivers.end()) return false;
  Rng rng(plan.seed * 104'729 + 7);
  found->apply(plan, rng);
  return true;
}

}  // namespace lyre::sim
