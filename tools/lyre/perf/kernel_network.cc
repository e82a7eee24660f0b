#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

#include "tools/lyre/failure.h"
#include "tools/lyre/perf/stream.h"
#include "tools/lyre/perf/zero_copy_blocks.h"
#include "tools/lyre/units.h"

namespace lyre::perf {
namespace {

/// For fewer bytes, pinning pages costs more than copying.
constexpr size_t kZeroCopyBytesMin = 16 * 1024;
/// Events of one epoll_wait(), and its calls in one wait(): twice as many events as a client has
/// sessions at most.
constexpr int kEventsAtOnce = 64;
constexpr int kEventCallsMax = 128;

std::string error_text(const char* what) { return std::string(what) + ": " + std::strerror(errno); }

/// A socket address of either family.
struct KernelAddress {
  sockaddr_storage storage{};
  socklen_t bytes = sizeof(sockaddr_storage);

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  sa_family_t family() const { return storage.ss_family; }
};

constexpr uint8_t kMappedPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool is_ipv4(const lyre_addr& addr) {
  return std::memcmp(addr.address, kMappedPrefix, sizeof kMappedPrefix) == 0;
}

bool is_any(const lyre_addr& addr) {
  const size_t first = is_ipv4(addr) ? sizeof kMappedPrefix : 0;
  const auto is_zero = [](uint8_t byte) { return byte == 0; };
  return std::all_of(addr.address + first, std::end(addr.address), is_zero);
}

KernelAddress to_ipv6(const lyre_addr& addr) {
  KernelAddress out;
  auto& v6 = reinterpret_cast<sockaddr_in6&>(out.storage);
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(addr.port);
  if (!is_any(addr)) std::memcpy(&v6.sin6_addr, addr.address, sizeof v6.sin6_addr);
  out.bytes = sizeof v6;
  return out;
}

KernelAddress to_kernel(const lyre_addr& addr) {
  if (!is_ipv4(addr)) return to_ipv6(addr);
  KernelAddress out;
  auto& v4 = reinterpret_cast<sockaddr_in&>(out.storage);
  v4.sin_family = AF_INET;
  v4.sin_port = htons(addr.port);
  std::memcpy(&v4.sin_addr, addr.address + sizeof kMappedPrefix, sizeof v4.sin_addr);
  out.bytes = sizeof v4;
  return out;
}

lyre_addr from_kernel(const KernelAddress& addr) {
  lyre_addr out{};
  if (addr.family() == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(addr.storage);
    std::memcpy(out.address, &v6.sin6_addr, sizeof out.address);
    out.port = ntohs(v6.sin6_port);
    return out;
  }
  const auto& v4 = reinterpret_cast<const sockaddr_in&>(addr.storage);
  std::memcpy(out.address, kMappedPrefix, sizeof kMappedPrefix);
  std::memcpy(out.address + sizeof kMappedPrefix, &v4.sin_addr, sizeof v4.sin_addr);
  out.port = ntohs(v4.sin_port);
  return out;
}

class KernelNetwork;

class KernelStream final : public Stream {
 public:
  KernelStream(KernelNetwork& network, int fd, const lyre_addr& remote, bool is_open);
  ~KernelStream() override;
  KernelStream(const KernelStream&) = delete;
  KernelStream& operator=(const KernelStream&) = delete;

