#include "tools/lyre/allreduce/net_address.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <utility>

#include "tools/lyre/allreduce/failure.h"

namespace lyre::allreduce {
namespace {

constexpr unsigned kUserTimeoutMs = 20'000;
using std::chrono_literals::operator""s;

constexpr unsigned kRetryIntervalUs = 200'000;

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

AddressList resolve(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == address.size()) {
    throw UsageError(address + ": ADDR:PORT is wanted");
  }
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), address.substr(colon + 1).c_str(), &hints, &found);
  if (error != 0) throw Failure(address + ": " + ::gai_strerror(error));
  return AddressList(found, &::freeaddrinfo);
}

UniqueFd open_socket(const addrinfo& address) {
  UniqueFd fd(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) throw Failure(std::string("socket: ") + std::strerror(errno));
  return fd;
}

// Keep-alive detects a machine that has failed while the channel is idle.
void set_liveness(int fd) {
  const int one = 1;
  const int idle_s = 5;
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof(idle_s));
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs, sizeof(kUserTimeoutMs));
}

void set_send_timeout(int fd, std::chrono::seconds timeout) {
  const timeval value{.tv_sec = timeout.count(), .tv_usec = 0};  // 0: none
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &value, sizeof(value));
}

// An error number; 0: it is connected. An address that does not answer has no longer than `limit`
// (socket(7)).
int try_connect(int fd, const addrinfo& address, std::chrono::steady_clock::duration limit) {
  set_send_timeout(fd, std::max(std::chrono::ceil<std::chrono::seconds>(limit), 1s));
  if (::connect(fd, address.ai_addr, address.ai_addrlen) != 0) {
    return errno == EINPROGRESS ? ETIMEDOUT : errno;
  }
  set_send_timeout(fd, 0s);
  return 0;
}

}  // namespace

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = other.release();
  }
  return *this;
}

UniqueFd::~UniqueFd() {
  if (fd_ >= 0) ::close(fd_);
}

int UniqueFd::release() { return std::exchange(fd_, -1); }

UniqueFd listen_tcp(const std::string& address) {
  const AddressList found = resolve(address);
  UniqueFd fd = open_socket(*found);
  const int one = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  if (::bind(fd.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(fd.get(), SOMAXCONN) != 0) {
    throw Failure("cannot listen on " + address + ": " + std::strerror(errno));
  }
  return fd;
}

UniqueFd connect_tcp(const std::string& address, std::chrono::seconds timeout,
                     bool (*is_interrupted)()) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  const AddressList found = resolve(address);
  while (true) {
    if (is_interrupted()) throw Failure("interrupted");
    UniqueFd fd = open_socket(*found);
    set_liveness(fd.get());
    const int error = try_connect(fd.get(), *found, deadline - std::chrono::steady_clock::now());
    if (error == 0) return fd;
    if (std::chrono::steady_clock::now() > deadline) {
      throw Failure("cannot connect to " + address + " within " + std::to_string(timeout.count()) +
                    " s: " + std::strerror(error));
    }
    ::usleep(kRetryIntervalUs);
  }
}

UniqueFd accept_tcp(int listener) {
  UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  if (fd.is_open()) set_liveness(fd.get());
  return fd;
}

}  // namespace lyre::allreduce
