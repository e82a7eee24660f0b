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
#include "stack/link/neighbour_board.h"
#include "stack/record/stream.h"
#include "stack/tcp/config.h"
#include "stack/worker/inbox.h"
#include "stack/worker/routing/inter_worker_rings.h"
#include "stack/worker/tables/place_accounts.h"

namespace lyre::worker {

inline constexpr uint32_t kPortsMax = 8;
inline constexpr uint32_t kRoutesMax = 32;

/// One port, as configured. No other worker uses its queue pair.
struct PortBinding {
  io::PacketIo* io = nullptr;
  /// At most kPortAddressesMax. With an IPv6 address among them, a port that is not beside the
  /// kernel also has a link-local address, which is derived from its MAC where none is given (RFC
  /// 4291) and counts, too.
  std::vector<InterfaceAddress> addresses;
  std::vector<IpAddress> gateways;  ///< at most one of each family
  /// Addresses of IPv6 that an earlier daemon of this host has used until now: they are not probed
  /// for before they are used.
  std::vector<IpAddress> verified_addresses{};
  bool takes_routers = false;      ///< learns default routers of IPv6 from their advertisements
  uint32_t neighbours_max = 1024;  ///< entries of the neighbour cache
  uint32_t mtu_bytes = 1500;
  IpMarking marking;
};

/// A further route: packets to network/prefix_bits leave through `port`, towards `gateway`.
struct RouteBinding {
  IpAddress network;
  uint32_t prefix_bits = 0;  ///< of 32 or 128, by the family
  IpAddress gateway;
  uint32_t port = 0;
};

struct WorkerConfig {
  uint32_t index = 0;         ///< this worker's number
  uint32_t worker_count = 1;  ///< active opens take local ports that are `index` modulo this
  InterWorkerRings* rings = nullptr;  ///< of all workers; nullptr where there is one worker
  link::NeighbourBoard* neighbour_board = nullptr;  ///< the same
  tcp::EngineConfig engine;
  tcp::ConnectionConfig connection;  ///< mss_bytes and slot_bytes are set from port and memory
  uint32_t listeners_max = 1024;
  PlaceLimits places;                          ///< of those for connections and listeners
  uint32_t contexts_max = 16;                  ///< clients at one time
  uint32_t lent_slots_per_session_max = 4096;  ///< at most a receive buffer full
  uint16_t ephemeral_port_first = 32768;
  uint16_t ephemeral_port_last = 60999;
  /// Segments that arrive together reach TCP as one. Switched off, for tests and comparisons, each
  /// is delivered alone: that is slower and must make no other difference.
  bool merge_received = true;
  SipKey secret;  ///< each use (sequence numbers, tables, flow labels) has a key derived from it
  uint64_t seed = 1;
  int reply_fd = -1;           ///< an eventfd, written when the outbox gets a message
  int64_t unix_offset_ns = 0;  ///< wall clock minus the monotonic clock that poll_once() is given
};

/// The shared memory in which tools read what a worker does.
struct StatsBinding {
  channel::WorkerStats* worker = nullptr;
  /// For connections, at most connections_max, then one for each listener. What has no row is not
  /// shown.
  std::span<channel::SessionRow> rows;
  std::span<channel::TraceRing> traces;         ///< by connection; what has no ring has no trace
  std::span<channel::EndedRow> ended;           ///< sessions that ended badly
  std::span<channel::ClientRow> clients;        ///< by context index
  std::span<channel::QueueStats> queues;        ///< by port
  std::span<channel::NeighbourRow> neighbours;  ///< what has no row is not shown
  std::span<channel::RouteRow> routes;          ///< of worker 0: all workers have the same
  /// As many again for each domain, where there are several: each shows its own sessions only.
  std::vector<std::span<channel::SessionRow>> domain_rows;
  std::vector<std::span<channel::ClientRow>> domain_clients;
  uint32_t connection_rows = UINT32_MAX;  ///< connections from this number on have no row

