#include "stack/worker/worker.h"

#include <cstdlib>

#include "stack/base/check.h"
#include "stack/base/derived_key.h"
#include "stack/worker/clients/client_memory.h"
#include "stack/worker/clients/context.h"
#include "stack/worker/impl.h"

namespace lyre::worker {

namespace {

/// Memory that costs nothing until it is used: each item is assigned when it is opened.
template <typename Item>
Item* make_zeroed(uint32_t count) {
  void* memory = std::calloc(count, sizeof(Item));
  LYRE_CHECK(memory != nullptr);
  return static_cast<Item*>(memory);
}

}  // namespace

Worker::Impl::Impl(const WorkerConfig& worker_config, io::PacketMemory& packet_memory,
                   std::span<const PortBinding> port_bindings,
                   std::span<const RouteBinding> route_bindings, StatsBinding stats_binding)
    : config(worker_config),
      memory(packet_memory),
      stats(stats_binding),
      rng(worker_config.seed),
      merger(packet_memory.rx_slot_bytes()),
      neighbours(worker_config.seed ^ derive_key(worker_config.secret, "neighbours").k0),
      engine(worker_config.engine, derive_key(worker_config.secret, "sequence numbers"),
             worker_config.seed),
      flow_label_key(derive_key(worker_config.secret, "flow labels")),
      flows(worker_config.engine.connections_max, derive_key(worker_config.secret, "flow table")),
      // Connections spread over homes by hash, so one home may have somewhat more than its share.
      router({.index = worker_config.index,
              .worker_count = worker_config.worker_count,
              .rings = worker_config.rings,
              .claims_max =
                  worker_config.rings != nullptr ? 2 * worker_config.engine.connections_max : 1,
              .key = derive_key(worker_config.secret, "connection router")}),
      listeners(worker_config.listeners_max),
      timers(worker_config.engine.connections_max),
      sessions(make_zeroed<session::Session>(worker_config.engine.connections_max), std::free),
      transmit_queue(sessions.get()),
      time_waits(sessions.get()),
      sends(worker_config.contexts_max * channel::kSendsPerContextMax),
      contexts(kContextsMax),
      region_segment_bytes(kRegionsMax),
      loans(packet_memory.rx_slot_count(),
            {.contexts_max = kContextsMax,
             .per_context_max = worker_config.lent_slots_per_context_max,
             .per_session_max = worker_config.lent_slots_per_session_max}) {
  ports.reserve(port_bindings.size());
  for (const PortBinding& binding : port_bindings) add_port(binding);
  for (const RouteBinding& route : route_bindings) {
    add_route(static_cast<uint8_t>(route.port), ip::Prefix::of(route.network, route.prefix_bits),
              route.gateway);
  }
  follow_neighbours();
}

Worker::Impl::~Impl() {
  memory.release({loop.begin(), loop.size()});
  memory.release({tx_stock.begin(), tx_stock.size()});
  for (const Port& port : ports) memory.release(port.waiting());
}

size_t Worker::Impl::poll_once(Nanos time) {
  now = time;
  size_t work = drain_inbox();
  work += receive();
  work += take_submissions();
  work += run_timers();
  work += transmit();
  work += announce_all();
  work += leave_lost_addresses();
  work += finish_removals();
  work += finish_detaching();
  work += continue_shutdown();
  router.wake_workers();
  stats.worker->polls.add(1);
  if (work > 0) stats.worker->busy_polls.add(1);
  work_since_stats += work;
  if (stats_due <= now && work_since_stats > 0) write_stats();
  return work;
}

Nanos Worker::Impl::next_deadline() const {
  Nanos deadline = earlier(timers.next_deadline(), neighbours.next_deadline());
  if (has_untold) deadline = earlier(deadline, now + kUntoldRetry);
  if (work_since_stats > 0) deadline = earlier(deadline, stats_due);
  return deadline;
}

bool Worker::Impl::has_waiting_work() {
  if (router.has_messages()) return true;
  if (!inbox.is_empty() || client_memory.leaving_count() > 0 || !loop.empty()) return true;
  if (!transmit_queue.empty() || transmit_queue.is_waking()) return true;
  if (shutdown_walk.is_under_way() || lost_addresses_walk.is_under_way()) return true;
  for (uint32_t index : contexts.in_use()) {
    Context& context = contexts[index];
    if (context.state == Context::State::kAttached && context.submissions.available() > 0) {
      return true;
    }
    if (context.state == Context::State::kDetaching) return true;
  }
  return false;
}

Worker::Worker(const WorkerConfig& config, io::PacketMemory& memory,
               std::span<const PortBinding> ports, std::span<const RouteBinding> routes,
               StatsBinding stats)
    : impl_(std::make_unique<Impl>(config, memory, ports, routes, stats)) {}
Worker::~Worker() = default;

size_t Worker::poll_once(Nanos now) { return impl_->poll_once(now); }
Nanos Worker::next_deadline() const { return impl_->next_deadline(); }
bool Worker::has_waiting_work() { return impl_->has_waiting_work(); }
uint32_t Worker::connection_count() const { return impl_->engine.connection_count(); }
void Worker::check_invariants(uint32_t connections) { impl_->check_invariants(connections); }
bool Worker::is_at_rest() const { return impl_->is_at_rest(); }
void Worker::replace_engine() { impl_->replace_engine(); }
Inbox& Worker::inbox() { return impl_->inbox; }
Outbox& Worker::outbox() { return impl_->outbox; }

}  // namespace lyre::worker
