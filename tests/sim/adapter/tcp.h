#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "stack/base/rng.h"
#include "tests/sim/adapter/connection.h"
#include "tests/sim/adapter/events.h"
#include "tests/sim/adapter/network_settings.h"
#include "tests/sim/adapter/wires.h"

namespace lyre::adapter_sim {

/// The TCP of all daemons: what one end of a connection does when its client, its peer or its timer
/// asks for it. It knows the end that it is given, the other one, and the wires between them.
class Tcp {
 public:
  Tcp(const NetworkSettings& settings, Events& events, Rng& rng, Wires& wires)
      : settings_(settings), events_(events), rng_(rng), wires_(wires) {}

  /// Sends the SYN of an end that a client opens.
  void open(End& end);
  /// New bytes, or an end of them, are queued.
  void push(End& end);
  /// The client gave memory back: the window may open.
  void on_released(End& end);
  /// Sends FIN after what is queued.
  void shut(End& end);
  void close(End& end);
  void abort(End& end);
  void set_keepalive(End& end);
  /// The end is over for this side. `error`: LYRE_E code or 0.
  void end_side(End& end, int error);
  /// The daemon of the end ends; in order: the peer is told.
  void forget(End& end, bool tells);
  /// A device between the hosts resets both ends.
  void reset(Connection& connection);
  uint64_t packets() const { return packets_; }

 private:
  void begin(End& end);

  // ---- Packets ----
  bool is_open(const End& from) const;
  int64_t arrival_ns(End& from, size_t bytes);
  void transmit(End& from, Packet packet);
  void deliver(End& to, Packet packet);
  bool may_accept(const End& to);
  void on_syn(End& to);
  void on_syn_ack(End& to, const Packet& packet);
  void establish(End& to);
  void on_data(End& to, Packet packet);
  void take(End& to, const Packet& packet);
  void acknowledge(End& to);
  void on_ack(End& to, const Packet& packet);
  void finish_pieces(End& end);
  std::vector<uint8_t> read(const End& end, uint64_t from, uint64_t bytes) const;
  void send_segment(End& end);
  void send_syn(End& end);
  void send_ack(End& end);
  void send_reset(End& end);
  uint64_t window_end(const End& end) const;
  void finish_if_over(End& end);

  // ---- Timers ----
  void begin_timing(End& end, uint64_t until);
  void take_sample(End& end);
  void arm(End& end);
  void expect_timer(End& end, int64_t at_ns);
  void on_timer(End& end);
  void retransmit(End& end);
  void probe(End& end);

  NetworkSettings settings_;
  Events& events_;
  Rng& rng_;
  Wires& wires_;
  uint64_t packets_ = 0;
};

/// What lyre_api.cc does when something happens to a session or listener.
void on_session_ready(lyre_session* session);
void on_connection_arrived(lyre_listener* listener, End& end);
void on_block_free(lyre_context* context, uint8_t* block);

}  // namespace lyre::adapter_sim
