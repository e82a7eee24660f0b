#include "daemon/memory/mapping_helper.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/base/journal.h"
#include "daemon/host/capabilities.h"
#include "daemon/memory/client_mapping.h"
#include "daemon/memory/helper_program.h"
#include "daemon/memory/mapping_protocol.h"
#include "daemon/protocol/control_message.h"

namespace lyre {
namespace {

constexpr int kExitFailed = 1;
/// How long the helper waits for what it has begun before it is replaced. A request's process that
/// is not ended by then, because it closes what a client gave it, goes on under the new program:
/// only the daemon before asked for it, and nobody waits for its answer.
constexpr Nanos kReplacePatience = seconds(kMappingRequestSecondsMax + 2);

Status send_reply(int socket, uint64_t id, const Error& said, std::span<const int> file) {
  MappingReply reply{};
  reply.version = kMappingVersion;
  reply.bytes = sizeof reply;
  reply.error = said.code;
  reply.id = id;
  copy_text(reply.text, said.text);
  return send_packet(socket, bytes_of(reply), file);
}

Status send_failure(int socket, uint64_t id, Error error) {
  if (error.code == 0) error.code = EIO;
  return send_reply(socket, id, error, {});
}

Status send_opened(int socket, uint64_t id, const Result<OwnedFd>& opened) {
  if (!opened.ok()) return send_failure(socket, id, opened.error());
  const int file = opened.value().get();
  return send_reply(socket, id, {}, std::span(&file, 1));
}

bool is_replace_request(const MappingRequest& request, const Packet& packet) {
  return packet.bytes >= sizeof request.header && !packet.descriptor.is_open() &&
         request.header.action == MappingAction::kReplace;
}

bool is_open_request(const MappingRequest& request, const Packet& packet) {
  return !packet.is_too_long && packet.bytes == sizeof request && packet.descriptor.is_open() &&
         request.header.version == kMappingVersion && request.header.bytes == sizeof request &&
         request.header.action == MappingAction::kOpen;
}

/// Why the process of a request ended without an answer.
Error error_of(int wait_status) {
  if (WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGALRM) {
    return {ETIMEDOUT, "the client's mappings were locked for too long"};
  }
  return {EIO, "the memory helper could not pass the opened memory on"};
}

class MappingHelper {
 public:
  MappingHelper(OwnedFd socket, OwnedFd children, MappingOpen open, std::string program)
      : socket_(std::move(socket)),
        children_(std::move(children)),
        open_(open),
        program_(std::move(program)) {}

  /// Returns when the daemon is gone, or a request cannot be answered: none may wait for ever.
  void run() {
    if (!send_reply(socket_.get(), kMappingHelperId, {0, LYRE_VERSION}, {}).ok()) return;
    while (wait() && replace_if_due()) {
    }
  }

 private:
  bool wait() {
    // A negative descriptor is not looked at.
    const bool takes_requests = !replace_by_ && requests_.size() < kMappingRequestsMax;
    pollfd entries[] = {
        {.fd = children_.get(), .events = POLLIN, .revents = 0},
        {.fd = takes_requests ? socket_.get() : -1, .events = POLLIN, .revents = 0}};
    if (::poll(entries, 2, patience_ms()) < 0) return errno == EINTR;
    if (entries[0].revents != 0 && !reap()) return false;
    return entries[1].revents == 0 || take_request();
  }

  /// -1: for ever.
  int patience_ms() const {
    if (!replace_by_) return -1;
    const Nanos left = later(*replace_by_ - monotonic_now(), nanos(0));
    return static_cast<int>(left.value / 1'000'000 + 1);
  }

  /// What the daemon asks meanwhile stays in the socket, which the new program has as well.
  bool replace_if_due() {
    if (!replace_by_ || (!requests_.empty() && monotonic_now() < *replace_by_)) return true;
    replace_by_.reset();
    return send_failure(socket_.get(), kMappingHelperId, execute_mapping_helper(program_)).ok();
  }

  /// A request's process answers by itself if it can.
  bool reap() {
    signalfd_siginfo ignored;
    // A cast to void would not do: with _FORTIFY_SOURCE the result has to be used.
    [[maybe_unused]] const ssize_t taken = ::read(children_.get(), &ignored, sizeof ignored);
    int status = 0;
    for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      const auto request = requests_.extract(pid);
      if (request.empty() || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) continue;
      if (!send_failure(socket_.get(), request.mapped(), error_of(status)).ok()) return false;
    }
    return true;
  }

