#include "stack/worker/worker.h"

#include <algorithm>
#include <memory>

#include "stack/tcp/engine.h"
#include "stack/worker/backoff.h"
#include "stack/worker/handover_reader.h"
#include "stack/worker/handover_writer.h"
#include "stack/worker/inbox.h"
#include "stack/worker/parts.h"
#include "stack/worker/tables/connection_walk.h"
#include "stack/worker/turn_limits.h"

namespace lyre::worker {

/// Runs the turns of the worker.
struct Worker::Impl : Parts {
  Impl(const WorkerConfig& config, io::PacketMemory& memory, std::span<const PortBinding> bindings,
       std::span<const RouteBinding> routes, StatsBinding stats);

  size_t poll_once(Nanos now);
  Nanos next_deadline() const;
  bool has_waiting_work();

  size_t drain_inbox();
  void begin_capture(const Command& command);
  size_t receive();
  size_t receive_local();
  void shut_down();
  size_t continue_shutdown();
  void look_for_room(bool has_work);

  bool is_at_rest() const;
  void replace_engine();

  Inbox inbox;
  Backoff room_retry{kRoomRetryFirst, kRoomRetryLongest};
  ConnectionWalk shutdown_walk;
  uint32_t sessions_lost = 0;     ///< in take_over()
  const char* refusal = nullptr;  ///< of take_over()
  uint32_t next_to_claim = 0;     ///< after take_over(): connections below this are claimed
};

Worker::Impl::Impl(const WorkerConfig& config, io::PacketMemory& memory,
                   std::span<const PortBinding> bindings, std::span<const RouteBinding> routes,
                   StatsBinding stats)
    : Parts(config, memory, bindings.size(), stats) {
  for (const PortBinding& binding : bindings) neighbourhood.add_port(binding);
  for (const RouteBinding& route : routes) {
    neighbourhood.add_route(static_cast<uint8_t>(route.port),
                            ip::Prefix::of(route.network, route.prefix_bits), route.gateway);
  }
  neighbourhood.update_routes();
}

size_t Worker::Impl::poll_once(Nanos now) {
  state.now = now;
  size_t work = drain_inbox();
  work += receive();
  work += submissions.take();
  work += lifecycle.run_timers() + neighbourhood.run_timers();
  work += transmission.transmit();
  holds.advance();
  work += announcements.announce_all();
  if (neighbourhood.is_leaving_addresses()) work += neighbourhood.leave_lost_addresses();
  if (regions.has_work()) work += regions.finish_removals();
  if (contexts.are_detaching()) work += contexts.continue_detaching();
  work += continue_shutdown();
  work += pressure.relieve();
  holds.end_turn();
  state.router.end_turn();
  stats_writer.after_turn(work);
  look_for_room(work > 0);
  return work;
}

/// Clients may have no room for what they must be told.
void Worker::Impl::look_for_room(bool has_work) {
  if (has_work || !(state.notifier.has_untold() || submissions.are_held_up())) {
    room_retry.reset();
  } else {
    static_cast<void>(room_retry.stall(state.now));
  }
}

Nanos Worker::Impl::next_deadline() const {
  Nanos deadline = earlier(state.timers.next_deadline(), state.neighbours.next_deadline());
  deadline = earlier(deadline, room_retry.next_deadline());
  deadline = earlier(deadline, earlier(contexts.next_deadline(), pressure.next_deadline()));
  deadline = earlier(deadline, earlier(transmission.next_deadline(), holds.next_deadline()));
  return earlier(deadline, stats_writer.next_deadline());
}

bool Worker::Impl::has_waiting_work() {
  if (state.router.has_messages() || !inbox.is_empty() || output.has_local()) return true;
  if (transmission.has_work() || submissions.are_waiting()) return true;
  if (shutdown_walk.is_under_way() || neighbourhood.is_leaving_addresses()) return true;
  // What only waits for the ports has a deadline.
  return holds.has_work() || regions.has_work() || contexts.has_work();
}

size_t Worker::Impl::drain_inbox() {
  if (inbox.is_empty()) return 0;
  size_t taken = 0;
  Command command;
  while (taken < kCommandsPerPollMax && inbox.try_take(command)) {
    ++taken;
    switch (command.kind) {
      case Command::Kind::kAttach:
        contexts.attach(command);
        break;
      case Command::Kind::kDetach:
        contexts.detach(command);
        break;
      case Command::Kind::kShutdown:
        shut_down();
        break;
      case Command::Kind::kAddRegion:
        regions.add(command);
        break;
      case Command::Kind::kRemoveRegion:
        regions.begin_removal(command);
        break;
      case Command::Kind::kLinkUp:
        state.neighbours.on_link_up(command.port, state.now);
        break;
      case Command::Kind::kBeginCapture:
        begin_capture(command);
        break;
      case Command::Kind::kEndCapture:
        state.ports[command.port].set_capture(nullptr);
        replies.post({.kind = Reply::Kind::kCaptureEnded, .capture = command.capture});
        break;
      case Command::Kind::kNone:
        break;
    }
  }
  return taken;
}

void Worker::Impl::begin_capture(const Command& command) {
  command.capture->begin({.now = &state.now,
                          .unix_offset_ns = state.config.unix_offset_ns,
                          .clients = &state.client_memory});
  state.ports[command.port].set_capture(command.capture);
}

size_t Worker::Impl::receive() {
  io::PacketBuf* burst[kRxBurstPackets];
  size_t received = 0;
  for (size_t index = 0; index < state.ports.size(); ++index) {
    for (size_t round = 0; round < kRxBurstsPerPollMax; ++round) {
      const size_t count = state.ports[index].receive(burst);
      // The rings are read after the burst: a packet of the burst may answer what another worker
      // sent after its claim, and that claim is then in a ring already.
      received += state.router.take_messages(inter_worker);
      for (size_t i = 0; i < count; ++i) {
        burst[i]->port = static_cast<uint8_t>(index);
        input.on_packet(burst[i], ip::Origin::kWire, Redirect::kYes);
      }
      received += count;
      if (count < kRxBurstPackets) break;
    }
    // Only packets of one port are merged, so nothing waits beyond the port's bursts.
    segment_input.deliver_merged();
  }
  return received + receive_local();
}

/// What is delivered locally meanwhile waits for the next turn.
size_t Worker::Impl::receive_local() {
  if (!output.has_local()) return 0;
  const std::span<io::PacketBuf* const> packets = output.take_local();
  for (io::PacketBuf* packet : packets) {
    input.on_packet(packet, ip::Origin::kLocal, Redirect::kNo);
  }
  segment_input.deliver_merged();
  return packets.size();
}

/// The daemon stops: every session is reset and its client told, as far as its ring has room.
void Worker::Impl::shut_down() {
  state.is_shutting_down = true;
  shutdown_walk.begin();
}

size_t Worker::Impl::continue_shutdown() {
  if (!shutdown_walk.is_under_way()) return 0;
  const size_t count = shutdown_walk.step(state.engine.index_bound(), kConnectionsPerWalkStepMax,
                                          [this](uint32_t conn) {
                                            if (!state.engine.is_open(conn)) return;
                                            lifecycle.abort(conn, channel::EndStatus::kShutdown);
                                            lifecycle.release_if_done(conn);
                                          });
  for (Port& port : state.ports) port.flush();
  if (shutdown_walk.is_under_way()) return count;
  announcements.announce_all();
  replies.post({.kind = Reply::Kind::kShutDown});
  return count + 1;
}

bool Worker::Impl::is_at_rest() const {
  const bool has_unsent = std::any_of(state.ports.begin(), state.ports.end(),
                                      [](const Port& port) { return !port.waiting().empty(); });
  return state.engine.connection_count() == 0 && state.contexts.in_use().empty() &&
         state.loans.empty() && state.inherited_loans.empty() && state.accounts.empty() &&
         !has_unsent && state.neighbours.cache().holders() == 0 && !output.has_local() &&
         state.transmit_queue.empty() && state.notifier.failed_open_count() == 0;
}

void Worker::Impl::replace_engine() {
  const tcp::EngineConfig& config = state.config.engine;
  tcp::Engine copy(config, {}, state.config.seed);  // copy_from() brings the key
  copy.copy_from(state.engine);
  std::destroy_at(&state.engine);
  std::construct_at(&state.engine, config, SipKey{}, state.config.seed);
  state.engine.copy_from(copy);
}

Worker::Worker(const WorkerConfig& config, io::PacketMemory& memory,
               std::span<const PortBinding> ports, std::span<const RouteBinding> routes,
               StatsBinding stats)
    : impl_(std::make_unique<Impl>(config, memory, ports, routes, stats)) {}
Worker::~Worker() = default;

size_t Worker::poll_once(Nanos now) { return impl_->poll_once(now); }
void Worker::repeat_an_ack() { impl_->transmission.repeat_an_ack(); }
void Worker::on_standstill(Nanos stood_still, Nanos pause) {
  const bool was_paused = pause > Nanos{0};
  impl_->state.engine.on_standstill(stood_still,
                                    was_paused ? std::optional(impl_->state.now) : std::nullopt);
  impl_->contexts.on_standstill(stood_still);
  if (was_paused) impl_->pressure.on_pause(pause);
}
Nanos Worker::next_deadline() const { return impl_->next_deadline(); }
bool Worker::has_waiting_work() { return impl_->has_waiting_work(); }
uint32_t Worker::connection_count() const { return impl_->state.engine.connection_count(); }
void Worker::check_invariants(uint32_t connections) { impl_->invariants.check(connections); }
bool Worker::is_at_rest() const { return impl_->is_at_rest(); }
void Worker::replace_engine() { impl_->replace_engine(); }
size_t Worker::take_messages() {
  const size_t taken = impl_->state.router.take_messages(impl_->inter_worker);
  impl_->state.notifier.ring_doorbells();
  return taken;
}
void Worker::write_handover(record::Writer& out) {
  HandoverWriter(impl_->state, impl_->state.engine, impl_->state.memory)
      .write(impl_->lifecycle.generations(), out);
}
bool Worker::take_over(std::span<const Command> memory, record::Reader& in, Nanos now) {
  impl_->state.now = now;
  impl_->state.timers.advance(now, 0, [](uint32_t) {});
  HandoverReader reader(impl_->state, {impl_->lifecycle, impl_->contexts, impl_->regions,
                                       impl_->payload, impl_->replies, impl_->stats_writer});
  const bool is_taken = reader.take_over(memory, in);
  impl_->sessions_lost = reader.sessions_lost();
  impl_->refusal = reader.refusal();
  // Received bytes were copied by this thread, which is not the worker's.
  impl_->state.memory.return_cached();
  return is_taken;
}
std::vector<IpAddress> Worker::verified_addresses(uint32_t port) const {
  std::vector<IpAddress> out;
  for (const link::Ndp::Own& own : impl_->state.neighbours.ndp().addresses()) {
    const bool is_verified = own.port == port && own.state == link::AddressState::kUsable;
    if (is_verified) out.push_back(own.address.address);
  }
  return out;
}
const char* Worker::refusal() const { return impl_->refusal; }
uint32_t Worker::sessions_lost() const { return impl_->sessions_lost; }
bool Worker::try_claim_all() {
  WorkerState& state = impl_->state;
  state.router.take_messages(impl_->inter_worker);
  for (uint32_t& conn = impl_->next_to_claim; conn < state.engine.index_bound(); ++conn) {
    if (!state.engine.is_open(conn)) continue;
    if (!state.router.can_claim(state.engine.tuple(conn))) return false;
    static_cast<void>(state.router.claim(state.engine.tuple(conn)));
  }
  return true;
}
Inbox& Worker::inbox() { return impl_->inbox; }
Outbox& Worker::outbox() { return impl_->replies.outbox(); }

}  // namespace lyre::worker
