#include "libclient/attach.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "libclient/clock.h"
#include "libclient/errors.h"
#include "libclient/include/lyre/lyre.h"
#include "libclient/silent_daemons.h"
#include "stack/channel/abi.h"

namespace lyre::client {
namespace {

constexpr int kAnswerTimeoutMs = 2000;
/// The daemon gives a new process a minute to start.
constexpr int kUpgradeTimeoutMs = 180'000;
/// At least what an attach carries: 3 + 2 for each of 64 workers.
constexpr size_t kDescriptorsMax = 253;
/// Between two attempts to be heard: a daemon that hangs up each time may log each one.
constexpr int kAskAgainMs = 100;

/// How long the daemon may take, from now on.
class Patience {
 public:
  explicit Patience(int limit_ms)
      : ms_(limit_ms), end_ns_(now_ns() + int64_t{limit_ms} * 1'000'000) {}

  int ms() const { return ms_; }
  /// Rounded up: 0 when it is over.
  int left_ms() const {
    return static_cast<int>((std::max(end_ns_ - now_ns(), int64_t{0}) + 999'999) / 1'000'000);
  }

 private:
  int ms_;
  int64_t end_ns_;
};

int code_of_errno(int number) {
  switch (number) {
    case EACCES:
    case EPERM:
      return LYRE_E_PERMISSION;
    case ENOMEM:
    case ENOSPC:
    case EMFILE:
    case ENFILE:
    case EAGAIN:
    case EUSERS:
    case EBUSY:
    case EDQUOT:
      return LYRE_E_NORESOURCES;
    case EPROTO:
    case EPROTONOSUPPORT:
    case EPROTOTYPE:
      return LYRE_E_VERSION;
    case EINVAL:
      return LYRE_E_INVALID;
    default:
      return LYRE_E_DAEMON;
  }
}

/// After EACCES. Nobody is to become a member of root's group, which the socket of a daemon that
/// starts may have for a moment.
int fail_closed(const char* path) {
  struct statx file {};  // glibc before 2.33 has no stat() that the plugin could link
  const bool is_known = ::statx(AT_FDCWD, path, 0, STATX_MODE | STATX_GID, &file) == 0;
  if (!is_known || (file.stx_mode & S_IWGRP) == 0 || file.stx_gid == 0) {
    return fail(LYRE_E_PERMISSION, "%s: Permission denied (see `lyre doctor`)", path);
  }
  return fail(LYRE_E_PERMISSION,
              "%s: Permission denied (for members of group %u: as root `usermod -aG %u USER`, "
              "effective at the next login; see `lyre doctor`)",
              path, file.stx_gid, file.stx_gid);
}

/// Connects `fd`. A signal interrupts the call, and does not make it longer.
int connect_within(int fd, const sockaddr_un& address, const Patience& patience) {
  for (;;) {
    const int left_ms = patience.left_ms();
    if (left_ms == 0) return fail_unanswered(patience.ms());
    // It bounds the connect too, when the daemon's backlog is full.
    const timeval limit{left_ms / 1000, suseconds_t{left_ms % 1000} * 1000};
    ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return 0;
    if (errno == EAGAIN) return fail_unanswered(patience.ms());
    if (errno == EINTR) continue;
    if (errno == EACCES) return fail_closed(address.sun_path);
    const int code = errno == EPERM ? LYRE_E_PERMISSION : LYRE_E_DAEMON;
    const bool is_absent = errno == ENOENT || errno == ECONNREFUSED;
    if (!is_absent) return fail_errno(code, address.sun_path);
    return fail(code, "%s: no daemon listens there (is lyred running?)", address.sun_path);
  }
}

int connect_control(const char* path, UnforkedFd& out, const Patience& patience) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (std::strlen(path) >= sizeof address.sun_path) {
    return fail(LYRE_E_INVALID, "%s: a socket's path has at most %zu bytes", path,
                sizeof address.sun_path - 1);
  }
  std::strcpy(address.sun_path, path);
  UnforkedFd fd =
      UnforkedFd::of([] { return ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0); });
  if (!fd.is_open()) return fail_for_descriptor("cannot make a socket");
  if (const int code = connect_within(fd.get(), address, patience); code != 0) return code;
  out = std::move(fd);
  return 0;
}

/// Moves the descriptors of a message to `out`, which closes them.
void collect_descriptors(msghdr& message, std::vector<UniqueFd>& out) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
      out.emplace_back(fd);
    }
  }
}

