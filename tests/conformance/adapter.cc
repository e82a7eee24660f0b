#include <fcntl.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/conformance/packetdrill_abi.h"
#include "tests/conformance/sockets.h"

/// libpacketdrill_lyre.so: the stack behind packetdrill's interface. Time is virtual: it advances
/// only when packetdrill waits, or requests a packet that has not been sent yet.
namespace lyre::conformance {

namespace {

[[noreturn]] void give_up(const char* why) {
  std::fprintf(stderr, "libpacketdrill_lyre: %s\n", why);
  std::_Exit(2);
}

/// packetdrill's own command line: the script that it runs, and --mtu.
std::vector<std::string> command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> out;
  for (std::string argument; std::getline(file, argument, '\0');) out.push_back(argument);
  return out;
}

StackOptions options_from(const char* flags) {
  StackOptions options;
  options.learns_addresses = true;
  std::string wrong;
  const std::vector<std::string> arguments = command_line();
  for (size_t i = 1; i < arguments.size() && wrong.empty(); ++i) {
    const std::string& argument = arguments[i];
    if (argument.starts_with("--mtu=")) wrong = apply_flags(argument.substr(2), options);
    if (argument.starts_with("--local_ip=") && argument.find(':') == std::string::npos) {
      wrong = apply_flags(argument.substr(2), options);
    }
    if (argument.starts_with("-")) continue;
    std::ifstream script(argument);
    const std::string text{std::istreambuf_iterator<char>(script), {}};
    apply_script(text, options);
  }
  // Flags from the command line are applied last: they override the script.
  if (wrong.empty() && flags != nullptr) wrong = apply_flags(flags, options);
  if (!wrong.empty()) give_up(wrong.c_str());
  return options;
}

struct Epoll {
  struct Watch {
    epoll_event asked;
    uint64_t seen_news = UINT64_MAX;  ///< for edge triggers
    uint32_t seen_events = 0;
    bool is_disarmed = false;  ///< EPOLLONESHOT has fired
  };
  std::map<int, Watch> watches;
};

/// All state, under one lock. packetdrill calls from its main thread, and from one more thread for
/// calls that block in a script. After each change by the main thread the other one checks its
/// condition before time advances, so a run does not depend on the scheduler.
class Adapter {
 public:
  explicit Adapter(const StackOptions& options)
      : host_(options), sockets_(host_), main_thread_(std::this_thread::get_id()) {}

  using Try = std::function<ssize_t()>;

  /// Calls `attempt`, and with `may_block` repeats it for as long as it returns -EAGAIN.
  ssize_t call(const Try& attempt, bool may_block, Nanos patience = kNever) {
    std::unique_lock lock(mutex_);
    ssize_t result = attempt();
    const Nanos until = patience == kNever ? kNever : host_.now() + patience;
    if (may_block) {
      while (result == -EAGAIN && host_.now() < until) {
        wait_for_change(lock, until);
        result = attempt();
      }
      if (blocked_ == Blocked::kLooking) {
        blocked_ = Blocked::kReturning;
        changed_.notify_all();
      }
    }
    if (result >= 0) return result;
    errno = static_cast<int>(-result);
    return -1;
  }

  int packet_in(const void* bytes, size_t count) {
    std::unique_lock lock(mutex_);
    host_.receive({static_cast<const uint8_t*>(bytes), count});
    let_blocked_look(lock);
    return 0;
  }

  int packet_out(void* bytes, size_t* count, long long* micros_out) {
    std::unique_lock lock(mutex_);
    while (host_.output().is_empty()) {
      if (host_.next_deadline() == kNever) {
        give_up("a packet is awaited, but none is under way and no timer is running");
      }
      host_.advance_to(host_.next_deadline());
      let_blocked_look(lock);
    }
    const EmittedPacket packet = *host_.output().take();
    *count = std::min(*count, packet.bytes.size());
    std::memcpy(bytes, packet.bytes.data(), *count);
    *micros_out = packet.at.value / 1000 + kEpochMicros;
    return 0;
  }

