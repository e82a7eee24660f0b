#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "stack/base/drop_reasons.h"
#include "stack/channel/port_address.h"
#include "stack/channel/trace.h"

/// The stats segment of a daemon. Workers write it; tools map it read-only, and reading costs the
/// workers nothing. Plain counters have one writer; a session row is guarded by a seqlock.
namespace lyre::channel {

inline constexpr uint64_t kStatsMagic = 0x3154'4154'5352'594c;  // "LYRSTAT1"
inline constexpr uint32_t kStatsVersion = 21;
/// Between two passes of a worker over its rows, while it has work. What a worker without work
/// wrote last is still so.
inline constexpr int64_t kStatsPeriodNs = 50'000'000;

/// A counter with one writer and any number of readers.
class StatCounter {
 public:
  void add(uint64_t count) {
    // Relaxed: a single value; readers need no order between counters. There is one writer, so no
    // read-modify-write instruction is needed.
    value_.store(value_.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
  }
  void set(uint64_t value) { value_.store(value, std::memory_order_relaxed); }
  uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_;
};
static_assert(sizeof(StatCounter) == 8);

/// Every counter of a worker: one table for the segment and the CLI.
#define LYRE_WORKER_COUNTERS(X)                                                  \
  X(polls, "turns of the worker's loop")                                         \
  X(busy_polls, "turns that found work")                                         \
  X(sleeps, "times the worker slept for want of work")                           \
  X(core_departures, "times the worker left its core to a thread that computes") \
  X(rx_packets, "packets received")                                              \
  X(rx_bytes, "bytes received, with all headers")                                \
  X(tx_packets, "packets sent")                                                  \
  X(tx_bytes, "bytes sent, with all headers")                                    \
  X(tx_full, "times the port took fewer packets than offered")                   \
  X(tx_dropped, "packets taken and never sent")                                  \
  X(rx_missed,                                                                   \
    "packets that the driver delivered and no buffer could hold. What devices "  \
    "lost is a counter of each port")                                            \
  X(tcp_segments_in, "TCP segments that reached a connection")                   \
  X(tcp_segments_out, "TCP segments sent")                                       \
  X(tcp_payload_in, "TCP payload bytes received in order")                       \
  X(tcp_payload_out, "TCP payload bytes sent, without retransmissions")          \
  X(tcp_payload_acked, "TCP payload bytes acknowledged by peers")                \
  X(tcp_payload_retransmitted, "TCP payload bytes sent again")                   \
  X(tcp_timeouts, "retransmission timeouts")                                     \
  X(tcp_resets_out, "RST segments sent")                                         \
  X(tcp_resets_in, "connections that the peer reset")                            \
  X(connects, "active opens that were established")                              \
  X(connect_failures, "active opens that failed")                                \
  X(accepts, "passive opens that were established")                              \
  X(ended_timed_out, "connections that timed out")                               \
  X(ended_icmp_error, "connections that timed out after an ICMP error")          \
  X(ended_no_neighbour, "connections whose next hop did not answer ARP or NDP")  \
  X(ended_address_lost, "connections from an address that another host has")     \
  X(ended_no_resources, "connections reset to take receive slots back")          \
  X(ended_deregistered, "connections reset because their memory was removed")    \
  X(time_waits_cut, "TIME-WAITs that ended early for a new connection")          \
  X(orphans_cut, "closing connections without a client, reset for another one")  \
  X(half_opens_cut, "handshakes of peers dropped for another connection")        \
  X(loopback_packets, "packets delivered locally")                               \
  X(copied_tx_bytes, "payload bytes the worker copied on the way out")           \
  X(copied_rx_bytes,                                                             \
    "payload bytes the worker copied on the way in; packets from other workers " \
    "count with headers")                                                        \
  X(client_copied_tx_bytes, "payload bytes that clients copied before sending")  \
  X(client_copied_rx_bytes, "payload bytes that clients copied when receiving")  \
  X(redirected_out, "packets of another worker's connections, sent on")          \
  X(redirected_in, "packets that another worker received for this one")          \
  X(handed_over, "connections moved to the worker that the NIC answers")         \
  X(submissions, "entries taken from clients")                                   \
  X(completions, "entries given to clients")                                     \
  X(completion_ring_full, "times a client's completion ring had no room")        \
  X(clients_expelled, "clients disconnected for breaking the channel's rules")   \
  X(tx_linearised_bytes,                                                         \
    "bytes copied because the port cannot gather. ENA: also payload bytes "      \
    "copied to the first segment")                                               \
  X(software_checksums, "checksums computed on the processor")

struct WorkerStats {
#define LYRE_X(name, text) StatCounter name;
  LYRE_WORKER_COUNTERS(LYRE_X)
#undef LYRE_X
  StatCounter sessions_open;         ///< gauge: with those in TIME-WAIT
  StatCounter time_waits;            ///< gauge: connections in TIME-WAIT
  StatCounter sessions_without_row;  ///< gauge: open connections that have no SessionRow
  StatCounter rx_slots_free;         ///< gauge
  StatCounter rx_slots_total;        ///< gauge
  StatCounter drops[kDropCount];
  /// Gauge, written by the control thread. 1: the daemon may not use the worker's core any more.
  /// Last, so that readers of earlier releases find the others; what those daemons wrote is zero. A
  /// new counter or drop reason moves it, and needs a new version.
  StatCounter is_core_lost;
};

/// One session, as `lyre sessions` shows it. Units as in tcp::ConnectionInfo.
struct SessionView {
  uint8_t local_address[16];
  uint8_t remote_address[16];
  uint16_t local_port;
  uint16_t remote_port;
  uint8_t state;  ///< tcp::State
  uint8_t is_listener;
  uint8_t is_lent;  ///< payload is lent, not copied
  uint8_t has_ecn;
  uint32_t worker;
  int32_t pid;         ///< of the owner
  char label[32];      ///< the owner's context label
  uint8_t congestion;  ///< tcp::CongestionAlgorithm
  uint8_t waiting;     ///< tcp::Waiting
  uint8_t backoffs;    ///< doublings of that time
  uint8_t options;     ///< that both sides use: 1 timestamps, 2 SACK, 4 window scaling
  uint32_t mss_bytes;
  uint32_t mss_full_bytes;  ///< that both ends can receive; mss_bytes is less where the path is
  uint32_t cwnd_bytes;
  uint32_t in_flight_bytes;
  uint32_t send_queue_bytes;
  uint32_t unsent_bytes;  ///< of these, never sent
  uint32_t send_window_bytes;
  uint32_t receive_window_bytes;
  uint32_t receive_charged_bytes;
  uint32_t lent_slots;
  uint32_t ssthresh_bytes;  ///< UINT32_MAX: none yet
  uint32_t uid;             ///< of the owner
  uint32_t out_of_order_segments;
  uint32_t duplicate_segments;
  uint32_t context;  ///< of the owner, as in ClientView; UINT32_MAX: none
  uint64_t segments_sent;
  uint64_t segments_received;
  int64_t waiting_until_unix_ns;  ///< 0: it waits for no timer
  int64_t last_sent_unix_ns;      ///< payload; 0: none yet
  int64_t last_heard_unix_ns;
  int64_t srtt_ns;
  int64_t rtt_var_ns;
  int64_t rtt_min_ns;
  int64_t rto_ns;
  uint64_t bytes_sent;
  uint64_t bytes_acked;
  uint64_t bytes_retransmitted;
  uint64_t bytes_received;
  uint64_t copied_tx_bytes;
  uint64_t copied_rx_bytes;
  uint64_t client_copied_tx_bytes;  ///< as the client reports it
  uint64_t client_copied_rx_bytes;  ///< as the client reports it
  uint32_t timeouts;
  uint32_t fast_recoveries;
  uint32_t ecn_reductions;
  uint32_t undone_reductions;
  int64_t opened_unix_ns;
  int64_t updated_unix_ns;
};

/// A session that ended badly, and its last events. Handshakes that failed are not recorded.
struct EndedView {
  SessionView session;  ///< as it was at the end
  int64_t ended_unix_ns;
  uint8_t status;  ///< EndStatus, as exactly as it is known
  uint8_t reserved[3];
  uint32_t event_count;
  TraceEvent events[TraceRing::kEvents];
};

/// One client as one worker has it, as `lyre clients` shows it.
struct ClientView {
  uint32_t context;  ///< the same number at all workers
  uint32_t worker;
  int32_t pid;
  uint32_t uid;
  char label[32];
  uint8_t is_lent;  ///< received bytes are lent to it, not copied
  uint8_t reserved[3];
  uint32_t sessions;
  uint32_t listeners;
  uint32_t sends_under_way;
  uint32_t sends_max;
  uint32_t rx_slots_held;  ///< with bytes of its sessions: unread, out of order, or lent
  uint32_t rx_slots_lent;  ///< a part of them
  uint32_t rx_slots_max;   ///< at present: it depends on how many are free
  uint32_t sessions_max;
  uint32_t listeners_max;
  uint32_t regions;  ///< of registered memory, those included that are being removed
  uint32_t regions_max;
  uint64_t arena_bytes;  ///< with rings and copy area: what counts for the user
  uint64_t registered_bytes;
  uint64_t registered_bytes_max;
  /// Whose clients share what follows: a uid, or 2^32 and the number of a domain.
  uint64_t user;
  uint64_t user_arena_bytes_max;
  uint64_t user_registered_bytes_max;
  uint32_t user_contexts_max;
  uint32_t user_sessions_max;
  uint32_t user_listeners_max;
  uint32_t user_regions_max;
};

/// A neighbour of one port as one worker knows it, as `lyre neighbours` shows it.
struct NeighbourView {
  uint8_t address[16];
  uint8_t mac[6];  ///< zero: not known
  uint8_t port;
  uint8_t state;  ///< link::Neighbour::State
  uint32_t worker;
  uint32_t sessions;                ///< that send to it
  int64_t reachable_until_unix_ns;  ///< in the state kReachable only
};

/// A route, as `lyre routes` shows it.
struct RouteView {
  uint8_t prefix[16];
  uint8_t gateway[16];  ///< unspecified: directly connected
  uint8_t source[16];   ///< unspecified: chosen by destination
  uint8_t prefix_bits;  ///< of 128; an IPv4 /24 is 120
  uint8_t port;
  uint8_t is_learned;  ///< from a router's advertisement
  uint8_t reserved;
};

/// Another host that uses an address of a port (RFC 5227 2.4, RFC 4862 5.4): the last of its
/// packets that one worker saw.
struct ClaimView {
  uint8_t address[16];
  uint8_t mac[6];  ///< of the other host
  uint8_t reserved[2];
  int64_t seen_unix_ns;
};

/// A row that one worker writes and any process reads. The sequence is odd while it is written.
template <typename View>
struct StatsRow {
  std::atomic<uint32_t> sequence;
  uint32_t is_used;  ///< guarded by the sequence like the view
  View view;

