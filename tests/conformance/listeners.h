#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "stack/base/ip_address.h"
#include "stack/tcp/engine.h"

namespace lyre::conformance {

/// A listening socket: its settings, and its connections before somebody accepts them.
class Listener {
 public:
  Listener(const Endpoint& local, uint32_t backlog, const tcp::ConnectionConfig& config_in)
      : config(config_in), local_(local), backlog_(backlog) {}

  const Endpoint& local() const { return local_; }
  /// Half-open connections that it may have. As in Linux, a backlog of n accepts n + 1.
  uint32_t embryonic_max() const { return backlog_ + 1; }
  uint32_t embryonic() const { return embryonic_; }
  bool is_full() const { return acceptable_.size() > backlog_; }
  bool has_acceptable() const { return !acceptable_.empty(); }

  void on_half_open() { ++embryonic_; }
  /// A half-open connection ended.
  void on_abandoned() { --embryonic_; }
  void on_established(tcp::ConnId conn) {
    --embryonic_;
    acceptable_.push_back(conn);
  }
  /// The oldest connection that waits to be accepted.
  std::optional<tcp::ConnId> accept() {
    if (acceptable_.empty()) return std::nullopt;
    const tcp::ConnId conn = acceptable_.front();
    acceptable_.pop_front();
    return conn;
  }

  tcp::ConnectionConfig config;  ///< of its connections to come

 private:
  Endpoint local_;
  uint32_t backlog_;
  uint32_t embryonic_ = 0;
  std::deque<tcp::ConnId> acceptable_;
};

/// The listeners of a host, by the number of their socket.
class Listeners {
 public:
  static constexpr int kNone = -1;

  /// Takes the place of an earlier one of that socket.
  void open(int socket, const Listener& listener) { all_.insert_or_assign(socket, listener); }
  void close(int socket) { all_.erase(socket); }
  Listener& at(int socket) { return all_.at(socket); }
  const Listener& at(int socket) const { return all_.at(socket); }
  /// Ignored when the socket does not listen.
  void configure(int socket, const tcp::ConnectionConfig& config) {
    if (const auto found = all_.find(socket); found != all_.end()) found->second.config = config;
  }
  /// The socket that listens at `local`; one at that address goes before one at any.
  int find(const Endpoint& local) const {
    int any = kNone;
    for (const auto& [socket, listener] : all_) {
      if (listener.local().port != local.port) continue;
      if (listener.local().address == local.address) return socket;
      if (listener.local().address.is_unspecified()) any = socket;
    }
    return any;
  }
  bool is_port_bound(uint16_t port) const {
    for (const auto& [socket, listener] : all_) {
      if (listener.local().port == port) return true;
    }
    return false;
  }

 private:
  std::map<int, Listener> all_;
};

}  // namespace lyre::conformance