  bool is_open() override {
    if (is_open_) return true;
    pollfd entry{fd_, POLLOUT, 0};
    if (::poll(&entry, 1, 0) <= 0) return false;
    int error = 0;
    socklen_t bytes = sizeof error;
    ::getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &bytes);
    errno = error;
    if (error != 0) throw StreamError(error_text("cannot connect"));
    return is_open_ = true;
  }
  std::span<uint8_t> try_begin_write(size_t bytes) override {
    if (!try_flush()) return {};
    if (zero_copy_ && bytes >= kZeroCopyBytesMin) return out_ = zero_copy_->take(bytes);
    if (own_out_.size() < bytes) own_out_.resize(bytes);
    return out_ = {own_out_.data(), bytes};
  }
  void commit_write(size_t bytes) override {
    is_out_pinned_ = out_.data() != own_out_.data();
    out_sent_ = 0;
    out_end_ = bytes;
    try_flush();
  }
  bool try_flush() override {
    while (out_sent_ < out_end_) {
      if (!may_be_ready(is_writable_)) return false;
      const ssize_t sent = send_some();
      if (sent < 0 && errno == EAGAIN) return is_writable_ = false;
      if (sent < 0) throw StreamError(error_text("cannot send"));
      out_sent_ += static_cast<size_t>(sent);
    }
    return true;
  }
  std::span<const uint8_t> peek() override {
    if (in_next_ == in_end_ && may_be_ready(is_readable_)) {
      const ssize_t count = ::recv(fd_, in_.data(), in_.size(), MSG_DONTWAIT);
      // After a short read epoll reports the next bytes by a new edge. After a FIN there is no
      // edge.
      is_readable_ = count == static_cast<ssize_t>(in_.size()) || has_peer_finished_;
      if (count < 0 && errno == EAGAIN) return {};
      if (count < 0) throw StreamError(error_text("cannot receive"));
      is_at_end_ = count == 0;
      in_next_ = 0;
      in_end_ = static_cast<size_t>(count);
    }
    return {in_.data() + in_next_, in_end_ - in_next_};
  }
  void consume(size_t bytes) override { in_next_ += bytes; }
  bool is_at_end() const override { return is_at_end_; }
  void finish() override { ::shutdown(fd_, SHUT_WR); }
  std::string peer() const override {
    return tools::format_endpoint(remote_.address, remote_.port);
  }

  void on_events(uint32_t events) {
    const bool is_over = (events & (EPOLLRDHUP | EPOLLHUP)) != 0;
    has_peer_finished_ |= is_over;
    // The error queue also reports blocks that the kernel no longer reads.
    is_writable_ |= is_over || (events & (EPOLLOUT | EPOLLERR)) != 0;
    is_readable_ |= is_over || (events & (EPOLLIN | EPOLLERR)) != 0;
  }
  int descriptor() const { return fd_; }

 private:
  bool may_be_ready(bool is_said_to_be) const;

  ssize_t send_some() {
    const uint8_t* from = out_.data() + out_sent_;
    const size_t bytes = out_end_ - out_sent_;
    constexpr int kFlags = MSG_NOSIGNAL | MSG_DONTWAIT;
    if (is_out_pinned_) {
      const ssize_t sent = ::send(fd_, from, bytes, kFlags | MSG_ZEROCOPY);
      if (sent >= 0) zero_copy_->on_sent();
      // ENOBUFS: the socket has no room for another report, so this piece is sent with a copy.
      if (sent >= 0 || errno != ENOBUFS) return sent;
    }
    return ::send(fd_, from, bytes, kFlags);
  }

  KernelNetwork& network_;
  int fd_;
  lyre_addr remote_;
  bool is_open_;
  bool is_at_end_ = false;
  bool is_readable_ = true;
  bool is_writable_ = true;
  bool has_peer_finished_ = false;
  bool is_out_pinned_ = false;
  std::optional<ZeroCopyBlocks> zero_copy_;
  std::vector<uint8_t> own_out_;
  std::span<uint8_t> out_;
  size_t out_sent_ = 0;
  size_t out_end_ = 0;
  std::vector<uint8_t> in_;
  size_t in_next_ = 0;
  size_t in_end_ = 0;
};

class KernelNetwork final : public Network {
 public:
  explicit KernelNetwork(const NetworkOptions& options)
      : options_(options), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    if (epoll_ < 0) throw tools::Failure(tools::kExitFailure, error_text("cannot wait"));
  }
  ~KernelNetwork() override {
    if (listener_ >= 0) ::close(listener_);
    ::close(epoll_);
  }
  KernelNetwork(const KernelNetwork&) = delete;
  KernelNetwork& operator=(const KernelNetwork&) = delete;

