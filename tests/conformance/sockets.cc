#include "tests/conformance/sockets.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace lyre::conformance {

namespace {

std::optional<Endpoint> endpoint_of(const sockaddr* address, socklen_t length) {
  if (address == nullptr) return std::nullopt;
  Endpoint out;
  if (address->sa_family == AF_INET && length >= sizeof(sockaddr_in)) {
    sockaddr_in v4;
    std::memcpy(&v4, address, sizeof v4);
    out.address = IpAddress::v4(ntohl(v4.sin_addr.s_addr));
    out.port = ntohs(v4.sin_port);
    return out;
  }
  if (address->sa_family == AF_INET6 && length >= sizeof(sockaddr_in6)) {
    sockaddr_in6 v6;
    std::memcpy(&v6, address, sizeof v6);
    std::memcpy(out.address.bytes.data(), v6.sin6_addr.s6_addr, 16);
    out.port = ntohs(v6.sin6_port);
    return out;
  }
  return std::nullopt;
}

void write_endpoint(const Endpoint& from, bool is_v6, sockaddr* address, socklen_t* length) {
  if (address == nullptr || length == nullptr) return;
  sockaddr_storage storage{};
  socklen_t bytes = sizeof(sockaddr_in);
  if (is_v6) {
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&storage);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(from.port);
    std::memcpy(v6->sin6_addr.s6_addr, from.address.bytes.data(), 16);
    bytes = sizeof(sockaddr_in6);
  } else {
    auto* v4 = reinterpret_cast<sockaddr_in*>(&storage);
    v4->sin_family = AF_INET;
    v4->sin_port = htons(from.port);
    v4->sin_addr.s_addr = htonl(from.address.as_v4());
  }
  std::memcpy(address, &storage, std::min(*length, bytes));
  *length = bytes;
}

int errno_of(const Stream& stream) {
  switch (stream.reason) {
    case tcp::EndReason::kReset:
      // As in Linux: EPIPE once the peer has finished.
      return stream.has_peer_finished ? EPIPE : ECONNRESET;
    case tcp::EndReason::kRefused:
      return ECONNREFUSED;
    case tcp::EndReason::kTimedOut:
      return ETIMEDOUT;
    case tcp::EndReason::kUnreachable:
      return EHOSTUNREACH;
    case tcp::EndReason::kAborted:
      return ECONNABORTED;
    default:
      return 0;
  }
}

}  // namespace

int Sockets::open(int fd, int domain, int type) {
  if (domain != AF_INET && domain != AF_INET6) return -EAFNOSUPPORT;
  if ((type & 0xf) != SOCK_STREAM) return -ESOCKTNOSUPPORT;
  Socket& socket = sockets_[fd];
  socket.is_v6 = domain == AF_INET6;
  socket.is_nonblocking = (type & SOCK_NONBLOCK) != 0;
  socket.config = host_.options().connection;
  socket.config.mss_bytes = UINT16_MAX;  // limited by the packet size
  return fd;
}

int Sockets::bind(int fd, const sockaddr* address, socklen_t length) {
  Socket& socket = sockets_.at(fd);
  const auto local = endpoint_of(address, length);
  if (!local) return -EINVAL;
  if (socket.is_bound) return -EINVAL;
  if (host_.listeners().is_port_bound(local->port)) return -EADDRINUSE;
  socket.local = *local;
  socket.is_bound = true;
  return 0;
}

int Sockets::listen(int fd, int backlog) {
  Socket& socket = sockets_.at(fd);
  if (socket.conn != tcp::kNoConn) return -EINVAL;
  socket.is_listener = true;
  host_.open_listener(fd, socket.local, static_cast<uint32_t>(std::max(backlog, 0)), socket.config);
  return 0;
}

int Sockets::accept(int listener, int fd, sockaddr* address, socklen_t* length) {
  Socket& from = sockets_.at(listener);
  if (!from.is_listener) return -EINVAL;
  const auto conn = host_.accept(listener, fd);
  if (!conn) return -EAGAIN;
  Socket socket = from;  // options are inherited, type and mode are not
  socket.is_listener = socket.is_nonblocking = false;
  socket.conn = *conn;
  socket.local = host_.engine().tuple(*conn).local;
  socket.remote = host_.engine().tuple(*conn).remote;
  write_endpoint(socket.remote, socket.is_v6, address, length);
  sockets_[fd] = socket;
  return fd;
}