int fail_hung_up() {
  return fail(LYRE_E_DAEMON, "no daemon answers there: it hung up (does lyred still run?)");
}

/// A daemon that ends, or refuses a client, closes the socket, perhaps before it reads the request.
bool has_hung_up() { return errno == EPIPE || errno == ECONNRESET; }

/// After a system call on the control socket failed.
int fail_speaking(const char* what) {
  return has_hung_up() ? fail_hung_up() : fail_errno(LYRE_E_DAEMON, what);
}

/// What came of a request.
struct Heard {
  size_t bytes = 0;        ///< of the answer; 0: the daemon has hung up
  bool is_unread = false;  ///< it closed its socket before it had read all that was sent
  bool is_silent = false;  ///< nothing came in time
};

/// Waits for one message.
int receive(int socket, void* reply, size_t reply_bytes, Heard& heard,
            std::vector<UniqueFd>& descriptors, const Patience& patience) {
  for (;;) {
    const int left_ms = patience.left_ms();
    pollfd entry{socket, POLLIN, 0};
    // Also when the time is over: the answer may have come while this process was stopped.
    if (::poll(&entry, 1, left_ms) > 0) break;
    heard.is_silent = left_ms == 0;
    if (heard.is_silent) return fail_unanswered(patience.ms());
  }
  alignas(cmsghdr) char control[CMSG_SPACE(kDescriptorsMax * sizeof(int))];
  iovec vector{reply, reply_bytes};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t count = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  // Reported once, before what the daemon said.
  heard.is_unread = count < 0 && errno == ECONNRESET;
  if (heard.is_unread) count = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (count < 0) return fail_speaking("cannot receive from the daemon");
  collect_descriptors(message, descriptors);
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    // There are 3 + 2 for each worker, at most: the kernel left some out. What came is held still.
    const UniqueFd one_more(::fcntl(socket, F_DUPFD_CLOEXEC, 0));
    if (!one_more.is_open()) return fail_for_descriptor("no room for the daemon's descriptors");
    return fail(LYRE_E_PERMISSION, "the kernel withholds the daemon's descriptors (SELinux?)");
  }
  heard.bytes = static_cast<size_t>(count);
  return 0;
}

constexpr const char* kThisLibrary = "this program's Lyre";

/// Sends `request` and waits for what the daemon says.
template <typename Request, typename Reply>
int send_and_receive(int socket, const Request& request, Reply& reply, Heard& heard,
                     std::vector<UniqueFd>& descriptors, const Patience& patience) {
  // A daemon that has hung up may have said why.
  const bool is_sent = ::send(socket, &request, sizeof request, MSG_NOSIGNAL) >= 0;
  if (!is_sent && !has_hung_up()) return fail_errno(LYRE_E_DAEMON, "cannot speak to the daemon");
  const int code = receive(socket, &reply, sizeof reply, heard, descriptors, patience);
  heard.is_unread |= !is_sent;
  return code;
}

/// `text` is that of a Goodbye before the attach.
int fail_refused(const char* text) {
  const bool is_stranger = std::string_view(text).starts_with(channel::kNoMember);
  return fail(is_stranger ? LYRE_E_PERMISSION : LYRE_E_DAEMON, "the daemon refused: %s", text);
}

