#include "daemon/stats/stats_segment.h"

#include <unistd.h>

#include <new>

#include "daemon/protocol/control_message.h"

#ifndef LYRE_VERSION
#error "the build names the version"
#endif

namespace lyre {
namespace {

constexpr uint64_t kSegmentPageBytes = 4096;

constexpr uint64_t round_up(uint64_t bytes) {
  return (bytes + kSegmentPageBytes - 1) & ~(kSegmentPageBytes - 1);
}

}  // namespace

Result<StatsSegment> StatsSegment::create(const StatsOptions& options) {
  const uint64_t workers = options.worker_count;
  const uint64_t workers_offset = round_up(sizeof(channel::StatsHeader));
  const uint64_t ports_offset = workers_offset + round_up(workers * channel::kWorkerStride);
  const uint64_t sessions_offset =
      ports_offset + round_up(options.port_count * sizeof(channel::StatsPort));
  const uint64_t clients_offset =
      sessions_offset + round_up(workers * options.session_rows * sizeof(channel::SessionRow));
  const uint64_t total =
      clients_offset + round_up(workers * options.client_rows * sizeof(channel::ClientRow));
  auto memory = SharedMemory::create("lyre-stats", total, SharedWith::kReaders);
  if (!memory.ok()) return memory.error();
  auto reader = reopen_read_only(memory->fd());
  if (!reader.ok()) return reader.error();

  StatsSegment segment;
  segment.memory_ = std::move(*memory);
  segment.reader_ = std::move(*reader);
  auto* header = new (segment.memory_.data()) channel::StatsHeader{};
  header->version = channel::kStatsVersion;
  header->worker_count = options.worker_count;
  header->session_rows = options.session_rows;
  header->client_rows = options.client_rows;
  header->port_count = options.port_count;
  header->pid = ::getpid();
  header->hugepages = options.has_hugepages ? 1 : 0;
  header->started_unix_ns = options.started_unix_ns;
  header->total_bytes = total;
  header->workers_offset = workers_offset;
  header->sessions_offset = sessions_offset;
  header->ports_offset = ports_offset;
  header->clients_offset = clients_offset;
  copy_text(header->daemon_name, options.daemon_name);
  copy_text(header->daemon_version, LYRE_VERSION);
  copy_text(header->idle_policy, options.idle_policy);
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

std::span<channel::SessionRow> StatsSegment::rows(uint32_t worker) const {
  auto* all = reinterpret_cast<channel::SessionRow*>(memory_.data() + header().sessions_offset);
  const uint64_t count = header().session_rows;
  return {all + worker * count, count};
}

std::span<channel::ClientRow> StatsSegment::clients(uint32_t worker) const {
  auto* all = reinterpret_cast<channel::ClientRow*>(memory_.data() + header().clients_offset);
  const uint64_t count = header().client_rows;
  return {all + worker * count, count};
}

channel::StatsPort& StatsSegment::port(uint32_t index) const {
  return reinterpret_cast<channel::StatsPort*>(memory_.data() + header().ports_offset)[index];
}

}  // namespace lyre
