#include "daemon/stats/stats_segment.h"

#include <unistd.h>

#include <new>

#include "daemon/protocol/control_message.h"
#include "stack/base/page_size.h"

#ifndef LYRE_VERSION
#error "the build names the version"
#endif

namespace lyre {
namespace {

/// Parts one after the other, each in pages of its own.
class Layout {
 public:
  /// Returns where the part begins.
  uint64_t add(uint64_t bytes) {
    const uint64_t begin = bytes_;
    bytes_ += whole_pages(bytes, system_page_bytes());
    return begin;
  }
  uint64_t bytes() const { return bytes_; }

 private:
  uint64_t bytes_ = 0;
};

/// Everything but where the parts are.
void show_options(channel::StatsHeader& header, const StatsOptions& options) {
  header.version = channel::kStatsVersion;
  header.worker_count = options.worker_count;
  header.session_rows = options.session_rows;
  header.client_rows = options.client_rows;
  header.port_count = options.port_count;
  header.neighbour_rows = options.neighbour_rows;
  header.route_rows = options.route_rows;
  header.trace_rings = options.trace_rings;
  header.ended_rows = options.ended_rows;
  header.is_domain = options.is_domain ? 1 : 0;
  header.pid = ::getpid();
  header.hugepages = options.has_hugepages ? 1 : 0;
  header.started_unix_ns = options.started_unix_ns;
  header.unix_offset_ns = options.unix_offset_ns;
  copy_text(header.daemon_name, options.daemon_name);
  copy_text(header.daemon_version, LYRE_VERSION);
  copy_text(header.idle_policy, options.idle_policy);
}

}  // namespace

Result<StatsSegment> StatsSegment::create(const StatsOptions& options) {
  const uint64_t workers = options.worker_count;
  Layout layout;
  layout.add(sizeof(channel::StatsHeader));
  const uint64_t workers_offset = layout.add(workers * channel::kWorkerStride);
  const uint64_t ports_offset = layout.add(options.port_count * sizeof(channel::StatsPort));
  const uint64_t queues_offset =
      layout.add(workers * options.port_count * sizeof(channel::QueueStats));
  const uint64_t sessions_offset =
      layout.add(workers * options.session_rows * sizeof(channel::SessionRow));
  const uint64_t clients_offset =
      layout.add(workers * options.client_rows * sizeof(channel::ClientRow));
  const uint64_t neighbours_offset =
      layout.add(workers * options.neighbour_rows * sizeof(channel::NeighbourRow));
  const uint64_t routes_offset = layout.add(options.route_rows * sizeof(channel::RouteRow));
  const uint64_t traces_offset =
      layout.add(workers * options.trace_rings * sizeof(channel::TraceRing));
  const uint64_t ended_offset =
      layout.add(workers * options.ended_rows * sizeof(channel::EndedRow));
  const uint64_t total = layout.bytes();
  auto memory = SharedMemory::create("lyre-stats", total, SharedWith::kReaders);
  if (!memory.ok()) return memory.error();
  auto reader = reopen_read_only(memory->fd());
  if (!reader.ok()) return reader.error();

  StatsSegment segment;
  segment.memory_ = std::move(*memory);
  segment.reader_ = std::move(*reader);
  auto* header = new (segment.memory_.data()) channel::StatsHeader{};
  show_options(*header, options);
  header->total_bytes = total;
  header->workers_offset = workers_offset;
  header->sessions_offset = sessions_offset;
  header->ports_offset = ports_offset;
  header->clients_offset = clients_offset;
  header->queues_offset = queues_offset;
  header->neighbours_offset = neighbours_offset;
  header->routes_offset = routes_offset;
  header->traces_offset = traces_offset;
  header->ended_offset = ended_offset;
  header->magic = channel::kStatsMagic;
  return segment;
}

channel::StatsHeader& StatsSegment::header() const {
  return *reinterpret_cast<channel::StatsHeader*>(memory_.data());
}

channel::WorkerStats& StatsSegment::worker(uint32_t index) const {
  return *reinterpret_cast<channel::WorkerStats*>(memory_.data() + header().workers_offset +
                                                  index * channel::kWorkerStride);
}

template <typename Item>
std::span<Item> StatsSegment::part(uint64_t offset, uint64_t worker, uint64_t count) const {
  return {reinterpret_cast<Item*>(memory_.data() + offset) + worker * count, count};
}

std::span<channel::SessionRow> StatsSegment::rows(uint32_t worker) const {
  return part<channel::SessionRow>(header().sessions_offset, worker, header().session_rows);
}

std::span<channel::ClientRow> StatsSegment::clients(uint32_t worker) const {
  return part<channel::ClientRow>(header().clients_offset, worker, header().client_rows);
}

std::span<channel::QueueStats> StatsSegment::queues(uint32_t worker) const {
  return part<channel::QueueStats>(header().queues_offset, worker, header().port_count);
}

std::span<channel::NeighbourRow> StatsSegment::neighbours(uint32_t worker) const {
  return part<channel::NeighbourRow>(header().neighbours_offset, worker, header().neighbour_rows);
}

std::span<channel::RouteRow> StatsSegment::routes() const {
  return part<channel::RouteRow>(header().routes_offset, 0, header().route_rows);
}

std::span<channel::TraceRing> StatsSegment::traces(uint32_t worker) const {
  return part<channel::TraceRing>(header().traces_offset, worker, header().trace_rings);
}

std::span<channel::EndedRow> StatsSegment::ended(uint32_t worker) const {
  return part<channel::EndedRow>(header().ended_offset, worker, header().ended_rows);
}

channel::StatsPort& StatsSegment::port(uint32_t index) const {
  return reinterpret_cast<channel::StatsPort*>(memory_.data() + header().ports_offset)[index];
}

}  // namespace lyre