int Sockets::start_connect(int fd, const sockaddr* address, socklen_t length) {
  Socket& socket = sockets_.at(fd);
  if (socket.is_listener) return -EINVAL;
  if (const Stream* stream = stream_of(socket)) {
    if (socket.was_connecting && stream->is_over) return -ECONNABORTED;
    return stream->is_established ? -EISCONN : -EALREADY;
  }
  const auto remote = endpoint_of(address, length);
  if (!remote) return -EAFNOSUPPORT;
  socket.remote = *remote;
  if (socket.local.address.is_unspecified()) {
    socket.local.address =
        remote->address.is_v4() ? host_.options().local_v4 : host_.options().local_v6;
  }
  if (socket.local.port == 0) socket.local.port = host_.choose_port(socket.local.address, *remote);
  socket.conn = host_.connect({socket.local, socket.remote}, socket.config, fd);
  if (socket.conn == tcp::kNoConn) return -EADDRNOTAVAIL;
  socket.was_connecting = true;
  return -EINPROGRESS;
}

int Sockets::finish_connect(int fd) {
  Socket& socket = sockets_.at(fd);
  const Stream* stream = stream_of(socket);
  if (stream == nullptr) return -ENOTCONN;
  if (stream->is_established) return 0;
  if (!stream->is_over) return -EAGAIN;
  return -take_error(socket);
}

int Sockets::take_error(Socket& socket) const {
  const Stream* stream = stream_of(socket);
  if (stream == nullptr || !stream->is_over || socket.reported_end != 0) return 0;
  socket.reported_end = errno_of(*stream);
  return socket.reported_end;
}

ssize_t Sockets::send(int fd, std::span<const uint8_t> bytes, int flags) {
  Socket& socket = sockets_.at(fd);
  const Stream* stream = stream_of(socket);
  if (const int error = take_error(socket)) return -error;
  if (socket.is_write_shut) return -EPIPE;
  if (stream == nullptr || stream->is_over) return -EPIPE;
  if (!stream->is_established) return -EAGAIN;
  if (bytes.empty()) return 0;
  const uint32_t count = host_.send(socket.conn, bytes, (flags & MSG_MORE) != 0);
  return count == 0 ? -EAGAIN : static_cast<ssize_t>(count);
}

ssize_t Sockets::receive(int fd, std::span<uint8_t> out, int flags) {
  Socket& socket = sockets_.at(fd);
  const Stream* stream = stream_of(socket);
  if (stream == nullptr) return socket.is_read_shut ? 0 : -ENOTCONN;
  if (const uint32_t count = host_.receive_into(socket.conn, out, (flags & MSG_PEEK) != 0)) {
    return static_cast<ssize_t>(count);
  }
  if (out.empty()) return 0;
  stream = stream_of(socket);
  if (stream->has_peer_finished && !stream->is_over) return 0;
  if (const int error = take_error(socket)) return -error;
  if (stream->is_over || socket.is_read_shut) return 0;
  if (!stream->is_established && !socket.was_connecting) return -ENOTCONN;
  return -EAGAIN;
}

int Sockets::shutdown(int fd, int how) {
  Socket& socket = sockets_.at(fd);
  const Stream* stream = stream_of(socket);
  if (stream == nullptr || stream->is_over) return -ENOTCONN;
  if (how != SHUT_WR) socket.is_read_shut = true;
  if (how != SHUT_RD && !socket.is_write_shut) {
    socket.is_write_shut = true;
    host_.shutdown(socket.conn);
  }
  return 0;
}

int Sockets::close(int fd) {
  const Socket socket = sockets_.at(fd);
  sockets_.erase(fd);
  if (socket.is_listener) host_.close_listener(fd);
  if (socket.conn == tcp::kNoConn) return 0;
  if (socket.has_linger && socket.linger_seconds == 0) {
    host_.abort(socket.conn);
  } else {
    host_.close(socket.conn);
  }
  return 0;
}

