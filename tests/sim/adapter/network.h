#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lyre/lyre.h"
#include "stack/base/rng.h"
#include "stack/tcp/rtt.h"
#include "tests/sim/adapter/events.h"
#include "tests/sim/adapter/send_window.h"

/// Hosts with a daemon each, rails between them, and TCP connections as a client of a daemon sees
/// them: bytes in order, acknowledgements, a window, retransmission, the ways in which a connection
/// ends. The functions of lyre/lyre.h, which the adapter is linked to, work on it (lyre_api.cc).
namespace lyre::adapter_sim {

class Network;
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
  lyre_context* context = nullptr;  ///< nullptr: the client is gone, or has let go of it
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

struct Rail {
  bool is_up = true;
  lyre_addr address{};
};

struct Listener {
  lyre_listener* handle = nullptr;
  lyre_context* context = nullptr;
};

struct Host {
  enum class Daemon { kRunning, kStopped, kDead };
  size_t index = 0;
  Daemon daemon = Daemon::kRunning;
  uint32_t boot = 1;
  std::vector<Rail> rails;
  std::map<uint16_t, Listener> listeners;
  uint16_t next_port = 40'000;
  std::vector<lyre_context*> contexts;  ///< of this boot
};

struct NetworkSettings {
  size_t hosts = 2;
  size_t rails = 1;
  bool is_routed = true;        ///< every rail reaches every other; else only its own network
  bool is_one_network = false;  ///< of all rails: then no pair needs a router
  int64_t delay_ns = 20 * kUs;  ///< one way; each path has its own, up to four times this
  uint64_t bytes_per_s = 1'000'000'000;
  uint32_t segment_bytes_max = 65'536;
  uint64_t in_flight_bytes_max = 512 * 1024;  ///< sent and not acknowledged, a connection
  uint64_t queue_bytes = 0;  ///< what may wait for its turn on a path, the rest is lost; 0: all
  uint32_t pool_bytes = 1 << 20;  ///< received and not released, a connection
  uint64_t arena_bytes = 64 << 20;
  uint32_t loss_ppm = 0;         ///< of packets
  bool is_memory_direct = true;  ///< registered memory is read in place
  bool lags_acks = false;        ///< unacknowledged bytes are told late, as lyre.h allows
  int workers = 1;
  int64_t user_timeout_ns = 120 * kSecond;  ///< the daemons' own
};

class Network {
 public:
  Network(const NetworkSettings& settings, Events& events, uint64_t seed);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  Events& events() { return events_; }
  const NetworkSettings& settings() const { return settings_; }
  Host& host(size_t index) { return *hosts_[index]; }
  size_t hosts() const { return hosts_.size(); }
  Rng& rng() { return rng_; }

  // ---- What breaks ----

  void set_rail(size_t host, size_t rail, bool is_up);
  /// Nothing gets through between two rails until then.
  void cut(size_t host, size_t rail, size_t peer, size_t peer_rail, int64_t until_ns);
  void kill_daemon(size_t host);
  /// In order: peers hear of it.
  void stop_daemon(size_t host);
  void start_daemon(size_t host);
  void pause_daemon(size_t host);
  void resume_daemon(size_t host);
  /// The client process is gone; the daemon ends what it had.
  void kill_client(lyre_context* context);
  /// Somebody between the hosts resets it, or drops all its packets until then.
  void reset(Connection& connection);
  void blackhole(Connection& connection, int64_t until_ns);
  const std::vector<std::unique_ptr<Connection>>& connections() const { return connections_; }
  /// Open at both ends, between different hosts.
  std::vector<Connection*> established();

  // ---- For lyre_api.cc ----

  End* connect(lyre_context* context, const lyre_addr* local, const lyre_addr& remote);
  uint16_t listen(lyre_context* context, lyre_listener* handle, uint16_t port);
  void close_listener(Host& host, lyre_listener* handle);
  /// New bytes, or an end of them, are queued.
  void push(End& end);
  void on_released(End& end);
  void close(End& end);
  void abort(End& end);
  void set_keepalive(End& end);
  /// The end is over for this side. `error`: LYRE_E code or 0.
  void end_side(End& end, int error);
  bool knows(const End& end) const;

  /// Called when something happened that a client hears of.
  std::function<void(lyre_context*)> on_news = [](lyre_context*) {};
  uint64_t packets() const { return packets_; }
  uint64_t open_ends() const;

 private:
  bool is_open(const End& from) const;
  bool is_queue_full(const End& from);
  int64_t arrival_ns(End& from, size_t bytes);
  void transmit(End& from, Packet packet);
  void deliver(End& to, Packet packet);
  void leave(End& end);
  void on_syn(End& to);
  void take(End& to, const Packet& packet);
  void retransmit(End& end);
  void finish_pieces(End& end);
  void send_segment(End& end);
  void on_syn_ack(End& to, const Packet& packet);
  void establish(End& to);
  void on_data(End& to, Packet packet);
  void on_ack(End& to, const Packet& packet);
  void send_syn(End& end);
  void send_ack(End& end);
  void send_reset(End& end);
  void arm(End& end);
  void expect_timer(End& end, int64_t at_ns);
  void begin_timing(End& end, uint64_t until);
  void take_sample(End& end);
  void on_timer(End& end);
  void probe(End& end);
  void finish_if_over(End& end);
  End& other(End& end) const { return end.connection->ends[1 - end.side]; }
  const End& other(const End& end) const { return end.connection->ends[1 - end.side]; }
  Rail* find_rail(const lyre_addr& address, size_t* host, size_t* rail);
  std::vector<uint8_t> read(const End& end, uint64_t from, uint64_t bytes) const;
  void forget_all(Host& host, bool tells);
  uint64_t window_end(const End& end) const;

  using RailPairKey = std::pair<std::pair<size_t, size_t>, std::pair<size_t, size_t>>;
  static RailPairKey key(size_t host, size_t rail, size_t peer, size_t peer_rail);

  NetworkSettings settings_;
  Events& events_;
  Rng rng_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::map<RailPairKey, int64_t> cut_until_ns_;
  std::map<RailPairKey, int64_t> free_ns_;  ///< when a path has sent what it was given
  std::map<RailPairKey, int64_t> delay_ns_;
  uint64_t packets_ = 0;
};

/// What lyre_api.cc does when something happens to a session or listener.
void on_session_ready(lyre_session* session);
void on_connection_arrived(lyre_listener* listener, End& end);
void on_block_free(lyre_context* context, uint8_t* block);
void on_daemon_gone(lyre_context* context, int code);

/// The network that the functions of lyre/lyre.h work on.
void set_network(Network* network);
Network* network();

}  // namespace lyre::adapter_sim