/// Checks that `reply`, of which so many bytes came, is of `type` and whole. A goodbye is an answer
/// too.
template <typename Reply>
int check_answer(Reply& reply, size_t received, channel::Control type) {
  static_assert(sizeof(Reply) >= sizeof(channel::Goodbye));
  if (received < sizeof reply.header || reply.header.magic != channel::kControlMagic) {
    return fail(LYRE_E_VERSION, "what listens there is not a Lyre daemon");
  }
  if (!channel::common_version(channel::kControlVersions, reply.header.versions)) {
    return fail(LYRE_E_VERSION, "%s",
                channel::no_common_version("control", kThisLibrary, channel::kControlVersions,
                                           "the daemon", reply.header.versions)
                    .text);
  }
  if (reply.header.type == channel::Control::kGoodbye && received == sizeof(channel::Goodbye)) {
    channel::Goodbye goodbye;
    std::memcpy(static_cast<void*>(&goodbye), &reply, sizeof goodbye);
    goodbye.text[sizeof goodbye.text - 1] = '\0';
    return fail_refused(goodbye.text);
  }
  if (reply.header.type != type || received != sizeof reply) {
    return fail(LYRE_E_VERSION, "the daemon's answer has %zu bytes of type %u", received,
                static_cast<unsigned>(reply.header.type));
  }
  reply.text[sizeof reply.text - 1] = '\0';
  if (reply.error == 0) return 0;
  return fail(code_of_errno(reply.error), "the daemon refused: %s", reply.text);
}

/// To whom a request goes, and for how long.
struct Question {
  const char* path;  ///< borrowed
  int patience_ms = kAnswerTimeoutMs;
  /// Not asked again once a daemon may have begun what it was asked for.
  bool is_for_once = false;
};

/// Connects `control`, sends `request` and checks that the answer is of `type`. A daemon that
/// leaves in an upgrade passes on no connection whose request it has not read: it hangs up, and the
/// new one, which listens at the same socket, is asked. Where no daemon is left nobody listens.
template <typename Request, typename Reply>
int ask(const Question& question, const Request& request, channel::Control type,
        UnforkedFd& control, Reply& reply, std::vector<UniqueFd>& descriptors) {
  const Patience patience(question.patience_ms);
  for (;;) {
    int code = connect_control(question.path, control, patience);
    if (code != 0) return code;
    Heard heard;
    code = send_and_receive(control.get(), request, reply, heard, descriptors, patience);
    if (code != 0) return code;
    silent_daemons().on_answer(question.path, now_ns());
    if (heard.bytes > 0) return check_answer(reply, heard.bytes, type);
    const bool may_be_done = question.is_for_once && !heard.is_unread;
    if (may_be_done || patience.left_ms() <= kAskAgainMs) return fail_hung_up();
    ::poll(nullptr, 0, kAskAgainMs);
  }
}

/// Sends one message, with a descriptor beside it unless it is -1. 0 also where the daemon has hung
/// up: what it said before can still be received.
int send_with_descriptor(int socket, std::span<const uint8_t> bytes, int descriptor) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  iovec vector{const_cast<uint8_t*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(part), &descriptor, sizeof descriptor);
  }
  if (::sendmsg(socket, &message, MSG_NOSIGNAL) >= 0 || has_hung_up()) return 0;
  return fail_errno(LYRE_E_DAEMON, "cannot speak to the daemon");
}

/// Waits for the next message about memory.
int await_region_reply(const ControlSocket& control, channel::RegionReply& reply, Heard& heard) {
  SilentDaemons& silent = silent_daemons();
  const int64_t asked_ns = now_ns();
  const Patience patience(silent.patience_ms(control.path, asked_ns));
  std::vector<UniqueFd> descriptors;
  const int code = receive(control.fd.get(), &reply, sizeof reply, heard, descriptors, patience);
  if (code == 0) silent.on_answer(control.path, now_ns());
  if (heard.is_silent) silent.on_silence(control.path, asked_ns, now_ns());
  return code;
}

template <typename Message>
void fill_header(Message& message, channel::Control type) {
  message.header = channel::ControlHeader{};
  message.header.type = type;
  message.header.bytes = sizeof message;
}

}  // namespace

const char* socket_path_or_default(const char* path) {
  if (path != nullptr) return path;
  const char* named = ::secure_getenv("LYRE_SOCKET");
  return named != nullptr && named[0] != '\0' ? named : "/run/lyre/lyred.sock";
}