  bool take_request() {
    MappingRequest request{};
    auto packet = receive_packet(socket_.get(),
                                 std::span(reinterpret_cast<uint8_t*>(&request), sizeof request));
    if (!packet.ok()) return packet.error().code == EAGAIN || packet.error().code == EINTR;
    if (packet.value().bytes == 0) return false;
    // It stays in the socket, and no version has more than one: the helper ends.
    if (packet->has_too_many_descriptors || packet->is_out_of_descriptors) return false;
    if (is_open_request(request, *packet)) return begin(request, std::move(packet->descriptor));
    if (!is_replace_request(request, *packet))
      return refuse(request.header, std::move(packet->descriptor));
    replace_by_ = monotonic_now() + kReplacePatience;
    return true;
  }

  /// Closes `client` before the answer, as begin() does. A header that is not whole has zeros.
  bool refuse(const MappingHeader& header, OwnedFd client) {
    client.reset();
    const std::string version = std::to_string(header.version);
    return send_failure(socket_.get(), header.id,
                        {EPROTO, "the memory helper, release " LYRE_VERSION " with version " +
                                     std::to_string(kMappingVersion) +
                                     ", does not know this request of version " + version})
        .ok();
  }

  /// The request's process waits until this one has closed the client's connection: who closes it
  /// last closes what is in it, which the client can make last for ever. The daemon closes it only
  /// when it has the answer.
  bool begin(const MappingRequest& request, OwnedFd client) {
    int ends[2];
    const bool has_pipe = ::pipe2(ends, O_CLOEXEC) == 0;
    OwnedFd is_closed_here(has_pipe ? ends[0] : -1);
    OwnedFd until_closed(has_pipe ? ends[1] : -1);
    const pid_t pid = has_pipe ? ::fork() : -1;
    if (pid == 0) {
      until_closed.reset();
      carry_out(request, std::move(client), is_closed_here.get());
    }
    client.reset();
    if (pid < 0) {
      const Error error{EAGAIN, "no process to open the mapping with"};
      return send_failure(socket_.get(), request.header.id, error).ok();
    }
    requests_.emplace(pid, request.header.id);
    return true;
  }

  [[noreturn]] void carry_out(const MappingRequest& request, OwnedFd client, int may_begin) const {
    char nothing;
    while (::read(may_begin, &nothing, 1) < 0 && errno == EINTR) {
    }
    ::signal(SIGALRM, SIG_DFL);  // fatal, so it also ends a wait for a lock
    ::alarm(kMappingRequestSecondsMax);
    const Result<OwnedFd> opened = open_(client.get(), {request.begin, request.end});
    client.reset();  // before the answer: the daemon still has it
    const Status sent = send_opened(socket_.get(), request.header.id, opened);
    ::_exit(sent.ok() ? 0 : kExitFailed);
  }

  OwnedFd socket_;
  OwnedFd children_;  ///< readable when one has ended
  const MappingOpen open_;
  const std::string program_;
  std::optional<Nanos> replace_by_;     ///< it is to be replaced, then at the latest
  std::map<pid_t, uint64_t> requests_;  ///< process to the request's id
};

/// Keeps the socket and standard error.
OwnedFd close_others(OwnedFd socket) {
  constexpr int kOurs = kMappingHelperDescriptor;
  if (socket.get() != kOurs) socket.reset(::dup3(socket.get(), kOurs, O_CLOEXEC));
  ::close_range(kOurs + 1, ~0U, 0);
  ::close(STDIN_FILENO);
  ::close(STDOUT_FILENO);
  return socket;
}

/// Signals for the daemon's group are the daemon's: this process ends after it. SIGCHLD is read.
OwnedFd prepare_signals() {
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGPIPE}) ::signal(number, SIG_IGN);
  sigset_t ended;
  sigemptyset(&ended);
  sigaddset(&ended, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &ended, nullptr);
  return OwnedFd(::signalfd(-1, &ended, SFD_CLOEXEC | SFD_NONBLOCK));
}

}  // namespace

void run_mapping_helper(OwnedFd socket, MappingOpen open, const std::string& program) {
  ::prctl(PR_SET_NAME, "lyred-memory");
  // No process of the same user may read or trace it, including the daemon.
  ::prctl(PR_SET_DUMPABLE, 0);
  socket = close_others(std::move(socket));
  OwnedFd children = prepare_signals();
  const Status dropped = drop_capabilities(kMappingHelperCapabilities);
  if (!dropped.ok() || !children.is_open() || ::chdir("/") != 0) {
    std::fprintf(stderr, "%slyred: the memory helper cannot start: %s\n", error_priority(),
                 dropped.ok() ? std::strerror(errno) : dropped.error().text.c_str());
    ::_exit(kExitFailed);
  }
  try {
    MappingHelper(std::move(socket), std::move(children), open, program).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%slyred: the memory helper ended: %s\n", error_priority(), error.what());
    ::_exit(kExitFailed);
  }
  ::_exit(0);
}

}  // namespace lyre
