#include "tools/kernel_plugin/socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace lyre::kernel_plugin {
namespace {

// Keep-alive and the user timeout report a peer that has failed without a FIN, as Lyre does.
constexpr unsigned kUserTimeoutMs = 20'000;
constexpr int kKeepAliveIdleS = 5;
constexpr int kKeepAliveIntervalS = 3;
constexpr int kKeepAliveProbes = 5;

socklen_t to_sockaddr(const Endpoint& endpoint, sockaddr_storage* out) {
  std::memset(out, 0, sizeof(*out));
  if (endpoint.family == AF_INET) {
    auto* v4 = reinterpret_cast<sockaddr_in*>(out);
    v4->sin_family = AF_INET;
    v4->sin_port = htons(endpoint.port);
    std::memcpy(&v4->sin_addr, endpoint.address, sizeof(v4->sin_addr));
    return sizeof(*v4);
  }
  auto* v6 = reinterpret_cast<sockaddr_in6*>(out);
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(endpoint.port);
  std::memcpy(&v6->sin6_addr, endpoint.address, sizeof(v6->sin6_addr));
  return sizeof(*v6);
}

Endpoint from_sockaddr(const sockaddr_storage& in) {
  Endpoint endpoint{};
  endpoint.family = in.ss_family;
  if (in.ss_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&in);
    endpoint.port = ntohs(v4->sin_port);
    std::memcpy(endpoint.address, &v4->sin_addr, sizeof(v4->sin_addr));
  } else {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&in);
    endpoint.port = ntohs(v6->sin6_port);
    std::memcpy(endpoint.address, &v6->sin6_addr, sizeof(v6->sin6_addr));
  }
  return endpoint;
}

void set_int(int fd, int level, int name, int value) {
  ::setsockopt(fd, level, name, &value, sizeof(value));
}

// The kernel tunes buffer sizes itself. A fixed SO_SNDBUF would switch that off.
void set_stream_options(int fd) {
  set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveIdleS);
  set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, kKeepAliveIntervalS);
  set_int(fd, IPPROTO_TCP, TCP_KEEPCNT, kKeepAliveProbes);
  ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs, sizeof(kUserTimeoutMs));
  // With BBR as the default the comparison would be slower. Without CUBIC in the kernel the call
  // fails and the default stays.
  ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
}

}  // namespace

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = other.release();
  }
  return *this;
}

Fd::~Fd() {
  if (fd_ >= 0) ::close(fd_);
}

int Fd::release() { return std::exchange(fd_, -1); }

std::string to_string(const Endpoint& endpoint) {
  char text[INET6_ADDRSTRLEN] = "?";
  ::inet_ntop(endpoint.family, endpoint.address, text, sizeof(text));
  return std::string(text) + ":" + std::to_string(endpoint.port);
}

Fd listen_on(const std::string& address, Endpoint* bound) {
  Endpoint wanted{};
  if (::inet_pton(AF_INET, address.c_str(), wanted.address) == 1) {
    wanted.family = AF_INET;
  } else if (::inet_pton(AF_INET6, address.c_str(), wanted.address) == 1) {
    wanted.family = AF_INET6;
  } else {
    errno = EINVAL;
    return Fd();
  }
  Fd fd(::socket(wanted.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) return fd;
  set_stream_options(fd.get());  // inherited by accepted sockets before the SYN-ACK leaves
  sockaddr_storage raw;
  socklen_t raw_bytes = to_sockaddr(wanted, &raw);
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&raw), raw_bytes) != 0) return Fd();
  if (::listen(fd.get(), SOMAXCONN) != 0) return Fd();
  raw_bytes = sizeof(raw);
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&raw), &raw_bytes) != 0) return Fd();
  *bound = from_sockaddr(raw);
  return fd;
}

Fd start_connect(const Endpoint& peer) {
  Fd fd(::socket(peer.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) return fd;
  set_stream_options(fd.get());
  sockaddr_storage raw;
  const socklen_t raw_bytes = to_sockaddr(peer, &raw);
  const int result = ::connect(fd.get(), reinterpret_cast<sockaddr*>(&raw), raw_bytes);
  if (result != 0 && errno != EINPROGRESS) return Fd();
  return fd;
}

Fd accept_from(int listener, Endpoint* peer) {
  sockaddr_storage raw;
  socklen_t raw_bytes = sizeof(raw);
  Fd fd(::accept4(listener, reinterpret_cast<sockaddr*>(&raw), &raw_bytes,
                  SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!fd.is_open()) return fd;
  set_stream_options(fd.get());
  *peer = from_sockaddr(raw);
  return fd;
}

ConnectProgress check_connected(int fd) {
  pollfd entry{fd, POLLOUT, 0};
  const int ready = ::poll(&entry, 1, 0);
  if (ready == 0) return ConnectProgress::kPending;
  if (ready < 0) return errno == EINTR ? ConnectProgress::kPending : ConnectProgress::kFailed;
  int error = 0;
  socklen_t error_bytes = sizeof(error);
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes);
  errno = error;
  return error == 0 ? ConnectProgress::kConnected : ConnectProgress::kFailed;
}

}  // namespace lyre::kernel_plugin
