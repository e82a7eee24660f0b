#include "stack/worker/worker_state.h"

#include <algorithm>
#include <cstdlib>

#include "stack/base/check.h"
#include "stack/base/derived_key.h"

namespace lyre::worker {

namespace {

/// Memory that costs nothing until it is used: each item is assigned when it is opened.
session::Session* make_zeroed_sessions(uint32_t count) {
  void* memory = std::calloc(count, sizeof(session::Session));
  LYRE_CHECK(memory != nullptr);  // at the start: the count is configured
  return static_cast<session::Session*>(memory);
}

/// A receive buffer full of lent slots leaves another one for what is not read yet: TCP takes text
/// in order up to twice the buffer. So text that a window allows finds room, small segments too.
uint32_t lent_slots_max(const WorkerConfig& config, uint32_t slot_bytes) {
  return std::min(config.lent_slots_per_session_max,
                  config.connection.receive_buffer_bytes / slot_bytes);
}

uint32_t claims_max(const WorkerConfig& config) {
  return config.rings == nullptr ? 1 : kClaimsPerConnection * config.engine.connections_max;
}

}  // namespace

WorkerState::WorkerState(const WorkerConfig& worker_config, io::PacketMemory& packet_memory,
                         size_t port_count, StatsBinding stats_binding)
    : config(worker_config),
      memory(packet_memory),
      stats(stats_binding),
      rng(worker_config.seed),
      path_mtus(derive_key(worker_config.secret, "path MTUs")),
      neighbours(worker_config.seed ^ derive_key(worker_config.secret, "neighbours").k0,
                 worker_config.neighbour_board, worker_config.index),
      engine(worker_config.engine, derive_key(worker_config.secret, "sequence numbers"),
             worker_config.seed),
      flow_label_key(derive_key(worker_config.secret, "flow labels")),
      flows(worker_config.engine.connections_max, derive_key(worker_config.secret, "flow table")),
      router({.index = worker_config.index,
              .worker_count = worker_config.worker_count,
              .rings = worker_config.rings,
              .claims_max = claims_max(worker_config),
              .key = derive_key(worker_config.secret, "connection router")}),
      listeners(worker_config.listeners_max),
      timers(worker_config.engine.connections_max),
      sessions(make_zeroed_sessions(worker_config.engine.connections_max), std::free),
      transmit_queue(sessions.get(), worker_config.engine.connections_max, kContextsMax),
      orphans(sessions.get()),
      half_opens(sessions.get(), worker_config.engine.connections_max / kHalfOpenShare,
                 worker_config.listeners_max),
      sends(worker_config.contexts_max * channel::kSendsPerContextMax),
      contexts(kContextsMax),
      region_segment_bytes(kRegionsMax),
      loans(packet_memory.rx_slot_count(),
            {.contexts_max = kContextsMax,
             .per_session_max = lent_slots_max(worker_config, packet_memory.rx_slot_bytes())}),
      accounts(packet_memory.rx_slots_free(), kContextsMax),
      refused(worker_config.engine.connections_max),
      places(worker_config.places, accounts.user_count()),
      notifier({contexts, sessions.get(), loans, *stats_binding.worker},
               {.index = static_cast<uint8_t>(worker_config.index),
                .slot_bytes = packet_memory.rx_slot_bytes()},
               worker_config.contexts_max) {
  // At start only: who has colleagues shares with them what neighbours say.
  LYRE_CHECK((config.rings == nullptr) == (config.neighbour_board == nullptr));
  if (config.rings != nullptr) config.rings->set_memory(config.index, packet_memory);
  ports.reserve(port_count);
  neighbours.set_users(accounts.user_count());
}

}  // namespace lyre::worker
