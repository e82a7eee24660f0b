#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libclient/stats_segment.h"
#include "stack/base/drop_reasons.h"
#include "stack/channel/stats.h"

/// A copy of a daemon's stats segment at one time. The commands print it.
namespace lyre::tools {

struct CounterText {
  const char* key;
  const char* text;
};

inline constexpr CounterText kWorkerCounters[] = {
#define LYRE_X(name, text) {#name, text},
    LYRE_WORKER_COUNTERS(LYRE_X)
#undef LYRE_X
};
inline constexpr size_t kWorkerCounterCount = sizeof kWorkerCounters / sizeof kWorkerCounters[0];

/// Index of a counter in WorkerSnapshot::counters.
enum class Counter : size_t {
#define LYRE_X(name, text) name,
  LYRE_WORKER_COUNTERS(LYRE_X)
#undef LYRE_X
};

struct WorkerSnapshot {
  std::array<uint64_t, kWorkerCounterCount> counters{};
  std::array<uint64_t, kDropCount> drops{};
  uint64_t sessions_open = 0;         ///< with those in TIME-WAIT
  uint64_t time_waits = 0;            ///< connections in TIME-WAIT
  uint64_t sessions_without_row = 0;  ///< open connections that Snapshot::sessions lacks
  uint64_t rx_slots_free = 0;
  uint64_t rx_slots_total = 0;
  bool is_core_lost = false;  ///< the daemon may not use the worker's core any more

  uint64_t operator[](Counter counter) const { return counters[static_cast<size_t>(counter)]; }
};
/// Connections that do not only wait for stray packets.
uint64_t sessions_in_use(const WorkerSnapshot& worker);

inline constexpr CounterText kQueueCounters[] = {
#define LYRE_X(name, text) {#name, text},
    LYRE_QUEUE_COUNTERS(LYRE_X)
#undef LYRE_X
};
inline constexpr size_t kQueueCounterCount = sizeof kQueueCounters / sizeof kQueueCounters[0];

/// Index of a counter in QueueSnapshot::counters.
enum class QueueCounter : size_t {
#define LYRE_X(name, text) name,
  LYRE_QUEUE_COUNTERS(LYRE_X)
#undef LYRE_X
};

struct QueueSnapshot {
  std::array<uint64_t, kQueueCounterCount> counters{};

  uint64_t operator[](QueueCounter counter) const { return counters[static_cast<size_t>(counter)]; }
};

struct PortSnapshot {
  std::string name;
  std::string device;
  std::string pci_path;
  std::vector<channel::PortAddress> addresses;
  uint32_t mtu_bytes = 0;
  uint32_t speed_mbps = 0;  ///< 0: unknown
  uint32_t flow_mbps = 0;   ///< 0: unknown
  bool is_link_up = false;
  uint32_t state = 0;  ///< as in StatsPort
  uint8_t mac[6] = {};
  channel::PortOffloads offloads{};
  std::optional<channel::ClaimView> claim;  ///< the last one; none: no host claims an address
  uint64_t rx_missed = 0;                   ///< lost by the device because it had no free buffer
  std::vector<QueueSnapshot> queues;        ///< by worker
  std::vector<std::pair<std::string, uint64_t>> device_counters;  ///< not zero; the driver's names
};

/// What tells a connection from all others, at any time.
struct ConnectionKey {
  uint32_t worker = 0;
  uint16_t local_port = 0;
  uint16_t remote_port = 0;
  int64_t opened_unix_ns = 0;
  std::array<uint8_t, 16> remote_address{};

  friend auto operator<=>(const ConnectionKey&, const ConnectionKey&) = default;
};
ConnectionKey key_of(const channel::SessionView& view);

/// What rates are made of.
struct ConnectionTotals {
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
  int64_t updated_unix_ns = 0;
};

/// What all queues of a port counted.
QueueSnapshot sum_of_queues(const PortSnapshot& port);
/// Packets that were received and lost for want of a buffer, by the device and by the queues.
uint64_t missed_of(const PortSnapshot& port);

struct Snapshot {
  std::string daemon_name;
  std::string daemon_version;
  std::string idle_policy;
  int32_t pid = 0;
  bool has_hugepages = false;
  /// Times are by the daemon's clock: the wall clock at its start, and CLOCK_MONOTONIC since then.
  int64_t started_unix_ns = 0;
  int64_t taken_unix_ns = 0;
  int64_t clock_step_ns = 0;  ///< the wall clock minus the daemon's; 0 where that has ended
  bool is_past = false;       ///< of a daemon that has ended, at that time
  bool has_stopped = false;   ///< in order
  uint64_t clients = 0;
  uint64_t clients_total = 0;
  std::vector<PortSnapshot> ports;
  std::vector<WorkerSnapshot> workers;
  std::vector<channel::SessionView> sessions;        ///< and listeners
  std::map<ConnectionKey, ConnectionTotals> totals;  ///< of all sessions, for rates
  std::vector<channel::ClientView> client_views;     ///< of each client one a worker
  /// The segment of one of several domains: no counters of workers and ports, no neighbours, no
  /// routes.
  bool is_domain = false;
  bool is_successor = false;  ///< it took over from another process in an upgrade
  std::vector<channel::NeighbourView> neighbours;
  std::vector<channel::RouteView> routes;
};

/// A session with its last events, the oldest first.
struct SessionTrace {
  channel::SessionView session{};
  bool is_ended = false;      ///< badly; a session that ended in order has no trace any more
  int64_t ended_unix_ns = 0;  ///< of one that ended
  uint8_t status = 0;         ///< why: a channel::EndStatus
  std::vector<channel::TraceEvent> events;
};

/// Whether a session's trace is to be read.
using IsTraceWanted = std::function<bool(const channel::SessionView& session, bool is_ended)>;

/// Copies the events only of those that are wanted. Fails: throws Failure as read_snapshot() does,
/// and where the segment shows no traces: that of a domain.
std::vector<SessionTrace> read_traces(const void* segment, size_t bytes,
                                      const IsTraceWanted& is_wanted);

/// Copies a segment of `bytes`, at `monotonic_ns` of CLOCK_MONOTONIC. Fails: throws Failure when
/// its header does not fit its length.
Snapshot read_snapshot(const void* segment, size_t bytes, int64_t monotonic_ns);

/// A daemon's stats segment, mapped. Fails: the constructor throws Failure.
class StatsSegment {
 public:
  enum class Whose { kRunning, kLast };
  explicit StatsSegment(const char* socket_path, Whose whose = Whose::kRunning);

  Snapshot look() const;
  std::vector<SessionTrace> traces(const IsTraceWanted& is_wanted) const;
  /// The daemon's release. Reads the header only.
  std::string daemon_version() const;
  /// The daemon's wall clock minus CLOCK_MONOTONIC, at its start. Reads the header only.
  int64_t unix_offset_ns() const;

 private:
  int64_t clock_step_ns() const;

  client::Mapping segment_;
  bool is_past_ = false;
};

}  // namespace lyre::tools