  void sleep(Nanos span) {
    std::unique_lock lock(mutex_);
    const Nanos until = host_.now() + span;
    while (host_.next_deadline() <= until) {
      host_.advance_to(host_.next_deadline());
      let_blocked_look(lock);
    }
    host_.advance_to(until);
    let_blocked_look(lock);
  }

  /// Each read advances the clock a little, because packetdrill ends every wait by polling it.
  long long clock_micros() {
    std::unique_lock lock(mutex_);
    const bool is_main = std::this_thread::get_id() == main_thread_;
    if (!is_main && blocked_ == Blocked::kReturning) {
      blocked_ = Blocked::kNone;
      changed_.notify_all();
    } else {
      host_.advance_to(host_.now() + kLookCost);
      if (is_main) let_blocked_look(lock);
    }
    return host_.now().value / 1000 + kEpochMicros;
  }

  Sockets& sockets() { return sockets_; }
  bool is_blocking(int fd) {
    std::unique_lock lock(mutex_);
    return sockets_.has(fd) && !sockets_.is_nonblocking(fd);
  }
  std::map<int, Epoll> epolls;

 private:
  static constexpr long long kEpochMicros = 1'600'000'000'000'000;

  static constexpr Nanos kLookCost = nanos(10);

  enum class Blocked : uint8_t { kNone, kWaiting, kLooking, kReturning };

  void wait_for_change(std::unique_lock<std::mutex>& lock, Nanos until) {
    if (std::this_thread::get_id() == main_thread_) {
      // The script does not continue before the call returns: only timers can end the wait.
      const Nanos next = earlier(host_.next_deadline(), until);
      if (next == kNever) give_up("a call blocks for ever");
      host_.advance_to(next);
      return;
    }
    blocked_until_ = until;
    blocked_ = Blocked::kWaiting;
    changed_.notify_all();
    changed_.wait(lock, [&] { return blocked_ == Blocked::kLooking; });
  }

