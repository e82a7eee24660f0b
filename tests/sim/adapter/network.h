#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "lyre/lyre.h"
#include "stack/base/rng.h"
#include "tests/sim/adapter/connection.h"
#include "tests/sim/adapter/events.h"
#include "tests/sim/adapter/network_settings.h"
#include "tests/sim/adapter/tcp.h"
#include "tests/sim/adapter/wires.h"

/// Hosts with a daemon each, rails between them, and TCP connections as a client of a daemon sees
/// them: bytes in order, acknowledgements, a window, retransmission, the ways in which a connection
/// ends. The functions of lyre/lyre.h, which the adapter is linked to, work on it (lyre_api.cc).
namespace lyre::adapter_sim {

/// The hosts, which daemon and which client is there, and the connections that were ever made.
class Network {
 public:
  Network(const NetworkSettings& settings, Events& events, uint64_t seed);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  Events& events() { return events_; }
  const NetworkSettings& settings() const { return settings_; }
  Wires& wires() { return wires_; }
  Tcp& tcp() { return tcp_; }
  Host& host(size_t index) { return *hosts_[index]; }
  Rng& rng() { return rng_; }

  // ---- What breaks ----

  void kill_daemon(size_t host);
  /// In order: peers get a FIN.
  void stop_daemon(size_t host);
  void start_daemon(size_t host);
  void pause_daemon(size_t host);
  void resume_daemon(size_t host);
  /// The client process is gone; the daemon ends what it had.
  void kill_client(lyre_context* context);

  // ---- Connections ----

  const std::vector<std::unique_ptr<Connection>>& connections() const { return connections_; }
  /// Open at both ends, between different hosts.
  std::vector<Connection*> established();
  uint64_t open_ends() const;

  // ---- For lyre_api.cc ----

  /// False, and counted: the client, or all of its host, have as many connections made as they may
  /// have.
  bool may_connect(const lyre_context* context);
  uint64_t refused_connects() const { return refused_connects_; }
  End* connect(lyre_context* context, const lyre_addr* local, const lyre_addr& remote);
  uint16_t listen(lyre_context* context, lyre_listener* handle, uint16_t port);
  void close_listener(Host& host, lyre_listener* handle);
  /// Called when there is an event for a client.
  std::function<void(lyre_context*)> on_news = [](lyre_context*) {};

 private:
  void leave(End& end);
  void forget_all(Host& host, bool tells);
  size_t choose_fabric_path();
  bool find_port(const lyre_addr& address, Place* out) const;

  NetworkSettings settings_;
  Events& events_;
  Rng rng_;
  Wires wires_;
  Tcp tcp_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<Connection>> connections_;
  uint64_t refused_connects_ = 0;
};

/// What lyre_api.cc does when the daemon of a context is gone.
void on_daemon_gone(lyre_context* context, int code);

/// The network that the functions of lyre/lyre.h work on.
void set_network(Network* network);
Network* network();

}  // namespace lyre::adapter_sim