int attach(const AttachOptions& options, Attachment& out) {
  channel::AttachRequest request{};
  fill_header(request, channel::Control::kAttach);
  request.abi_versions = channel::kAbiVersions;
  request.arena_bytes = options.arena_bytes;
  std::strncpy(request.label, options.label, sizeof request.label - 1);
  out.control.path = options.path;
  return ask({.path = options.path, .patience_ms = options.patience_ms}, request,
             channel::Control::kAttached, out.control.fd, out.reply, out.descriptors);
}

int ask_region(const ControlSocket& control, std::span<const uint8_t> request, int descriptor,
               channel::RegionReply& reply) {
  if (const int code = send_with_descriptor(control.fd.get(), request, descriptor); code != 0) {
    return code;
  }
  Heard heard;
  static_assert(sizeof reply >= sizeof(channel::Goodbye));
  do {
    if (const int code = await_region_reply(control, reply, heard); code != 0) return code;
    if (heard.bytes == 0) return fail_hung_up();
  } while (heard.bytes == sizeof reply && reply.header.type == channel::Control::kRegionPending);
  if (heard.bytes == sizeof(channel::Goodbye) && reply.header.type == channel::Control::kGoodbye) {
    channel::Goodbye goodbye;
    std::memcpy(static_cast<void*>(&goodbye), &reply, sizeof goodbye);
    goodbye.text[sizeof goodbye.text - 1] = '\0';
    return fail(LYRE_E_EXPELLED, "%s", goodbye.text);
  }
  const bool is_answer = reply.header.type == channel::Control::kRegistered ||
                         reply.header.type == channel::Control::kDeregistered;
  if (heard.bytes != sizeof reply || reply.header.magic != channel::kControlMagic || !is_answer) {
    return fail(LYRE_E_VERSION, "the daemon's reply to a memory request is invalid");
  }
  reply.text[sizeof reply.text - 1] = '\0';
  return 0;
}

int ask_capture(const char* path, const char* port, uint32_t snap_bytes, UnforkedFd& control,
                UniqueFd& descriptor, channel::CaptureReply& reply) {
  channel::CaptureRequest request{};
  if (std::strlen(port) >= sizeof request.port) {
    return fail(LYRE_E_INVALID, "a port's name has at most %zu bytes", sizeof request.port - 1);
  }
  fill_header(request, channel::Control::kCapture);
  request.version = channel::kCaptureVersion;
  request.snap_bytes = snap_bytes;
  std::strncpy(request.port, port, sizeof request.port - 1);
  std::vector<UniqueFd> descriptors;
  const int code =
      ask({.path = path}, request, channel::Control::kCaptured, control, reply, descriptors);
  if (code != 0) return code;
  if (descriptors.size() != 1) return fail(LYRE_E_VERSION, "the daemon sent no packets");
  descriptor = std::move(descriptors[0]);
  return 0;
}

int ask_info(const char* path, UniqueFd& descriptor, uint64_t& stats_bytes) {
  channel::InfoRequest request{};
  fill_header(request, channel::Control::kInfo);
  UnforkedFd control;
  channel::InfoReply reply;
  std::vector<UniqueFd> descriptors;
  const int code =
      ask({.path = path}, request, channel::Control::kInfoReply, control, reply, descriptors);
  if (code != 0) return code;
  if (descriptors.size() != 1) return fail(LYRE_E_VERSION, "the daemon sent no stats segment");
  descriptor = std::move(descriptors[0]);
  stats_bytes = reply.stats_bytes;
  return 0;
}

int ask_upgrade(const char* path, channel::UpgradeReply& reply) {
  channel::UpgradeRequest request{};
  fill_header(request, channel::Control::kUpgrade);
  UnforkedFd control;
  std::vector<UniqueFd> descriptors;
  const Question question{.path = path, .patience_ms = kUpgradeTimeoutMs, .is_for_once = true};
  const int code =
      ask(question, request, channel::Control::kUpgradeReply, control, reply, descriptors);
  reply.release[sizeof reply.release - 1] = '\0';
  return code;
}

}  // namespace lyre::client