int Sockets::fcntl(int fd, int command, long argument) {
  Socket& socket = sockets_.at(fd);
  switch (command) {
    case F_GETFL:
      return O_RDWR | (socket.is_nonblocking ? O_NONBLOCK : 0);
    case F_SETFL:
      socket.is_nonblocking = (argument & O_NONBLOCK) != 0;
      return 0;
    case F_GETFD:
    case F_SETFD:
      return 0;
    default:
      return -EINVAL;
  }
}

int Sockets::ioctl(int fd, unsigned long request, int* out) {
  Socket& socket = sockets_.at(fd);
  if (socket.is_listener) return -EINVAL;
  const bool is_open = socket.conn != tcp::kNoConn;
  switch (request) {
    case SIOCINQ:
      *out = is_open ? static_cast<int>(host_.readable_bytes(socket.conn)) : 0;
      return 0;
    case SIOCOUTQ:
      *out = is_open ? static_cast<int>(host_.stream(socket.conn).unacked.size()) : 0;
      return 0;
    case SIOCOUTQNSD:
      *out = is_open ? static_cast<int>(host_.engine().info(socket.conn).unsent_bytes) : 0;
      return 0;
    case FIONBIO:
      socket.is_nonblocking = *out != 0;
      return 0;
    default:
      return -EINVAL;
  }
}

Readiness Sockets::readiness(int fd) const {
  const Socket& socket = sockets_.at(fd);
  Readiness out;
  if (socket.is_listener) {
    if (host_.listeners().has_acceptable(fd)) out.events |= EPOLLIN;
    out.news = out.events;
    return out;
  }
  const Stream* stream = stream_of(socket);
  if (stream == nullptr) return {EPOLLHUP | EPOLLOUT, 0};
  const uint32_t readable = host_.readable_bytes(socket.conn);
  const bool has_end = stream->has_peer_finished || stream->is_over || socket.is_read_shut;
  if (readable > 0 || has_end) out.events |= EPOLLIN | EPOLLRDNORM;
  if (has_end) out.events |= EPOLLRDHUP;
  if (stream->is_over || (has_end && socket.is_write_shut)) out.events |= EPOLLHUP;
  if (stream->is_over && socket.reported_end == 0 && errno_of(*stream) != 0) {
    out.events |= EPOLLERR;
  }
  const uint32_t used = static_cast<uint32_t>(stream->unacked.size());
  // As in Linux: writable when a third of the buffer is free.
  const bool has_space = used + used / 2 <= socket.config.send_buffer_bytes;
  const bool has_room = stream->is_established && has_space &&
                        host_.engine().info(socket.conn).unsent_bytes < stream->unsent_low_bytes;
  if (has_room || stream->is_over || socket.is_write_shut) out.events |= EPOLLOUT | EPOLLWRNORM;
  const tcp::ConnectionInfo info = host_.engine().info(socket.conn);
  out.news = info.bytes_received + info.bytes_acked + (has_end ? 1 : 0) +
             (stream->is_established ? 1 : 0) + (stream->is_over ? 1 : 0);
  return out;
}

std::optional<int> Sockets::inq(int fd) const {
  const Socket& socket = sockets_.at(fd);
  if (!socket.has_inq || socket.conn == tcp::kNoConn) return std::nullopt;
  const uint32_t readable = host_.readable_bytes(socket.conn);
  // As in Linux: with nothing left to read, 1 announces the end of the stream.
  if (readable == 0 && host_.stream(socket.conn).has_peer_finished) return 1;
  return static_cast<int>(readable);
}

int Sockets::name_of(int fd, bool is_peer, sockaddr* address, socklen_t* length) const {
  const Socket& socket = sockets_.at(fd);
  if (is_peer && socket.conn == tcp::kNoConn) return -ENOTCONN;
  write_endpoint(is_peer ? socket.remote : socket.local, socket.is_v6, address, length);
  return 0;
}

}  // namespace lyre::conformance
