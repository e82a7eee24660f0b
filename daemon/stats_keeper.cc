#include "daemon/stats_keeper.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <span>

#include "daemon/base/errno_error.h"
#include "daemon/base/journal.h"
#include "daemon/host/capabilities.h"
#include "daemon/protocol/control_message.h"
#include "stack/base/page_size.h"
#include "stack/channel/stats.h"

namespace lyre {
namespace {

/// The only message, with the segment's descriptor.
struct KeepRequest {
  uint32_t mode;  ///< of the file
  uint32_t gid;
};

Status write_at(int file, std::span<const uint8_t> bytes, uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno_error("write");
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += static_cast<uint64_t>(written);
  }
  return Ok{};
}

/// Pages of zeros stay holes: most rows are never used.
Status write_pages(int file, std::span<const uint8_t> segment) {
  const size_t page_bytes = system_page_bytes();
  for (size_t at = 0; at < segment.size(); at += page_bytes) {
    const auto page = segment.subspan(at, std::min(page_bytes, segment.size() - at));
    if (std::ranges::all_of(page, [](uint8_t byte) { return byte == 0; })) continue;
    if (Status written = write_at(file, page, at); !written.ok()) return written;
  }
  return Ok{};
}

/// By the clock of the daemon, as all times of its segment.
Status write_end(int file, std::span<const uint8_t> segment) {
  int64_t unix_offset_ns = 0;
  constexpr size_t kAt = offsetof(channel::StatsHeader, unix_offset_ns);
  if (segment.size() < sizeof(channel::StatsHeader)) return Error{EINVAL, "no stats segment"};
  std::memcpy(&unix_offset_ns, segment.data() + kAt, sizeof unix_offset_ns);
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t unix_ns = int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec + unix_offset_ns;
  return write_at(file, bytes_of(unix_ns), offsetof(channel::StatsHeader, ended_unix_ns));
}

Status fill(int file, int segment, const KeepRequest& request) {
  struct stat found {};
  if (::fstat(segment, &found) != 0) return errno_error("fstat");
  const auto bytes = static_cast<size_t>(found.st_size);
  void* data = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, segment, 0);
  if (data == MAP_FAILED) return errno_error("mmap");
  if (::ftruncate(file, found.st_size) != 0) return errno_error("ftruncate");
  const std::span segment_bytes(static_cast<const uint8_t*>(data), bytes);
  Status written = write_pages(file, segment_bytes);
  if (written.ok()) written = write_end(file, segment_bytes);
  if (!written.ok()) return written;
  // The group first: a change of it may clear bits of the mode.
  if (::fchown(file, static_cast<uid_t>(-1), request.gid) != 0) return errno_error("fchown");
  return ::fchmod(file, request.mode) == 0 ? Status(Ok{}) : errno_error("fchmod");
}

/// A reader sees the file before, or the whole new one.
Status write_file(const std::string& path, int segment, const KeepRequest& request) {
  const std::string next = path + ".new";
  ::unlink(next.c_str());
  const OwnedFd file(::open(next.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.is_open()) return errno_error("open");
  if (Status filled = fill(file.get(), segment, request); !filled.ok()) {
    ::unlink(next.c_str());
    return filled;
  }
  return ::rename(next.c_str(), path.c_str()) == 0 ? Status(Ok{}) : errno_error("rename");
}

/// Waits for a packet. Empty: the daemon has ended, or what it says is not its words.
template <typename Message>
OwnedFd wait_for(int socket, Message& message) {
  pollfd entry{.fd = socket, .events = POLLIN, .revents = 0};
  while (::poll(&entry, 1, -1) < 0 && errno == EINTR) {
  }
  auto packet =
      receive_packet(socket, std::span(reinterpret_cast<uint8_t*>(&message), sizeof message));
  if (!packet.ok() || packet.value().bytes != sizeof message) return {};
  return std::move(packet.value().descriptor);
}

/// Signals for the daemon's group are the daemon's: this process ends after it. SIGABRT is what
/// systemd's watchdog sends.
[[noreturn]] void run(OwnedFd socket, const std::string& path) {
  ::prctl(PR_SET_NAME, "lyred-stats");
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGABRT, SIGPIPE}) ::signal(number, SIG_IGN);
  constexpr int kOurs = STDERR_FILENO + 1;
  if (socket.get() != kOurs) socket.reset(::dup3(socket.get(), kOurs, O_CLOEXEC));
  ::close_range(kOurs + 1, ~0U, 0);
  ::close(STDIN_FILENO);
  ::close(STDOUT_FILENO);
  // A daemon that was started by hand as root writes where group or folder are another user's.
  if (!drop_capabilities(capability(CAP_CHOWN) | capability(CAP_DAC_OVERRIDE)).ok()) ::_exit(1);
  KeepRequest request{};
  const OwnedFd segment = wait_for(socket.get(), request);
  if (!segment.is_open()) ::_exit(0);
  uint8_t none = 0;
  wait_for(socket.get(), none);
  const Status written = write_file(path, segment.get(), request);
  if (!written.ok()) {
    std::fprintf(stderr, "%slyred: %s cannot be written: %s\n", error_priority(), path.c_str(),
                 written.error().text.c_str());
  }
  ::_exit(written.ok() ? 0 : 1);
}

}  // namespace

Result<StatsKeeper> StatsKeeper::start(const std::string& path) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return errno_error("no socket for the keeper of the stats segment");
  }
  StatsKeeper keeper;
  keeper.socket_ = OwnedFd(ends[0]);
  OwnedFd others(ends[1]);
  keeper.pid_ = ::fork();
  if (keeper.pid_ < 0) return errno_error("no process to keep the stats segment");
  if (keeper.pid_ == 0) run(std::move(others), path);  // which closes the other end
  return keeper;
}

StatsKeeper& StatsKeeper::operator=(StatsKeeper&& other) noexcept {
  if (this == &other) return *this;
  end();
  socket_ = std::move(other.socket_);
  pid_ = std::exchange(other.pid_, -1);
  return *this;
}

void StatsKeeper::end() {
  socket_.reset();
  if (pid_ > 0) ::waitpid(std::exchange(pid_, -1), nullptr, 0);
}

Status StatsKeeper::keep(int segment, const std::string& socket_path) const {
  if (pid_ < 0) return Ok{};
  struct stat socket {};
  if (::stat(socket_path.c_str(), &socket) != 0) return errno_error(socket_path);
  const KeepRequest request{.mode = socket.st_mode & 0444, .gid = socket.st_gid};
  return send_packet(socket_.get(), bytes_of(request), std::span(&segment, 1));
}

}  // namespace lyre