  void write(const View* next) {
    const uint32_t before = sequence.load(std::memory_order_relaxed);
    sequence.store(before + 1, std::memory_order_relaxed);
    // Release fence: pairs with the acquire fence in read(). A reader that sees new data also sees
    // the odd sequence.
    std::atomic_thread_fence(std::memory_order_release);
    is_used = next != nullptr ? 1 : 0;
    if (next != nullptr) view = *next;
    sequence.store(before + 2, std::memory_order_release);  // pairs with the first load in read()
  }
  /// False when the row is unused or changed too often to be read.
  bool read(View& out) const {
    for (int attempt = 0; attempt < 64; ++attempt) {
      // acquire: pairs with the last store of write()
      const uint32_t before = sequence.load(std::memory_order_acquire);
      if (before & 1) continue;
      const bool used = is_used != 0;
      std::memcpy(&out, &view, sizeof out);
      std::atomic_thread_fence(std::memory_order_acquire);  // pairs with write()'s fence
      if (sequence.load(std::memory_order_relaxed) == before) return used;
    }
    return false;
  }
};

/// A counter of a port's driver. Slots are taken one after the other and keep their names.
struct DeviceCounterView {
  char name[64];
  StatCounter value;
};
inline constexpr uint32_t kDeviceCountersMax = 64;

using SessionRow = StatsRow<SessionView>;
using EndedRow = StatsRow<EndedView>;
using ClientRow = StatsRow<ClientView>;
using NeighbourRow = StatsRow<NeighbourView>;
using RouteRow = StatsRow<RouteView>;
using ClaimRow = StatsRow<ClaimView>;

/// What one queue pair of a port counted: one worker has one queue pair of each port.
#define LYRE_QUEUE_COUNTERS(X)                                              \
  X(rx_packets, "packets received")                                         \
  X(rx_bytes, "bytes received, with all headers")                           \
  X(tx_packets, "packets sent")                                             \
  X(tx_bytes, "bytes sent, with all headers")                               \
  X(rx_missed,                                                              \
    "packets that the driver delivered and no buffer could hold. What the " \
    "device lost is a counter of its own")                                  \
  X(tx_full, "times the port took fewer packets than offered")              \
  X(tx_dropped, "packets taken and never sent")                             \
  X(tx_linearised_bytes,                                                    \
    "bytes copied because the port cannot gather. ENA: also payload bytes " \
    "copied to the first segment")                                          \
  X(software_checksums, "checksums computed on the processor")

struct QueueStats {
#define LYRE_X(name, text) StatCounter name;
  LYRE_QUEUE_COUNTERS(LYRE_X)
#undef LYRE_X
  ClaimRow claim;
};

/// What a port's device does in place of the processor.
struct PortOffloads {
  char driver[32];
  uint32_t queue_count;
  uint32_t tso_bytes_max;  ///< 0: no TSO
  uint8_t is_nic;          ///< 0: a virtual wire
  uint8_t has_rss;
  uint8_t has_tx_checksums;
  uint8_t has_rx_checksums;
  uint8_t reserved[4];
};

struct StatsPort {
  char name[32];
  char device[128];
  char pci_path[128];
  PortAddress addresses[kPortAddressesMax];
  uint32_t address_count;
  uint32_t mtu_bytes;
  std::atomic<uint32_t> speed_mbps;  ///< 0: unknown
  std::atomic<uint32_t> flow_mbps;   ///< 0: unknown
  std::atomic<uint32_t> is_link_up;
  std::atomic<uint32_t> state;  ///< 0 running, 1 resetting, 2 recovering, 3 away, 4 draining
  uint8_t mac[6];
  uint8_t reserved[2];
  PortOffloads offloads;
  /// Packets that the device lost for want of a buffer. Written by the control thread.
  StatCounter rx_missed;
  /// What the driver counts and was not zero at some time. Written by the control thread.
  std::atomic<uint32_t> device_counter_count;  ///< release; readers acquire: the names are written
  uint32_t reserved_count;
  DeviceCounterView device_counters[kDeviceCountersMax];
};

/// The header of the segment. Offsets are from its start.
struct StatsHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t worker_count;
  uint32_t session_rows;  ///< a worker: of connections, then of listeners
  uint32_t port_count;
  uint32_t client_rows;     ///< a worker
  uint32_t neighbour_rows;  ///< a worker; 0: this segment shows no neighbours and routes
  uint32_t route_rows;
  uint32_t trace_rings;  ///< a worker: of its first session rows; 0: this segment shows none
  uint32_t ended_rows;   ///< a worker; 0: this segment shows none
  uint32_t is_domain;    ///< 1: one of several domains; counters of workers and ports are not shown
  int32_t pid;
  uint32_t hugepages;  ///< 1 when the daemon uses them
  int64_t started_unix_ns;
  /// All times minus CLOCK_MONOTONIC. It does not change when the wall clock is stepped, so a
  /// reader computes the present time from it.
  int64_t unix_offset_ns;
  uint64_t total_bytes;
  uint64_t workers_offset;     ///< WorkerStats[worker_count], each padded to kWorkerStride
  uint64_t sessions_offset;    ///< SessionRow[worker_count][session_rows]
  uint64_t ports_offset;       ///< StatsPort[port_count]
  uint64_t clients_offset;     ///< ClientRow[worker_count][client_rows]
  uint64_t queues_offset;      ///< QueueStats[worker_count][port_count]; zero for a domain
  uint64_t neighbours_offset;  ///< NeighbourRow[worker_count][neighbour_rows]
  uint64_t routes_offset;      ///< RouteRow[route_rows], which worker 0 writes
  uint64_t traces_offset;      ///< TraceRing[worker_count][trace_rings]
  uint64_t ended_offset;       ///< EndedRow[worker_count][ended_rows]
  char daemon_name[64];
  char daemon_version[32];
  char idle_policy[16];
  StatCounter clients;        ///< gauge, written by the control thread
  StatCounter clients_total;  ///< that attached to this process
  StatCounter has_stopped;    ///< 1: in order. Written by the control thread
  StatCounter ended_unix_ns;  ///< not 0 in what a daemon left only
  uint64_t is_successor;      ///< 1: it took over from another process in an upgrade
};
/// What a daemon left is a file: the path of its socket, and this.
inline constexpr const char* kLastStatsSuffix = ".last";
inline constexpr size_t kWorkerStride = 2048;
static_assert(sizeof(WorkerStats) <= kWorkerStride);

}  // namespace lyre::channel