  std::unique_ptr<Stream> connect(const lyre_addr& remote) override {
    KernelAddress address = to_kernel(remote);
    const int fd = make_socket(address.family());
    const int code = ::connect(fd, address.get(), address.bytes);
    if (code != 0 && errno != EINPROGRESS) {
      const std::string line = error_text("cannot connect");
      ::close(fd);
      throw tools::Failure(tools::kExitFailure, line);
    }
    return std::make_unique<KernelStream>(*this, fd, remote, code == 0);
  }
  lyre_addr listen(const lyre_addr& local) override {
    // The any address accepts both families where the machine has both.
    KernelAddress address = is_any(local) && has_ipv6() ? to_ipv6(local) : to_kernel(local);
    listener_ = make_socket(address.family());
    const int on = 1;
    ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (::bind(listener_, address.get(), address.bytes) != 0 ||
        ::listen(listener_, SOMAXCONN) != 0) {
      const std::string where = tools::format_endpoint(local.address, local.port);
      throw tools::Failure(tools::kExitFailure, error_text(("cannot listen on " + where).c_str()));
    }
    ::getsockname(listener_, address.get(), &address.bytes);
    watch(listener_, nullptr, EPOLLIN);
    return from_kernel(address);
  }
  std::unique_ptr<Stream> try_accept() override {
    if (!may_be_ready(has_callers_)) return nullptr;
    KernelAddress address;
    const int fd =
        ::accept4(listener_, address.get(), &address.bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
    has_callers_ = fd >= 0;
    if (fd < 0) return nullptr;
    set_options(fd);
    return std::make_unique<KernelStream>(*this, fd, from_kernel(address), true);
  }
  void wait(int timeout_ms) override {
    if (options_.is_spinning) return;  // the caller polls every socket
    // The caller's pass over its streams then finds all that is ready, as after lyre_poll().
    for (int calls = 0; calls < kEventCallsMax; ++calls) {
      if (!take_events(calls == 0 ? timeout_ms : 0)) return;
    }
  }
  void drain(int) override {}  // the kernel sends what was written
  const char* name() const override { return "kernel"; }

  /// Closing the descriptor removes it from the set.
  void add(KernelStream* stream) {
    watch(stream->descriptor(), stream, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
  }
  bool may_be_ready(bool is_said_to_be) const { return is_said_to_be || options_.is_spinning; }
  bool is_zero_copy() const { return options_.is_zero_copy; }

 private:
  /// False: there were fewer events than one call returns.
  bool take_events(int timeout_ms) {
    epoll_event events[kEventsAtOnce];
    const int count = ::epoll_wait(epoll_, events, kEventsAtOnce, timeout_ms);
    for (int i = 0; i < count; ++i) {
      auto* stream = static_cast<KernelStream*>(events[i].data.ptr);
      if (stream == nullptr) {
        has_callers_ = true;
      } else {
        stream->on_events(events[i].events);
      }
    }
    return count == kEventsAtOnce;
  }
  void watch(int fd, KernelStream* stream, uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.ptr = stream;
    if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) {
      throw tools::Failure(tools::kExitFailure, error_text("cannot wait for a socket"));
    }
  }
  static void set_options(int fd) {
    const auto set = [fd](int level, int option, int value) {
      ::setsockopt(fd, level, option, &value, sizeof value);
    };
    set(IPPROTO_TCP, TCP_NODELAY, 1);
    set(SOL_SOCKET, SO_KEEPALIVE, 1);
    set(IPPROTO_TCP, TCP_KEEPIDLE, kProbeIdleMs / 1000);
    set(IPPROTO_TCP, TCP_KEEPINTVL, kProbeIntervalMs / 1000);
    set(IPPROTO_TCP, TCP_KEEPCNT, kProbesMax);
  }
  static bool has_ipv6() {
    const int fd = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) ::close(fd);
    return fd >= 0;
  }
  static int make_socket(int family) {
    const int fd = ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) throw tools::Failure(tools::kExitFailure, error_text("cannot make a socket"));
    set_options(fd);
    return fd;
  }

  NetworkOptions options_;
  int epoll_;
  int listener_ = -1;
  bool has_callers_ = true;
};

KernelStream::KernelStream(KernelNetwork& network, int fd, const lyre_addr& remote, bool is_open)
    : network_(network), fd_(fd), remote_(remote), is_open_(is_open), in_(kReadBytes) {
  network_.add(this);
  if (!network_.is_zero_copy()) return;
  if (!ZeroCopyBlocks::turn_on(fd_)) {
    throw tools::Failure(tools::kExitFailure, error_text("no MSG_ZEROCOPY"));
  }
  zero_copy_.emplace(fd_);
}

KernelStream::~KernelStream() { ::close(fd_); }

bool KernelStream::may_be_ready(bool is_said_to_be) const {
  return network_.may_be_ready(is_said_to_be);
}

}  // namespace

std::unique_ptr<Network> make_kernel_network(const NetworkOptions& options) {
  return std::make_unique<KernelNetwork>(options);
}

}  // namespace lyre::perf
