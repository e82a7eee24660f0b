#include "stack/worker/stats_writer.h"

#include <algorithm>
#include <cstring>

#include "stack/session/session.h"
#include "stack/worker/session_view.h"
#include "stack/worker/turn_limits.h"

namespace lyre::worker {

void StatsWriter::after_turn(size_t work) {
  state_.stats.worker->polls.add(1);
  if (work > 0) state_.stats.worker->busy_polls.add(1);
  has_changed_ |= work > 0;
  if (!is_in_pass_ && has_changed_ && due_ <= state_.now) {
    // What changes after a row was written asks for another pass.
    is_in_pass_ = true;
    has_changed_ = false;
  }
  if (is_in_pass_) write_some();
}

void StatsWriter::write_some() {
  const uint32_t bound = std::min({state_.engine.index_bound(), state_.stats.connection_rows,
                                   static_cast<uint32_t>(state_.stats.rows.size())});
  const auto end = static_cast<uint32_t>(std::min<size_t>(bound, cursor_ + kSessionRowsPerPollMax));
  for (; cursor_ < end; ++cursor_) {
    if (state_.engine.is_open(cursor_)) write_row(cursor_);
  }
  if (cursor_ < bound) return;
  write_some_clients();
  if (client_cursor_ < state_.contexts.in_use().size()) return;
  if (!network_.write_some_neighbours()) return;
  write_gauges();
  cursor_ = client_cursor_ = 0;
  due_ = state_.now + kStatsPeriod;
  is_in_pass_ = false;
  write_port_counters();
  network_.write_routes();
}

void StatsWriter::write_gauges() {
  channel::WorkerStats& shown = *state_.stats.worker;
  shown.sessions_open.set(state_.engine.connection_count());
  shown.time_waits.set(state_.time_waits);
  shown.sessions_without_row.set(state_.without_row);
  shown.rx_slots_free.set(state_.memory.rx_slots_free());
  shown.rx_slots_total.set(state_.memory.rx_slot_count());
}

void StatsWriter::write_some_clients() {
  const auto in_use = state_.contexts.in_use();
  const auto end =
      static_cast<uint32_t>(std::min(in_use.size(), client_cursor_ + kSessionRowsPerPollMax));
  for (; client_cursor_ < end; ++client_cursor_) write_client(in_use[client_cursor_]);
}

void StatsWriter::write_client(uint32_t index) {
  const Context& shown = state_.contexts[index];
  channel::ClientView view{};
  view.context = index;
  view.worker = state_.config.index;
  view.pid = shown.attached.pid;
  view.uid = shown.attached.uid;
  std::memcpy(view.label, shown.attached.label.data(), sizeof view.label);
  view.is_lent = shown.is_lent ? 1 : 0;
  view.sessions = shown.sessions.size();
  view.listeners = shown.listeners.size();
  view.sends_under_way = shown.sends_under_way;
  view.sends_max = channel::kSendsPerContextMax;
  view.rx_slots_held = state_.accounts.held_by(index);
  view.rx_slots_lent = state_.loans.lent_to(index);
  view.rx_slots_max = state_.accounts.limit_of(index, state_.memory.rx_slots_free());
  add_memory(view, shown.attached);
  add_places(view, shown.attached);
  state_.stats.write_client(index, &view, domain_of(index));
}

void StatsWriter::add_memory(channel::ClientView& view, const Command& attached) const {
  const ClientLimits& limits = attached.limits;
  view.regions = state_.client_memory.registered_count_of(view.context);
  view.regions_max = limits.regions;
  view.arena_bytes = attached.memory_bytes;
  view.registered_bytes = state_.client_memory.registered_bytes_of(view.context);
  view.registered_bytes_max = limits.registered_bytes;
  view.user = DomainRules::user_of(attached.domain, attached.uid);
  view.user_contexts_max = limits.contexts_of_user;
  view.user_arena_bytes_max = limits.arena_bytes_of_user;
  view.user_registered_bytes_max = limits.registered_bytes_of_user;
  view.user_regions_max = limits.regions_of_user;
}

/// Those of its user are those of its client, too.
void StatsWriter::add_places(channel::ClientView& view, const Command& attached) const {
  const PlaceLimits& limits = state_.places.limits();
  const DomainRules none;
  const DomainRules& rules = attached.domain == nullptr ? none : *attached.domain;
  view.user_sessions_max = std::min(limits.sessions_per_user, rules.sessions_max);
  view.user_listeners_max = std::min(limits.listeners_per_user, rules.listeners_max);
  view.sessions_max = std::min(limits.sessions_per_client, view.user_sessions_max);
  view.listeners_max = std::min(limits.listeners_per_client, view.user_listeners_max);
}

void StatsWriter::write_port_counters() {
  const io::IoCounters sum = network_.write_queues();
  state_.stats.worker->rx_packets.set(sum.rx_packets);
  state_.stats.worker->rx_bytes.set(sum.rx_bytes);
  state_.stats.worker->tx_packets.set(sum.tx_packets);
  state_.stats.worker->tx_bytes.set(sum.tx_bytes);
  state_.stats.worker->rx_missed.set(sum.rx_missed);
  state_.stats.worker->tx_full.set(sum.tx_full);
  state_.stats.worker->tx_dropped.set(sum.tx_dropped);
  state_.stats.worker->tx_linearised_bytes.set(sum.tx_linearised_bytes);
  state_.stats.worker->software_checksums.set(sum.software_checksums);
}

void StatsWriter::write_row(uint32_t conn) {
  const channel::SessionView view = view_of(state_, conn);
  state_.stats.write_row(conn, &view, domain_of(state_.sessions[conn].context));
}

/// UINT32_MAX for a session that its client left: it belongs to the daemon.
uint32_t StatsWriter::domain_of(uint32_t context) const {
  if (context == session::kNoContext) return UINT32_MAX;
  const DomainRules* rules = state_.contexts[context].attached.domain;
  return rules == nullptr ? UINT32_MAX : rules->index;
}

void StatsWriter::write_listener_row(uint32_t index) {
  const uint64_t first =
      std::min(state_.config.engine.connections_max, state_.stats.connection_rows);
  const uint64_t row = first + index;
  if (row >= state_.stats.rows.size()) return;
  if (!state_.listeners.is_open(index)) return state_.stats.write_row(row, nullptr);
  const Listener& shown = state_.listeners[index];
  channel::SessionView view{};
  std::memcpy(view.local_address, shown.local.address.bytes.data(), 16);
  view.local_port = shown.local.port;
  view.is_listener = 1;
  view.worker = state_.config.index;
  show_owner(state_, view, shown.context);
  state_.stats.write_row(row, &view, domain_of(shown.context));
}

}  // namespace lyre::worker
