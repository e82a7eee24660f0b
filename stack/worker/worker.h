#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "stack/base/interface_address.h"
#include "stack/base/ip_address.h"
#include "stack/base/ip_marking.h"
#include "stack/base/nanos.h"
#include "stack/base/siphash.h"
#include "stack/channel/stats.h"
#include "stack/io/packet_io.h"
#include "stack/tcp/config.h"
#include "stack/worker/inbox.h"
#include "stack/worker/routing/inter_worker_rings.h"

namespace lyre::worker {

inline constexpr uint32_t kPortsMax = 8;
inline constexpr uint32_t kRoutesMax = 32;

/// One port as its configuration has it. Addresses are the worker's own; the queue is its alone.
struct PortBinding {
  io::PacketIo* io = nullptr;
  /// With one of IPv6 the port has a link-local address too: it is derived where none is given.
  /// At most kPortAddressesMax together.
  std::vector<InterfaceAddress> addresses;
  std::vector<IpAddress> gateways;  ///< at most one of each family
  bool takes_routers = false;       ///< learns default routers of IPv6 from their advertisements
  uint32_t neighbours_max = 1024;   ///< entries of the neighbour cache
  uint32_t mtu_bytes = 1500;
  IpMarking marking;
};

/// A further route: packets to network/prefix_bits leave through `port` by way of `gateway`.
struct RouteBinding {
  IpAddress network;
  uint32_t prefix_bits = 0;  ///< of 32 or 128, by the family
  IpAddress gateway;
  uint32_t port = 0;
};

struct WorkerConfig {
  uint32_t index = 0;         ///< this worker's number
  uint32_t worker_count = 1;  ///< active opens take local ports that are `index` modulo this
  InterWorkerRings* rings = nullptr;  ///< of all workers; none where there is one worker only
  tcp::EngineConfig engine;
  tcp::ConnectionConfig connection;  ///< mss_bytes and slot_bytes are set from port and memory
  uint32_t listeners_max = 1024;
  uint32_t contexts_max = 16;                  ///< clients at a time
  uint32_t lent_slots_per_session_max = 4096;  ///< at most a receive buffer full
  uint16_t ephemeral_port_first = 32768;
  uint16_t ephemeral_port_last = 60999;
  /// Segments that arrive together reach TCP as one. Off, for tests and comparisons, each comes
  /// alone: slower, and nobody may see another difference.
  bool merge_received = true;
  SipKey secret;  ///< each use (sequence numbers, tables, flow labels) has a key derived from it
  uint64_t seed = 1;
  int reply_fd = -1;           ///< an eventfd that is rung when something lies in the outbox
  int64_t unix_offset_ns = 0;  ///< wall clock minus the monotonic clock that poll_once() is given
};

/// Where a worker writes what tools read.
struct StatsBinding {
  channel::WorkerStats* worker = nullptr;
  /// connections_max rows for connections, then one a listener; what has no row is not shown.
  std::span<channel::SessionRow> rows;
};

/// One core, composed: queues of the ports, TCP, sessions, timers and the rings of its clients.
/// Thread: whoever calls poll_once(), always the same; inbox() and outbox() are the only doors for
/// others. It takes its memory at construction, holds no lock and reads no clock.
class Worker {
 public:
  Worker(const WorkerConfig& config, io::PacketMemory& memory, std::span<const PortBinding> ports,
         std::span<const RouteBinding> routes, StatsBinding stats);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// One turn: inbox, receive, submissions, timers, transmit, completions; each is bounded.
  /// Returns the work done; 0 lets the caller decide to pause.
  size_t poll_once(Nanos now);
  /// When poll_once() must run again though nothing arrives; kNever when no timer is armed.
  Nanos next_deadline() const;
  /// True when a client or the control thread left something to do: the last look before a sleep.
  bool has_waiting_work();

  /// Connections that are not forgotten yet, those in TIME-WAIT included.
  uint32_t connection_count() const;
  /// Breaks off the process when something that must hold does not: between the parts, and in
  /// `connections` of the connections, the next ones at each call (simulator, fuzzers).
  void check_invariants(uint32_t connections);
  /// True when nothing is kept any more: no client, connection, loan or packet.
  bool is_at_rest() const;
  /// Goes on with a fresh engine that was given the state of the old one: nobody may notice.
  void replace_engine();

  Inbox& inbox();    ///< Thread: the control thread posts.
  Outbox& outbox();  ///< Thread: the control thread takes.

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lyre::worker
