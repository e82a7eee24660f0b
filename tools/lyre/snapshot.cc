#include "tools/lyre/snapshot.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>

#include "tools/lyre/failure.h"

namespace lyre::tools {
namespace {

template <size_t kBytes>
std::string bounded_text(const char (&text)[kBytes]) {
  return std::string(text, ::strnlen(text, kBytes));
}

/// Returns the part [offset, offset + count * item_bytes) of the segment.
/// Fails: throws Failure when it is not inside.
const uint8_t* part(const void* segment, size_t bytes, uint64_t offset, uint64_t count,
                    uint64_t item_bytes) {
  const bool is_inside = offset <= bytes && count <= (bytes - offset) / item_bytes;
  if (!is_inside || offset % alignof(channel::StatsHeader) != 0) {
    throw Failure(kExitFailure, "the daemon's stats segment is shorter than its header says");
  }
  return static_cast<const uint8_t*>(segment) + offset;
}

WorkerSnapshot copy_worker(const channel::WorkerStats& from) {
  WorkerSnapshot to;
  size_t at = 0;
#define LYRE_X(name, text) to.counters[at++] = from.name.get();
  LYRE_WORKER_COUNTERS(LYRE_X)
#undef LYRE_X
  for (size_t i = 0; i < kDropCount; ++i) to.drops[i] = from.drops[i].get();
  to.sessions_open = from.sessions_open.get();
  to.rx_slots_free = from.rx_slots_free.get();
  to.rx_slots_total = from.rx_slots_total.get();
  return to;
}

PortSnapshot copy_port(const channel::StatsPort& from) {
  PortSnapshot to;
  to.name = bounded_text(from.name);
  to.device = bounded_text(from.device);
  to.pci_path = bounded_text(from.pci_path);
  const uint32_t count = std::min(from.address_count, channel::kPortAddressesMax);
  to.addresses.assign(from.addresses, from.addresses + count);
  std::memcpy(to.mac, from.mac, sizeof to.mac);
  to.mtu_bytes = from.mtu_bytes;
  // Relaxed: nothing else depends on these values.
  to.speed_mbps = from.speed_mbps.load(std::memory_order_relaxed);
  to.flow_mbps = from.flow_mbps.load(std::memory_order_relaxed);
  to.is_link_up = from.is_link_up.load(std::memory_order_relaxed) != 0;
  to.state = from.state.load(std::memory_order_relaxed);
  to.rx_missed = from.rx_missed.get();
  // Acquire: pairs with the release of the daemon, which has written the names before.
  const uint32_t counters = from.device_counter_count.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < std::min(counters, channel::kDeviceCountersMax); ++i) {
    const uint64_t value = from.device_counters[i].value.get();
    if (value > 0)
      to.device_counters.emplace_back(bounded_text(from.device_counters[i].name), value);
  }
  return to;
}

void add_session(const channel::SessionView& view, Snapshot& to) {
  to.sessions.push_back(view);
  to.totals[key_of(view)] = {view.bytes_sent, view.bytes_received, view.updated_unix_ns};
}

}  // namespace

std::string link_text(const PortSnapshot& port) {
  static constexpr const char* kStates[] = {"", "resetting", "recovering", "away", "draining"};
  if (port.state > 0 && port.state < std::size(kStates)) return kStates[port.state];
  return port.is_link_up ? "up" : "down";
}

ConnectionKey key_of(const channel::SessionView& view) {
  ConnectionKey key{.worker = view.worker,
                    .local_port = view.local_port,
                    .remote_port = view.remote_port,
                    .opened_unix_ns = view.opened_unix_ns};
  std::copy(std::begin(view.remote_address), std::end(view.remote_address),
            key.remote_address.begin());
  return key;
}

Snapshot read_snapshot(const void* segment, size_t bytes, int64_t now_unix_ns) {
  const auto& header = *reinterpret_cast<const channel::StatsHeader*>(
      part(segment, bytes, 0, 1, sizeof(channel::StatsHeader)));
  Snapshot out;
  out.daemon_name = bounded_text(header.daemon_name);
  out.daemon_version = bounded_text(header.daemon_version);
  out.idle_policy = bounded_text(header.idle_policy);
  out.pid = header.pid;
  out.has_hugepages = header.hugepages != 0;
  out.started_unix_ns = header.started_unix_ns;
  out.taken_unix_ns = now_unix_ns;
  out.clients = header.clients.get();
  out.clients_total = header.clients_total.get();
  const uint8_t* ports =
      part(segment, bytes, header.ports_offset, header.port_count, sizeof(channel::StatsPort));
  for (uint32_t i = 0; i < header.port_count; ++i) {
    out.ports.push_back(copy_port(reinterpret_cast<const channel::StatsPort*>(ports)[i]));
  }
  const uint8_t* workers =
      part(segment, bytes, header.workers_offset, header.worker_count, channel::kWorkerStride);
  for (uint32_t i = 0; i < header.worker_count; ++i) {
    out.workers.push_back(copy_worker(*reinterpret_cast<const channel::WorkerStats*>(
        workers + size_t{i} * channel::kWorkerStride)));
  }
  const uint64_t rows = uint64_t{header.worker_count} * header.session_rows;
  const auto* row = reinterpret_cast<const channel::SessionRow*>(
      part(segment, bytes, header.sessions_offset, rows, sizeof(channel::SessionRow)));
  for (uint64_t i = 0; i < rows; ++i) {
    channel::SessionView view;
    if (row[i].read(view)) add_session(view, out);
  }
  const uint64_t client_rows = uint64_t{header.worker_count} * header.client_rows;
  const auto* client = reinterpret_cast<const channel::ClientRow*>(
      part(segment, bytes, header.clients_offset, client_rows, sizeof(channel::ClientRow)));
  for (uint64_t i = 0; i < client_rows; ++i) {
    channel::ClientView view;
    if (client[i].read(view)) out.client_views.push_back(view);
  }
  return out;
}

StatsSegment::StatsSegment(const char* socket_path) {
  const int code = client::map_stats_segment(socket_path, segment_);
  if (code != 0) throw library_failure(code);
}

Snapshot StatsSegment::look() const {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return read_snapshot(segment_.data(), segment_.bytes(),
                       std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

}  // namespace lyre::tools