  void let_blocked_look(std::unique_lock<std::mutex>& lock) {
    using namespace std::chrono_literals;
    if (blocked_ == Blocked::kWaiting) {
      blocked_ = Blocked::kLooking;
      changed_.notify_all();
    }
    // The other thread waits again, or returns and reads the clock; neither needs a lock that
    // packetdrill's main thread holds. The timeout only keeps a defect here from hanging the run.
    changed_.wait_for(lock, 5s,
                      [&] { return blocked_ == Blocked::kNone || blocked_ == Blocked::kWaiting; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Host host_;
  Sockets sockets_;
  std::thread::id main_thread_;
  Blocked blocked_ = Blocked::kNone;
  Nanos blocked_until_ = kNever;
};

Adapter& at(void* context) { return *static_cast<Adapter*>(context); }

int new_descriptor() { return eventfd(0, EFD_CLOEXEC); }

int do_socket(void* context, int domain, int type, int) {
  const int fd = new_descriptor();
  if (fd < 0) return -1;
  const auto result =
      at(context).call([&] { return at(context).sockets().open(fd, domain, type); }, false);
  if (result < 0) ::close(fd);
  return static_cast<int>(result);
}

/// A call on a socket that cannot block. EBADF for an invalid descriptor.
int plain(void* context, int fd, const Adapter::Try& attempt) {
  return static_cast<int>(at(context).call(
      [&]() -> ssize_t { return at(context).sockets().has(fd) ? attempt() : -EBADF; }, false));
}

ssize_t blocking(void* context, int fd, bool may_block, const Adapter::Try& attempt) {
  const bool waits = may_block && at(context).is_blocking(fd);
  return at(context).call(
      [&]() -> ssize_t { return at(context).sockets().has(fd) ? attempt() : -EBADF; }, waits);
}

int do_bind(void* context, int fd, const sockaddr* address, socklen_t length) {
  return plain(context, fd, [&] { return at(context).sockets().bind(fd, address, length); });
}

int do_listen(void* context, int fd, int backlog) {
  return plain(context, fd, [&] { return at(context).sockets().listen(fd, backlog); });
}

int do_accept(void* context, int fd, sockaddr* address, socklen_t* length) {
  const int opened = new_descriptor();
  const ssize_t result = blocking(
      context, fd, true, [&] { return at(context).sockets().accept(fd, opened, address, length); });
  const int error = errno;
  if (result < 0) ::close(opened);
  errno = error;
  return static_cast<int>(result);
}

int do_connect(void* context, int fd, const sockaddr* address, socklen_t length) {
  const int started =
      plain(context, fd, [&] { return at(context).sockets().start_connect(fd, address, length); });
  if (started == 0 || errno != EINPROGRESS || !at(context).is_blocking(fd)) return started;
  return static_cast<int>(
      blocking(context, fd, true, [&] { return at(context).sockets().finish_connect(fd); }));
}

/// A kernel answers an invalid pointer with EFAULT; here it would crash packetdrill.
bool can_reach(const void* bytes, size_t count, bool is_write) {
  if (count == 0) return true;
  auto* first = static_cast<uint8_t*>(const_cast<void*>(bytes));
  for (uint8_t* at : {first, first + count - 1}) {
    uint8_t byte = 0;
    const iovec mine{.iov_base = &byte, .iov_len = 1};
    const iovec theirs{.iov_base = at, .iov_len = 1};
    if (process_vm_readv(getpid(), &mine, 1, &theirs, 1, 0) != 1) return false;
    if (is_write && process_vm_writev(getpid(), &mine, 1, &theirs, 1, 0) != 1) return false;
  }
  return true;
}

bool can_reach(const iovec* pieces, size_t count, bool is_write) {
  if (!can_reach(static_cast<const void*>(pieces), count * sizeof(iovec), false)) return false;
  for (size_t i = 0; i < count; ++i) {
    if (!can_reach(pieces[i].iov_base, pieces[i].iov_len, is_write)) return false;
  }
  return true;
}

ssize_t receive(void* context, int fd, void* out, size_t count, int flags) {
  if (!can_reach(out, count, true)) return errno = EFAULT, -1;
  const std::span<uint8_t> room(static_cast<uint8_t*>(out), count);
  size_t filled = 0;
  return blocking(context, fd, (flags & MSG_DONTWAIT) == 0, [&]() -> ssize_t {
    const ssize_t got = at(context).sockets().receive(fd, room.subspan(filled), flags);
    if ((flags & MSG_WAITALL) == 0 || got <= 0) {
      return filled > 0 && got != -EAGAIN ? static_cast<ssize_t>(filled) : got;
    }
    filled += static_cast<size_t>(got);
    return filled == count ? static_cast<ssize_t>(filled) : -EAGAIN;
  });
}

/// A blocking socket takes everything; as on Linux, it sleeps until a third of its buffer is free.
ssize_t send(void* context, int fd, const void* bytes, size_t count, int flags) {
  if (!can_reach(bytes, count, false)) return errno = EFAULT, -1;
  const std::span<const uint8_t> all(static_cast<const uint8_t*>(bytes), count);
  const bool waits = (flags & MSG_DONTWAIT) == 0 && at(context).is_blocking(fd);
  size_t taken = 0;
  bool sleeps = false;
  return blocking(context, fd, waits, [&]() -> ssize_t {
    Sockets& sockets = at(context).sockets();
    if (sleeps && (sockets.readiness(fd).events & EPOLLOUT) == 0) return -EAGAIN;
    const ssize_t got = sockets.send(fd, all.subspan(taken), flags);
    if (got < 0) {
      sleeps = true;
      return taken > 0 && got != -EAGAIN ? static_cast<ssize_t>(taken) : got;
    }
    taken += static_cast<size_t>(got);
    sleeps = taken < count;
    return taken == count || !waits ? static_cast<ssize_t>(taken) : -EAGAIN;
  });
}

ssize_t do_read(void* context, int fd, void* out, size_t count) {
  return receive(context, fd, out, count, 0);
}

ssize_t do_recv(void* context, int fd, void* out, size_t count, int flags) {
  return receive(context, fd, out, count, flags);
}

ssize_t do_recvfrom(void* context, int fd, void* out, size_t count, int flags, sockaddr* address,
                    socklen_t* length) {
  const ssize_t got = receive(context, fd, out, count, flags);
  if (got >= 0 && address != nullptr && length != nullptr) *length = 0;
  return got;
}

size_t total_bytes(const iovec* pieces, size_t count) {
  size_t bytes = 0;
  for (size_t i = 0; i < count; ++i) bytes += pieces[i].iov_len;
  return bytes;
}

ssize_t receive_pieces(void* context, int fd, const iovec* pieces, size_t count, int flags) {
  if (!can_reach(pieces, count, true)) return errno = EFAULT, -1;
  std::vector<uint8_t> all(total_bytes(pieces, count));
  const ssize_t got = receive(context, fd, all.data(), all.size(), flags);
  size_t from = 0;
  for (size_t i = 0; i < count && got > 0 && from < static_cast<size_t>(got); ++i) {
    const size_t bytes = std::min(pieces[i].iov_len, static_cast<size_t>(got) - from);
    std::memcpy(pieces[i].iov_base, all.data() + from, bytes);
    from += bytes;
  }
  return got;
}

ssize_t send_pieces(void* context, int fd, const iovec* pieces, size_t count, int flags) {
  if (!can_reach(pieces, count, false)) return errno = EFAULT, -1;
  std::vector<uint8_t> all;
  all.reserve(total_bytes(pieces, count));
  for (size_t i = 0; i < count; ++i) {
    const auto* begin = static_cast<const uint8_t*>(pieces[i].iov_base);
    all.insert(all.end(), begin, begin + pieces[i].iov_len);
  }
  return send(context, fd, all.data(), all.size(), flags);
}

ssize_t do_readv(void* context, int fd, const iovec* pieces, int count) {
  return receive_pieces(context, fd, pieces, static_cast<size_t>(std::max(count, 0)), 0);
}

/// TCP_CM_INQ: the number of bytes left to read, beside the data.
void write_control(void* context, int fd, msghdr* message) {
  constexpr int kTcpInq = 36;
  const auto left = at(context).sockets().inq(fd);
  if (!left || message->msg_control == nullptr ||
      message->msg_controllen < CMSG_SPACE(sizeof(int))) {
    message->msg_controllen = 0;
    return;
  }
  cmsghdr* header = CMSG_FIRSTHDR(message);
  header->cmsg_level = IPPROTO_TCP;
  header->cmsg_type = kTcpInq;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &*left, sizeof(int));
  message->msg_controllen = CMSG_SPACE(sizeof(int));
}

ssize_t do_recvmsg(void* context, int fd, msghdr* message, int flags) {
  if (!can_reach(static_cast<const void*>(message), sizeof *message, true))
    return errno = EFAULT, -1;
  const ssize_t got = receive_pieces(context, fd, message->msg_iov, message->msg_iovlen, flags);
  if (got < 0) return got;
  message->msg_flags = 0;
  message->msg_namelen = 0;
  write_control(context, fd, message);
  return got;
}

ssize_t do_write(void* context, int fd, const void* bytes, size_t count) {
  return send(context, fd, bytes, count, 0);
}

ssize_t do_writev(void* context, int fd, const iovec* pieces, int count) {
  return send_pieces(context, fd, pieces, static_cast<size_t>(std::max(count, 0)), 0);
}

ssize_t do_send(void* context, int fd, const void* bytes, size_t count, int flags) {
  return send(context, fd, bytes, count, flags);
}

ssize_t do_sendto(void* context, int fd, const void* bytes, size_t count, int flags,
                  const sockaddr*, socklen_t) {
  return send(context, fd, bytes, count, flags);
}

ssize_t do_sendmsg(void* context, int fd, const msghdr* message, int flags) {
  if (!can_reach(static_cast<const void*>(message), sizeof *message, false))
    return errno = EFAULT, -1;
  return send_pieces(context, fd, message->msg_iov, message->msg_iovlen, flags);
}

int do_fcntl(void* context, int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  const long argument = va_arg(arguments, long);
  va_end(arguments);
  return plain(context, fd, [&] { return at(context).sockets().fcntl(fd, command, argument); });
}

int do_ioctl(void* context, int fd, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  int* out = va_arg(arguments, int*);
  va_end(arguments);
  return plain(context, fd, [&] { return at(context).sockets().ioctl(fd, request, out); });
}

int do_close(void* context, int fd) {
  at(context).epolls.erase(fd);
  for (auto& [epoll, state] : at(context).epolls) state.watches.erase(fd);
  plain(context, fd, [&] { return at(context).sockets().close(fd); });
  return ::close(fd);
}

int do_shutdown(void* context, int fd, int how) {
  return plain(context, fd, [&] { return at(context).sockets().shutdown(fd, how); });
}

int do_getsockopt(void* context, int fd, int level, int name, void* value, socklen_t* length) {
  return plain(context, fd,
               [&] { return at(context).sockets().get_option(fd, level, name, value, length); });
}

int do_setsockopt(void* context, int fd, int level, int name, const void* value, socklen_t length) {
  return plain(context, fd,
               [&] { return at(context).sockets().set_option(fd, level, name, value, length); });
}

Nanos patience_of(int timeout_ms) { return timeout_ms < 0 ? kNever : millis(timeout_ms); }

/// When their timeout expires, poll() and epoll_wait() return 0, not an error.
int wait_for_events(void* context, int timeout_ms, const Adapter::Try& attempt) {
  const ssize_t result = at(context).call(attempt, timeout_ms != 0, patience_of(timeout_ms));
  return result < 0 && errno == EAGAIN ? 0 : static_cast<int>(result);
}

int do_poll(void* context, pollfd* watched, nfds_t count, int timeout_ms) {
  return wait_for_events(context, timeout_ms, [&]() -> ssize_t {
    ssize_t ready = 0;
    for (nfds_t i = 0; i < count; ++i) {
      const Sockets& sockets = at(context).sockets();
      const uint32_t always = POLLERR | POLLHUP | POLLNVAL;
      const uint32_t events =
          sockets.has(watched[i].fd) ? sockets.readiness(watched[i].fd).events : uint32_t{POLLNVAL};
      watched[i].revents =
          static_cast<short>(events & (static_cast<uint16_t>(watched[i].events) | always));
      if (watched[i].revents != 0) ++ready;
    }
    return ready > 0 ? ready : -EAGAIN;
  });
}

int do_epoll_create(void* context, int) {
  const int fd = new_descriptor();
  if (fd >= 0) at(context).epolls[fd];
  return fd;
}

int do_epoll_ctl(void* context, int epoll, int operation, int fd, epoll_event* event) {
  const auto found = at(context).epolls.find(epoll);
  if (found == at(context).epolls.end()) return errno = EBADF, -1;
  auto& watches = found->second.watches;
  const bool is_known = watches.contains(fd);
  if (operation == EPOLL_CTL_ADD && is_known) return errno = EEXIST, -1;
  if (operation != EPOLL_CTL_ADD && !is_known) return errno = ENOENT, -1;
  if (operation == EPOLL_CTL_DEL) {
    watches.erase(fd);
  } else {
    watches[fd] = {.asked = *event};
  }
  return 0;
}

/// The events of one watch that are due.
uint32_t due_events(Epoll::Watch& watch, const Readiness& now) {
  if (watch.is_disarmed) return 0;
  const uint32_t events = now.events & (watch.asked.events | EPOLLERR | EPOLLHUP);
  const bool is_edge = (watch.asked.events & EPOLLET) != 0;
  const bool is_news = watch.seen_news != now.news || (events & ~watch.seen_events) != 0;
  if (is_edge && !is_news) return 0;
  watch.seen_news = now.news;
  watch.seen_events = events;
  if (events != 0 && (watch.asked.events & EPOLLONESHOT) != 0) watch.is_disarmed = true;
  return events;
}

int do_epoll_wait(void* context, int epoll, epoll_event* out, int count, int timeout_ms) {
  const auto found = at(context).epolls.find(epoll);
  if (found == at(context).epolls.end()) return errno = EBADF, -1;
  return wait_for_events(context, timeout_ms, [&]() -> ssize_t {
    int ready = 0;
    for (auto& [fd, watch] : found->second.watches) {
      if (ready == count || !at(context).sockets().has(fd)) continue;
      const uint32_t events = due_events(watch, at(context).sockets().readiness(fd));
      if (events == 0) continue;
      out[ready].events = events;
      out[ready++].data = watch.asked.data;
    }
    return ready > 0 ? ready : -EAGAIN;
  });
}

int do_packet_in(void* context, const void* bytes, size_t count) {
  return at(context).packet_in(bytes, count);
}

int do_packet_out(void* context, void* bytes, size_t* count, long long* micros_out) {
  return at(context).packet_out(bytes, count, micros_out);
}

int do_usleep(void* context, useconds_t span) {
  at(context).sleep(micros(span));
  return 0;
}

int do_gettimeofday(void* context, timeval* out, struct timezone*) {
  const long long now = at(context).clock_micros();
  out->tv_sec = static_cast<time_t>(now / 1'000'000);
  out->tv_usec = static_cast<suseconds_t>(now % 1'000'000);
  return 0;
}

int do_pipe(void*, int ends[2]) { return ::pipe(ends); }

/// Copies through memory: what a socket cannot take stays in the pipe for another call.
ssize_t do_splice(void* context, int from, loff_t*, int to, loff_t*, size_t count, unsigned) {
  std::vector<uint8_t> bytes(std::min<size_t>(count, 65536));
  const bool reads_socket = at(context).sockets().has(from);
  const ssize_t got = reads_socket ? receive(context, from, bytes.data(), bytes.size(), 0)
                                   : ::read(from, bytes.data(), bytes.size());
  if (got <= 0) return got;
  const auto held = static_cast<size_t>(got);
  return reads_socket ? ::write(to, bytes.data(), held) : send(context, to, bytes.data(), held, 0);
}

void do_free(void* context) { delete static_cast<Adapter*>(context); }

}  // namespace

}  // namespace lyre::conformance

void packetdrill_interface_init(const char* flags, lyre::conformance::PacketdrillTable* table) {
  using namespace lyre::conformance;
  *table = PacketdrillTable{
      .context = new Adapter(options_from(flags)),
      .free = do_free,
      .socket = do_socket,
      .bind = do_bind,
      .listen = do_listen,
      .accept = do_accept,
      .connect = do_connect,
      .read = do_read,
      .readv = do_readv,
      .recv = do_recv,
      .recvfrom = do_recvfrom,
      .recvmsg = do_recvmsg,
      .write = do_write,
      .writev = do_writev,
      .send = do_send,
      .sendto = do_sendto,
      .sendmsg = do_sendmsg,
      .fcntl = do_fcntl,
      .ioctl = do_ioctl,
      .close = do_close,
      .shutdown = do_shutdown,
      .getsockopt = do_getsockopt,
      .setsockopt = do_setsockopt,
      .poll = do_poll,
      .netdev_send = do_packet_in,
      .netdev_receive = do_packet_out,
      .usleep = do_usleep,
      .gettimeofday = do_gettimeofday,
      .epoll_create = do_epoll_create,
      .epoll_ctl = do_epoll_ctl,
      .epoll_wait = do_epoll_wait,
      .pipe = do_pipe,
      .splice = do_splice,
  };
}
