#include <algorithm>
#include <cstring>

#include "stack/channel/stats.h"
#include "stack/io/packet_io.h"
#include "stack/session/session.h"
#include "stack/tcp/engine.h"
#include "stack/worker/clients/context.h"
#include "stack/worker/impl.h"
#include "stack/worker/tables/listeners.h"
#include "stack/worker/port.h"

/// What tools see in the stats segment. A pass over all session rows is spread over turns.
namespace lyre::worker {

void Worker::Impl::write_stats() {
  const uint32_t bound = std::min(engine.index_bound(), static_cast<uint32_t>(stats.rows.size()));
  const auto end =
      static_cast<uint32_t>(std::min<size_t>(bound, stats_cursor + kSessionRowsPerPollMax));
  for (; stats_cursor < end; ++stats_cursor) {
    if (engine.is_open(stats_cursor)) write_row(stats_cursor);
  }
  if (stats_cursor < bound) return;
  stats_cursor = 0;
  stats_due = now + kStatsPeriod;
  work_since_stats = 0;
  stats.worker->sessions_open.set(engine.connection_count());
  stats.worker->rx_slots_free.set(memory.rx_slots_free());
  stats.worker->rx_slots_total.set(memory.rx_slot_count());
  write_port_counters();
}

/// Of the queues alone: what devices count is the control thread's to ask for.
void Worker::Impl::write_port_counters() {
  io::IoCounters sum;
  for (const Port& port : ports) {
    const io::IoCounters counters = port.counters();
    sum.rx_packets += counters.rx_packets;
    sum.rx_bytes += counters.rx_bytes;
    sum.tx_packets += counters.tx_packets;
    sum.tx_bytes += counters.tx_bytes;
    sum.rx_missed += counters.rx_missed;
    sum.tx_full += counters.tx_full;
    sum.tx_linearised_bytes += counters.tx_linearised_bytes;
    sum.software_checksums += counters.software_checksums;
  }
  stats.worker->rx_packets.set(sum.rx_packets);
  stats.worker->rx_bytes.set(sum.rx_bytes);
  stats.worker->tx_packets.set(sum.tx_packets);
  stats.worker->tx_bytes.set(sum.tx_bytes);
  stats.worker->rx_missed.set(sum.rx_missed);
  stats.worker->tx_full.set(sum.tx_full);
  stats.worker->tx_linearised_bytes.set(sum.tx_linearised_bytes);
  stats.worker->software_checksums.set(sum.software_checksums);
}

void Worker::Impl::write_row(uint32_t conn) {
  const session::Session& shown = sessions[conn];
  const tcp::ConnectionInfo info = engine.info(conn);
  const FourTuple& tuple = engine.tuple(conn);
  channel::SessionView view{};
  std::memcpy(view.local_address, tuple.local.address.bytes.data(), 16);
  std::memcpy(view.remote_address, tuple.remote.address.bytes.data(), 16);
  view.local_port = tuple.local.port;
  view.remote_port = tuple.remote.port;
  view.state = static_cast<uint8_t>(info.state);
  view.worker = config.index;
  if (shown.context != session::kNoContext) show_owner(view, shown.context);
  view.mss_bytes = info.mss_bytes;
  view.cwnd_bytes = info.cwnd_bytes;
  view.in_flight_bytes = info.in_flight_bytes;
  view.send_queue_bytes = info.send_queue_bytes;
  view.send_window_bytes = info.send_window_bytes;
  view.receive_window_bytes = info.receive_window_bytes;
  view.receive_charged_bytes = info.receive_charged_bytes;
  view.lent_slots = shown.lent_slots;
  view.srtt_ns = info.srtt.value;
  view.rtt_min_ns = info.rtt_min.value;
  view.rto_ns = info.rto.value;
  view.bytes_sent = info.bytes_sent;
  view.bytes_acked = info.bytes_acked;
  view.bytes_retransmitted = info.bytes_retransmitted;
  view.bytes_received = info.bytes_received;
  view.copied_tx_bytes = shown.copied_tx_bytes;
  view.copied_rx_bytes = shown.copied_rx_bytes;
  view.client_copied_tx_bytes = shown.client_copied_tx_bytes;
  view.client_copied_rx_bytes = shown.client_copied_rx_bytes;
  view.timeouts = info.timeouts;
  view.fast_recoveries = info.fast_recoveries;
  view.congestion = static_cast<uint8_t>(info.congestion);
  view.has_ecn = info.has_ecn ? 1 : 0;
  view.ecn_reductions = info.ecn_reductions;
  view.undone_reductions = info.undone_reductions;
  view.opened_unix_ns = shown.opened_at.value + config.unix_offset_ns;
  view.updated_unix_ns = now.value + config.unix_offset_ns;
  stats.rows[conn].write(&view);
}

void Worker::Impl::show_owner(channel::SessionView& view, uint32_t context) const {
  const Context& owner = contexts[context];
  view.is_lent = owner.is_lent;
  view.pid = owner.attached.pid;
  std::memcpy(view.label, owner.attached.label.data(), sizeof view.label);
}

/// Listeners have the rows behind those of the connections; one that was closed clears its row.
void Worker::Impl::write_listener_row(uint32_t index) {
  const uint64_t row = uint64_t{config.engine.connections_max} + index;
  if (row >= stats.rows.size()) return;
  if (!listeners.is_open(index)) return stats.rows[row].write(nullptr);
  const Listener& shown = listeners[index];
  channel::SessionView view{};
  std::memcpy(view.local_address, shown.local.address.bytes.data(), 16);
  view.local_port = shown.local.port;
  view.is_listener = 1;
  view.worker = config.index;
  show_owner(view, shown.context);
  stats.rows[row].write(&view);
}

}  // namespace lyre::worker
