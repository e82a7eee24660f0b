#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "lyre/lyre.h"
#include "stack/tcp/rtt.h"
#include "tests/sim/adapter/events.h"
#include "tests/sim/adapter/send_window.h"
#include "tests/sim/adapter/wires.h"

/// What the simulated network is made of: hosts with a daemon and rails, and the connections that
/// those daemons have.
namespace lyre::adapter_sim {

struct Connection;
struct Host;

/// What one send gave: bytes that the daemon reads when it transmits them, and again when it
/// repeats them.
struct Piece {
  uint64_t from = 0;  ///< offset in the connection's bytes
  uint32_t bytes = 0;
  const uint8_t* data = nullptr;
  uint8_t* block = nullptr;             ///< of the arena, given back when acknowledged
  const lyre_region* region = nullptr;  ///< of the client's memory
};

/// One end of a connection, in its host's daemon.
struct End {
  enum class State { kNone, kOpening, kOpen, kEnded };

  Connection* connection = nullptr;
  int side = 0;  ///< 0: the end that connects
  Host* host = nullptr;
  size_t rail = 0;
  uint32_t boot = 0;  ///< of the daemon that knows this end
  State state = State::kNone;
  int error = 0;
  lyre_addr local{};
  lyre_addr remote{};
  lyre_context* context = nullptr;  ///< nullptr: the client ended or released it
  lyre_session* session = nullptr;

  // ---- Sending ----
  std::deque<Piece> pieces;
  uint64_t queued = 0;    ///< bytes of the client's
  uint64_t sent = 0;      ///< the same, and 1 for the FIN, transmitted
  uint64_t sent_max = 0;  ///< the most that `sent` was
  uint64_t acked = 0;
  uint64_t window_end = 0;  ///< the peer takes bytes before this one
  bool is_fin_queued = false;
  tcp::RttEstimator rtt;
  int64_t timed_ns = 0;    ///< when the packet was sent that the round trip is measured by; 0: none
  uint64_t timed_end = 0;  ///< it is answered by this acknowledgement
  int64_t rto_ns = 0;      ///< with its back-off
  int64_t told_rto_ns = 0;     ///< the same, as of the last acknowledgement
  SendWindow window;           ///< where queues have an end
  int64_t timer_ns = 0;        ///< when the timer acts; 0: it is off
  int64_t timer_event_ns = 0;  ///< of the event that looks at it next; 0: there is none
  int64_t unanswered_ns = 0;   ///< since when something waits for an acknowledgement; 0: nothing
  int64_t user_timeout_ns = 0;
  bool awaits_probe_answer = false;
  bool is_window_closed = false;  ///< the peer's, as its answer to the last window probe says
  uint32_t syn_count = 0;

  // ---- Receiving ----
  std::deque<std::vector<uint8_t>> readable;
  uint64_t readable_bytes = 0;
  uint64_t held_bytes = 0;  ///< lent to the client
  uint64_t received = 0;
  uint64_t advertised = 0;  ///< the window's end, as last told
  bool is_fin_received = false;

  // ---- Keep-alive ----
  int64_t keepalive_ns = 0;  ///< 0: off
  uint32_t probes_max = 0;
  uint32_t probes_unanswered = 0;
  bool is_keepalive_armed = false;

  uint64_t to_send() const { return queued + (is_fin_queued ? 1 : 0); }
  bool is_client_gone() const { return session == nullptr; }
};

struct Connection {
  uint64_t number = 0;
  End ends[2];
  double slowness = 1;  ///< of the path that the fabric chose for its ports
  size_t fabric_path = 0;
  Meter meters[2];  ///< what the network gives one flow, each way
  int64_t blackholed_until_ns = 0;
  int64_t arrival_ns[2] = {};  ///< of the last packet of each side: none overtakes
};

struct Packet {
  enum class Kind { kSyn, kSynAck, kData, kAck, kReset, kProbe };
  Kind kind;
  uint64_t from = 0;
  std::vector<uint8_t> bytes;
  bool is_fin = false;
  uint64_t ack = 0;
  uint64_t window_end = 0;
};

struct Listener {
  lyre_listener* handle = nullptr;
  lyre_context* context = nullptr;
};

struct Host {
  enum class Daemon { kRunning, kStopped, kDead };
  size_t index = 0;
  Daemon daemon = Daemon::kRunning;
  bool is_closed = false;  ///< no client may open the daemon's socket
  uint32_t boot = 1;
  std::vector<lyre_addr> rails;             ///< the first addresses of its ports
  std::vector<lyre_addr> second_addresses;  ///< of the same ports, IPv6; empty: they have one each
  std::map<uint16_t, Listener> listeners;
  uint16_t next_port = 40'000;
  std::vector<lyre_context*> contexts;  ///< of this boot
  std::vector<const End*> accepted;     ///< the ends of connections that peers began
  bool refuses_memory = false;          ///< registrations, for a reason that passes
  uint32_t final_refusals = 0;          ///< how many next registrations are refused for good
  uint32_t memory_requests = 0;         ///< registrations that its clients asked for
};

/// The daemon that `end` belongs to is there and has it.
inline bool knows(const End& end) {
  return end.state != End::State::kNone && end.boot == end.host->boot &&
         end.host->daemon != Host::Daemon::kDead;
}
inline Place place_of(const End& end) { return {end.host->index, end.rail}; }
inline End& other(const End& end) { return end.connection->ends[1 - end.side]; }

}  // namespace lyre::adapter_sim