  /// Row `index` shows `view`, which belongs to `domain`, if that is one; nullptr: nothing.
  void write_row(size_t index, const channel::SessionView* view,
                 uint32_t domain = UINT32_MAX) const {
    if (index < rows.size()) rows[index].write(view);
    for (size_t i = 0; i < domain_rows.size(); ++i) {
      if (index >= domain_rows[i].size()) continue;
      channel::SessionRow& row = domain_rows[i][index];
      if (i == domain) {
        row.write(view);
      } else if (row.is_used != 0) {
        row.write(nullptr);
      }
    }
  }
  /// Row of a connection. Rows of listeners follow those that connections have.
  void clear_row(uint32_t conn) const {
    if (conn < connection_rows) write_row(conn, nullptr);
  }
  /// The same for the row of a client.
  void write_client(size_t index, const channel::ClientView* view,
                    uint32_t domain = UINT32_MAX) const {
    if (index < clients.size()) clients[index].write(view);
    if (domain < domain_clients.size() && index < domain_clients[domain].size()) {
      domain_clients[domain][index].write(view);
    }
  }
};

/// One core, composed: queues of the ports, TCP, sessions, timers and the rings of its clients.
/// Thread: one calls poll_once(), always the same; another one may use inbox() and outbox(), and
/// nothing else. The worker takes its memory at construction, holds no lock and reads no clock.
class Worker {
 public:
  Worker(const WorkerConfig& config, io::PacketMemory& memory, std::span<const PortBinding> ports,
         std::span<const RouteBinding> routes, StatsBinding stats);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// One turn: inbox, receive, submissions, timers, transmit, completions; each is bounded.
  /// Returns the work done; after 0 the caller may pause.
  size_t poll_once(Nanos now);
  /// The next turn sends an ACK that says nothing new, if a session sent something before. A thread
  /// that waits for a job's next step calls it now and then: the code and data that a packet passes
  /// through leave the caches while the turns find nothing, on this host and on the peer's.
  void repeat_an_ack();
  /// Call before the first turn after the thread or its host stood still for so long, in slices or
  /// at once: nothing that waits for a peer is given up for that time. `pause`: the last part of
  /// it, if that was long; 0 otherwise. No client is expelled for a pause, and it is no part of a
  /// round trip. Slices are: clients run meanwhile.
  void on_standstill(Nanos stood_still, Nanos pause);
  /// When poll_once() must run again even if nothing arrives; kNever when no timer is armed.
  Nanos next_deadline() const;
  /// True when a client or the control thread left something to do: the last look before a sleep.
  bool has_waiting_work();

  /// Connections with state here, those in TIME-WAIT included.
  uint32_t connection_count() const;
  /// Ends the process when an invariant between the parts is violated, or one of `connections`
  /// connections; the next call checks the connections that follow (simulator, fuzzers).
  void check_invariants(uint32_t connections);
  /// True when nothing is kept any more: no client, connection, loan or packet.
  bool is_at_rest() const;
  /// Replaces the engine by one with the same state, which must make no difference (simulator).
  void replace_engine();

  /// Takes the messages of other workers between two turns. No worker makes a turn then. Returns
  /// how many: when all workers return 0, no connection is on its way from one to another. What
  /// clients are told meanwhile is published.
  size_t take_messages();
  /// Appends all that the worker of another process needs to go on in the place of this one
  /// (handover_writer.h). Call between two turns; this worker is not changed. The daemon has asked
  /// nothing of it that is not answered.
  void write_handover(record::Writer& out);
  /// The addresses of IPv6 of a port that no other host has, as was found out. Call between two
  /// turns.
  std::vector<IpAddress> verified_addresses(uint32_t port) const;
  /// Goes on in the place of a worker that wrote `in`: before the first turn. `memory`: a kAttach
  /// for each of its clients and a kAddRegion for each of their regions, mapped in this process.
  /// False: it cannot, and must not make a turn.
  bool take_over(std::span<const Command> memory, record::Reader& in, Nanos now);
  /// Why take_over() returned false: what does not fit, in a few words.
  const char* refusal() const;
  /// Sessions whose records take_over() found to be wrong. Their clients are told that they ended.
  uint32_t sessions_lost() const;
  /// Claims the connections that were taken over, as far as the rings between workers have room.
  /// Call it for all workers in turns, before a port receives, until it returns true for each.
  bool try_claim_all();

  Inbox& inbox();    ///< Thread: the control thread posts.
  Outbox& outbox();  ///< Thread: the control thread takes.

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lyre::worker
