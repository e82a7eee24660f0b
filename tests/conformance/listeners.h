#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "stack/base/check.h"
#include "stack/base/ip_address.h"
#include "stack/tcp/engine.h"
#include "stack/worker/tables/listeners.h"

namespace lyre::conformance {

/// The listening sockets of a host: a worker's listeners, by the number of their socket, and the
/// connections that wait to be accepted. What a worker calls "announced" is accepted here.
class Listeners {
 public:
  static constexpr int kNone = -1;

  /// Takes the place of an earlier one of that socket.
  void open(int socket, const Endpoint& local, uint32_t backlog,
            const tcp::ConnectionConfig& config) {
    if (sockets_.contains(socket)) close(socket);
    const uint32_t index = table_.add({.local = local, .backlog = backlog});
    LYRE_CHECK(index != worker::Listeners::kNone);
    sockets_[socket] = {.index = index, .config = config, .acceptable = {}};
  }
  void close(int socket) {
    table_.remove(sockets_.at(socket).index);
    sockets_.erase(socket);
  }
  /// Ignored when the socket does not listen.
  void configure(int socket, const tcp::ConnectionConfig& config) {
    if (const auto found = sockets_.find(socket); found != sockets_.end()) {
      found->second.config = config;
    }
  }
  /// Of its connections to come.
  const tcp::ConnectionConfig& config(int socket) const { return sockets_.at(socket).config; }
  worker::Listener& at(int socket) { return table_[sockets_.at(socket).index]; }

  /// The socket that listens at `local`; one at that address goes before one at any.
  int find(const Endpoint& local) const {
    const uint32_t index = table_.find(local);
    if (index == worker::Listeners::kNone) return kNone;
    for (const auto& [socket, listening] : sockets_) {
      if (listening.index == index) return socket;
    }
    return kNone;
  }
  bool is_port_bound(uint16_t port) const { return table_.is_port_used(port); }

  bool has_acceptable(int socket) const { return !sockets_.at(socket).acceptable.empty(); }
  void on_established(int socket, tcp::ConnId conn) {
    at(socket).end_handshake();
    sockets_.at(socket).acceptable.push_back(conn);
  }
  /// A handshake was broken off.
  void on_abandoned(int socket) {
    at(socket).end_handshake();
    at(socket).leave();
  }
  /// The oldest connection that waits to be accepted.
  std::optional<tcp::ConnId> accept(int socket) {
    std::deque<tcp::ConnId>& acceptable = sockets_.at(socket).acceptable;
    if (acceptable.empty()) return std::nullopt;
    const tcp::ConnId conn = acceptable.front();
    acceptable.pop_front();
    at(socket).leave();
    return conn;
  }

 private:
  static constexpr uint32_t kListenersMax = 1024;
  struct Listening {
    uint32_t index = 0;
    tcp::ConnectionConfig config;
    std::deque<tcp::ConnId> acceptable;
  };

  worker::Listeners table_{kListenersMax};
  std::map<int, Listening> sockets_;
};

}  // namespace lyre::conformance
