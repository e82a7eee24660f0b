#include "tools/lyre/snapshot.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <iterator>

#include "libclient/include/lyre/lyre.h"
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

/// Copied once and used as copied: the process that wrote it may change it meanwhile.
void copy_header(const void* segment, size_t bytes, channel::StatsHeader& out) {
  std::memcpy(static_cast<void*>(&out), part(segment, bytes, 0, 1, sizeof out), sizeof out);
}

WorkerSnapshot copy_worker(const channel::WorkerStats& from) {
  WorkerSnapshot to;
  size_t at = 0;
#define LYRE_X(name, text) to.counters[at++] = from.name.get();
  LYRE_WORKER_COUNTERS(LYRE_X)
#undef LYRE_X
  for (size_t i = 0; i < kDropCount; ++i) to.drops[i] = from.drops[i].get();
  to.sessions_open = from.sessions_open.get();
  to.time_waits = from.time_waits.get();
  to.sessions_without_row = from.sessions_without_row.get();
  to.rx_slots_free = from.rx_slots_free.get();
  to.rx_slots_total = from.rx_slots_total.get();
  to.is_core_lost = from.is_core_lost.get() != 0;
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
  to.offloads = from.offloads;
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

QueueSnapshot copy_queue(const channel::QueueStats& from) {
  QueueSnapshot to;
  size_t at = 0;
#define LYRE_X(name, text) to.counters[at++] = from.name.get();
  LYRE_QUEUE_COUNTERS(LYRE_X)
#undef LYRE_X
  return to;
}

void add_queue(const channel::QueueStats& queue, PortSnapshot& port) {
  port.queues.push_back(copy_queue(queue));
  channel::ClaimView claim;
  if (!queue.claim.read(claim)) return;
  if (!port.claim || claim.seen_unix_ns > port.claim->seen_unix_ns) port.claim = claim;
}

/// Appends the rows that are used.
template <typename View>
void copy_rows(const void* segment, size_t bytes, uint64_t offset, uint64_t count,
               std::vector<View>& out) {
  using Row = channel::StatsRow<View>;
  const auto* rows = reinterpret_cast<const Row*>(part(segment, bytes, offset, count, sizeof(Row)));
  View view;
  for (uint64_t i = 0; i < count; ++i) {
    if (rows[i].read(view)) out.push_back(view);
  }
}

/// Appends the traces of sessions that are open.
void add_open_traces(const void* segment, size_t bytes, const channel::StatsHeader& header,
                     const IsTraceWanted& is_wanted, std::vector<SessionTrace>& out) {
  const uint64_t workers = header.worker_count;
  const auto* rings = reinterpret_cast<const channel::TraceRing*>(
      part(segment, bytes, header.traces_offset, workers * header.trace_rings,
           sizeof(channel::TraceRing)));
  const auto* rows = reinterpret_cast<const channel::SessionRow*>(
      part(segment, bytes, header.sessions_offset, workers * header.session_rows,
           sizeof(channel::SessionRow)));
  channel::TraceEvent events[channel::TraceRing::kEvents];
  channel::SessionView view;
  for (uint64_t i = 0; i < workers * header.trace_rings; ++i) {
    const uint64_t worker = i / header.trace_rings;
    const uint64_t index = i % header.trace_rings;
    if (index >= header.session_rows) continue;
    if (!rows[worker * header.session_rows + index].read(view)) continue;
    if (view.is_listener != 0 || !is_wanted(view, false)) continue;
    const uint32_t count = rings[i].read(view.opened_unix_ns, events);
    out.push_back({.session = view, .events = {events, events + count}});
  }
}

int64_t read_clock_ns(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

ConnectionKey key_of(const channel::SessionView& view) {
  ConnectionKey key{.worker = view.worker,
                    .local_port = view.local_port,
                    .remote_port = view.remote_port,
                    .opened_unix_ns = view.opened_unix_ns};
  std::copy(std::begin(view.remote_address), std::end(view.remote_address),
            key.remote_address.begin());
  return key;
}

/// Gauges are written one by one: one may be new while the other is old.
uint64_t sessions_in_use(const WorkerSnapshot& worker) {
  return worker.sessions_open - std::min(worker.sessions_open, worker.time_waits);
}

QueueSnapshot sum_of_queues(const PortSnapshot& port) {
  QueueSnapshot sum;
  for (const QueueSnapshot& queue : port.queues) {
    for (size_t i = 0; i < kQueueCounterCount; ++i) sum.counters[i] += queue.counters[i];
  }
  return sum;
}

uint64_t missed_of(const PortSnapshot& port) {
  return port.rx_missed + sum_of_queues(port)[QueueCounter::rx_missed];
}

Snapshot read_snapshot(const void* segment, size_t bytes, int64_t monotonic_ns) {
  channel::StatsHeader header;
  copy_header(segment, bytes, header);
  Snapshot out;
  out.daemon_name = bounded_text(header.daemon_name);
  out.daemon_version = bounded_text(header.daemon_version);
  out.idle_policy = bounded_text(header.idle_policy);
  out.pid = header.pid;
  out.has_hugepages = header.hugepages != 0;
  out.started_unix_ns = header.started_unix_ns;
  out.taken_unix_ns = monotonic_ns + header.unix_offset_ns;
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
  const auto* queues = reinterpret_cast<const channel::QueueStats*>(
      part(segment, bytes, header.queues_offset, uint64_t{header.worker_count} * header.port_count,
           sizeof(channel::QueueStats)));
  for (uint32_t i = 0; i < header.worker_count * header.port_count; ++i) {
    add_queue(queues[i], out.ports[i % header.port_count]);
  }
  const uint64_t worker_count = header.worker_count;
  copy_rows(segment, bytes, header.sessions_offset, worker_count * header.session_rows,
            out.sessions);
  for (const channel::SessionView& view : out.sessions) {
    out.totals[key_of(view)] = {view.bytes_sent, view.bytes_received, view.updated_unix_ns};
  }
  copy_rows(segment, bytes, header.clients_offset, worker_count * header.client_rows,
            out.client_views);
  copy_rows(segment, bytes, header.neighbours_offset, worker_count * header.neighbour_rows,
            out.neighbours);
  copy_rows(segment, bytes, header.routes_offset, header.route_rows, out.routes);
  out.is_domain = header.is_domain != 0;
  out.is_successor = header.is_successor != 0;
  return out;
}

std::vector<SessionTrace> read_traces(const void* segment, size_t bytes,
                                      const IsTraceWanted& is_wanted) {
  channel::StatsHeader header;
  copy_header(segment, bytes, header);
  if (header.trace_rings == 0) {
    throw Failure(kExitFailure, "traces are shown at the administrator's socket only");
  }
  std::vector<SessionTrace> out;
  add_open_traces(segment, bytes, header, is_wanted, out);
  std::vector<channel::EndedView> ended;
  copy_rows(segment, bytes, header.ended_offset, uint64_t{header.worker_count} * header.ended_rows,
            ended);
  for (const channel::EndedView& view : ended) {
    if (!is_wanted(view.session, true)) continue;
    const uint32_t count = std::min(view.event_count, channel::TraceRing::kEvents);
    out.push_back(
        {view.session, true, view.ended_unix_ns, view.status, {view.events, view.events + count}});
  }
  return out;
}

StatsSegment::StatsSegment(const char* socket_path, Whose whose) : is_past_(whose == Whose::kLast) {
  const int code = is_past_ ? client::map_last_stats_segment(socket_path, segment_)
                            : client::map_stats_segment(socket_path, segment_);
  if (code == 0) return;
  const Failure failure = library_failure(code);
  if (code != LYRE_E_VERSION || segment_.data() == nullptr) throw failure;
  throw Failure(kExitOtherRelease, failure.what(), code);
}

std::vector<SessionTrace> StatsSegment::traces(const IsTraceWanted& is_wanted) const {
  return read_traces(segment_.data(), segment_.bytes(), is_wanted);
}

std::string StatsSegment::daemon_version() const {
  channel::StatsHeader header;
  copy_header(segment_.data(), segment_.bytes(), header);
  return bounded_text(header.daemon_version);
}

int64_t StatsSegment::unix_offset_ns() const {
  channel::StatsHeader header;
  copy_header(segment_.data(), segment_.bytes(), header);
  return header.unix_offset_ns;
}

// Both clocks are read at once: the copy of a large segment takes milliseconds.
int64_t StatsSegment::clock_step_ns() const {
  const int64_t monotonic_ns = read_clock_ns(CLOCK_MONOTONIC);
  return read_clock_ns(CLOCK_REALTIME) - monotonic_ns - unix_offset_ns();
}

Snapshot StatsSegment::look() const {
  Snapshot out = read_snapshot(segment_.data(), segment_.bytes(), read_clock_ns(CLOCK_MONOTONIC));
  if (!is_past_) {
    out.clock_step_ns = clock_step_ns();
  } else {
    const auto* header = reinterpret_cast<const channel::StatsHeader*>(segment_.data());
    out.is_past = true;
    out.taken_unix_ns = static_cast<int64_t>(header->ended_unix_ns.get());
    out.has_stopped = header->has_stopped.get() != 0;
  }
  return out;
}

}  // namespace lyre::tools
