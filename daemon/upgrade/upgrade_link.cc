#include "daemon/upgrade/upgrade_link.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "daemon/base/errno_error.h"

namespace lyre {
namespace {

/// What SCM_RIGHTS carries at most.
constexpr size_t kDescriptorsPerMessage = 253;
constexpr size_t kPayloadBytesMax = 64 << 10;
constexpr int kSendTimeoutMs = 5000;

Error gone() { return {EPIPE, "the other process is gone"}; }

Status wait_for(int socket, short events, Nanos timeout) {
  pollfd entry{.fd = socket, .events = events, .revents = 0};
  const auto limit_ms = static_cast<int>(timeout.value / 1'000'000);
  int count;
  do {
    count = ::poll(&entry, 1, limit_ms);
  } while (count < 0 && errno == EINTR);
  if (count < 0) return errno_error("poll");
  if (count == 0) return Error{ETIMEDOUT, "the other process does not go on"};
  return Ok{};
}

void collect(msghdr& message, std::vector<OwnedFd>& out) {
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

/// Of kState.
struct StateFacts {
  uint64_t bytes = 0;
  uint64_t descriptors = 0;
};

Error other_protocol() {
  return {EPROTO, "the other process speaks another version of the upgrade's protocol"};
}

}  // namespace

Status UpgradeLink::send(UpgradeStep step, std::span<const uint8_t> payload,
                         std::span<const int> descriptors) const {
  const auto number = static_cast<uint32_t>(step);
  iovec parts[] = {{const_cast<uint32_t*>(&number), sizeof number},
                   {const_cast<uint8_t*>(payload.data()), payload.size()}};
  alignas(cmsghdr) char control[CMSG_SPACE(kDescriptorsPerMessage * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = std::size(parts);
  if (!descriptors.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
  }
  for (;;) {
    if (Status room = wait_for(fd(), POLLOUT, millis(kSendTimeoutMs)); !room.ok()) return room;
    if (::sendmsg(fd(), &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return Ok{};
    if (errno == EAGAIN || errno == EINTR) continue;
    if (errno == EPIPE || errno == ECONNRESET) return gone();
    return errno_error("cannot send to the other process");
  }
}

void UpgradeLink::send_failure(const std::string& reason) const {
  const auto* text = reinterpret_cast<const uint8_t*>(reason.data());
  // A process that is gone needs no reason.
  static_cast<void>(
      send(UpgradeStep::kFailed, {text, std::min(reason.size(), kPayloadBytesMax / 2)}));
}

Result<UpgradeMessage> UpgradeLink::receive(Nanos timeout) const {
  if (Status there = wait_for(fd(), POLLIN, timeout); !there.ok()) return there.error();
  UpgradeMessage out;
  uint32_t number = 0;
  out.payload.resize(kPayloadBytesMax);
  iovec parts[] = {{&number, sizeof number}, {out.payload.data(), out.payload.size()}};
  alignas(cmsghdr) char control[CMSG_SPACE(kDescriptorsPerMessage * sizeof(int))];
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = std::size(parts);
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t count = ::recvmsg(fd(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  // A process that ended without reading all: the error comes before what it sent, such as why.
  if (count < 0 && errno == ECONNRESET) {
    count = ::recvmsg(fd(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  }
  if (count == 0 || (count < 0 && errno == ECONNRESET)) return gone();
  if (count < 0) return errno_error("cannot receive from the other process");
  collect(message, out.descriptors);
  const bool is_cut = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
  if (is_cut || static_cast<size_t>(count) < sizeof number) {
    return Error{EPROTO, "a message of the other process was cut (see `ulimit -n`)"};
  }
  out.step = static_cast<UpgradeStep>(number);
  out.payload.resize(static_cast<size_t>(count) - sizeof number);
  return out;
}

Result<UpgradeMessage> UpgradeLink::expect(UpgradeStep step, Nanos timeout) const {
  auto message = receive(timeout);
  if (!message.ok() || message->step == step) return message;
  if (message->step == UpgradeStep::kFailed) {
    return Error{EIO, std::string(message->payload.begin(), message->payload.end())};
  }
  return other_protocol();
}

Status UpgradeLink::send_state(const record::Writer& records,
                               std::span<const int> descriptors) const {
  const std::vector<uint8_t>& bytes = records.bytes();
  const StateFacts facts{.bytes = bytes.size(), .descriptors = descriptors.size()};
  while (!descriptors.empty()) {
    const size_t count = std::min(descriptors.size(), kDescriptorsPerMessage);
    Status sent = send(UpgradeStep::kDescriptors, {}, descriptors.first(count));
    if (!sent.ok()) return sent;
    descriptors = descriptors.subspan(count);
  }
  const auto memory = SharedMemory::create("lyre-upgrade", bytes.size(), SharedWith::kWriters);
  if (!memory.ok()) return memory.error();
  // A page that the system refuses when it is touched first is SIGBUS.
  if (Status pages = memory.value().allocate(0, bytes.size()); !pages.ok()) return pages;
  std::copy(bytes.begin(), bytes.end(), memory.value().data());
  const int fd = memory.value().fd();
  return send(UpgradeStep::kState, {reinterpret_cast<const uint8_t*>(&facts), sizeof facts},
              {&fd, 1});
}

Result<UpgradeState> UpgradeLink::receive_state(Nanos timeout) const {
  UpgradeState state;
  uint64_t received = 0;
  auto message = receive(timeout);
  for (; message.ok() && message->step == UpgradeStep::kDescriptors; message = receive(timeout)) {
    received += message->descriptors.size();
    for (OwnedFd& descriptor : message->descriptors) state.descriptors.add(std::move(descriptor));
  }
  if (!message.ok()) return message.error();
  StateFacts facts;
  if (message->step != UpgradeStep::kState || message->descriptors.size() != 1 ||
      message->payload.size() != sizeof facts) {
    return other_protocol();
  }
  std::memcpy(&facts, message->payload.data(), sizeof facts);
  if (facts.descriptors != received) {
    return Error{EPROTO, "descriptors are missing (see `ulimit -n`)"};
  }
  auto memory = SharedMemory::adopt(std::move(message->descriptors[0]), facts.bytes);
  if (!memory.ok()) return memory.error();
  state.memory = std::move(*memory);
  return state;
}

}  // namespace lyre
