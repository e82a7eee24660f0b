#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "tests/conformance/host.h"

namespace lyre::conformance {

/// Readiness as poll() and epoll report it, and the number of new events (edge triggers).
struct Readiness {
  uint32_t events = 0;
  uint64_t news = 0;
};

/// One socket of the program under test.
struct Socket {
  bool is_v6 = false;
  bool is_nonblocking = false;
  bool is_listener = false;
  bool is_bound = false;
  bool is_read_shut = false;
  bool is_write_shut = false;
  bool was_connecting = false;
  bool has_linger = false;
  bool has_keepalive = false;
  bool has_reuse = false;
  bool has_inq = false;
  int linger_seconds = 0;
  int error = 0;  ///< SO_ERROR
  int reported_end = 0;
  uint32_t asked_mss = 0;
  uint32_t unsent_low = 0;  ///< TCP_NOTSENT_LOWAT
  Endpoint local;
  Endpoint remote;
  tcp::ConnId conn = tcp::kNoConn;
  tcp::ConnectionConfig config;
};

/// BSD sockets over a Host. No call blocks: a call that would block returns -EAGAIN, also on a
/// blocking socket, and the caller tries again. Results are what the call returns, or -errno.
/// Thread: one at a time.
class Sockets {
 public:
  explicit Sockets(Host& host) : host_(host) {}

  bool has(int fd) const { return sockets_.contains(fd); }
  tcp::ConnId conn_of(int fd) const { return sockets_.at(fd).conn; }
  bool is_nonblocking(int fd) const { return sockets_.at(fd).is_nonblocking; }

  int open(int fd, int domain, int type);
  int bind(int fd, const sockaddr* address, socklen_t length);
  int listen(int fd, int backlog);
  /// `fd` is the number of the new socket, if there is one.
  int accept(int listener, int fd, sockaddr* address, socklen_t* length);
  int start_connect(int fd, const sockaddr* address, socklen_t length);
  /// 0 once established, -EAGAIN while not.
  int finish_connect(int fd);
  ssize_t send(int fd, std::span<const uint8_t> bytes, int flags);
  ssize_t receive(int fd, std::span<uint8_t> out, int flags);
  int shutdown(int fd, int how);
  int close(int fd);
  int fcntl(int fd, int command, long argument);
  int ioctl(int fd, unsigned long request, int* out);
  int get_option(int fd, int level, int name, void* value, socklen_t* length);
  int set_option(int fd, int level, int name, const void* value, socklen_t length);
  Readiness readiness(int fd) const;
  /// The value of a TCP_INQ control message.
  std::optional<int> inq(int fd) const;
  int name_of(int fd, bool is_peer, sockaddr* address, socklen_t* length) const;

 private:
  int set_socket_option(int fd, Socket& socket, int name, std::span<const uint8_t> value);
  int set_tcp_option(int fd, Socket& socket, int name, int value);
  int set_tcp_timer(tcp::ConnectionConfig& config, int name, int value) const;
  int get_socket_option(Socket& socket, int name, int& value);
  int get_tcp_option(const Socket& socket, int name, int& value) const;
  int get_tcp_timer(const tcp::ConnectionConfig& config, int name, int& value) const;
  int fill_info(const Socket& socket, void* value, socklen_t* length) const;
  void apply_config(int fd, Socket& socket);
  /// Returns and clears the error that ended the connection.
  int take_error(Socket& socket) const;
  const Stream* stream_of(const Socket& socket) const {
    return socket.conn == tcp::kNoConn ? nullptr : &host_.stream(socket.conn);
  }

  Host& host_;
  std::map<int, Socket> sockets_;
};

}  // namespace lyre::conformance
