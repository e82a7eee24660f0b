#include "tools/lyre/daemon_counters.h"

#include <stdexcept>

#include "lyre/lyre.h"
#include "stack/channel/stats.h"

namespace lyre::tools {
namespace {

[[noreturn]] void refuse(const std::string& socket, const std::string& why) {
  throw std::runtime_error("the counters of the daemon at " + socket + " cannot be read: " + why);
}

/// Owns the mapping of a stats segment.
class StatsMapping {
 public:
  explicit StatsMapping(const std::string& socket) {
    if (lyre_stats_open(socket.c_str(), &base_, &bytes_) != 0) refuse(socket, lyre_last_error());
  }
  ~StatsMapping() { lyre_stats_close(base_, bytes_); }
  StatsMapping(const StatsMapping&) = delete;
  StatsMapping& operator=(const StatsMapping&) = delete;

  const channel::StatsHeader& header() const {
    return *static_cast<const channel::StatsHeader*>(base_);
  }
  const uint8_t* at(uint64_t offset) const { return static_cast<const uint8_t*>(base_) + offset; }
  size_t bytes() const { return bytes_; }

 private:
  const void* base_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace

TcpPayloadBytes daemon_tcp_payload_bytes(const std::string& socket) {
  const StatsMapping stats(socket);
  if (stats.bytes() < sizeof(channel::StatsHeader)) refuse(socket, "the segment is too short");
  const channel::StatsHeader& header = stats.header();
  if (header.magic != channel::kStatsMagic || header.version != channel::kStatsVersion) {
    refuse(socket, "it speaks another version of the stats segment");
  }
  const uint64_t workers = header.worker_count;
  const uint64_t begin = header.workers_offset;
  if (begin > stats.bytes() || workers > (stats.bytes() - begin) / channel::kWorkerStride) {
    refuse(socket, "the segment does not hold its workers");
  }
  TcpPayloadBytes total;
  for (uint64_t i = 0; i < workers; ++i) {
    const auto* worker =
        reinterpret_cast<const channel::WorkerStats*>(stats.at(begin + i * channel::kWorkerStride));
    total.sent += worker->tcp_payload_out.get();
    total.received += worker->tcp_payload_in.get();
  }
  return total;
}

}  // namespace lyre::tools
