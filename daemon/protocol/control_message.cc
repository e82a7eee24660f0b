#include "daemon/protocol/control_message.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "daemon/base/errno_error.h"
#include "stack/channel/abi.h"

namespace lyre {
namespace {

/// What SCM_RIGHTS carries at most; an attach needs 3 and two for each of 64 workers.
constexpr size_t kDescriptorsMax = 253;
static_assert(3 + 2 * channel::kWorkersMax <= kDescriptorsMax);
static_assert(sizeof(channel::AttachRequest) < kRequestBytesMax);

Error malformed(const std::string& text) { return Error{EPROTO, text}; }

template <typename Message>
Result<Request> take_whole(std::span<const uint8_t> bytes) {
  if (bytes.size() != sizeof(Message)) {
    return malformed("a request of " + std::to_string(bytes.size()) + " bytes where " +
                     std::to_string(sizeof(Message)) + " are due");
  }
  Message message;
  std::memcpy(&message, bytes.data(), sizeof message);
  return Request{message};
}

/// A newer program's first request may be longer: what this daemon knows of it comes first.
template <typename Message>
std::span<const uint8_t> known_part(std::span<const uint8_t> bytes,
                                    const channel::ControlHeader& header) {
  const bool is_newer = header.versions.max > channel::kControlVersions.max;
  return is_newer && bytes.size() > sizeof(Message) ? bytes.first(sizeof(Message)) : bytes;
}

/// A client's text goes into logs and tables of other people.
void make_printable(std::span<char> text) {
  text.back() = '\0';
  for (char& c : text) {
    if (c == '\0') break;
    if (c < ' ' || c > '~') c = '?';
  }
}

Result<Request> check_attach(std::span<const uint8_t> bytes) {
  auto taken = take_whole<channel::AttachRequest>(bytes);
  if (!taken.ok()) return taken;
  auto& attach = std::get<channel::AttachRequest>(*taken);
  if (attach.reserved != 0) return malformed("a reserved field that is not zero");
  make_printable(attach.label);
  return taken;
}

Result<Request> check_register(std::span<const uint8_t> bytes) {
  auto taken = take_whole<channel::RegisterRequest>(bytes);
  if (!taken.ok()) return taken;
  const auto& request = std::get<channel::RegisterRequest>(*taken);
  if (request.reserved != 0) return malformed("a reserved field that is not zero");
  if (request.source != channel::RegionSource::kDescriptor &&
      request.source != channel::RegionSource::kSharedAnonymous) {
    return malformed("memory of an unknown source");
  }
  return taken;
}

Result<Request> check_deregister(std::span<const uint8_t> bytes) {
  auto taken = take_whole<channel::DeregisterRequest>(bytes);
  if (!taken.ok()) return taken;
  if (std::get<channel::DeregisterRequest>(*taken).reserved != 0) {
    return malformed("a reserved field that is not zero");
  }
  return taken;
}

/// Another version may have another length, too.
Status check_capture_version(std::span<const uint8_t> bytes) {
  constexpr size_t kAt = offsetof(channel::CaptureRequest, version);
  uint32_t version = channel::kCaptureVersion;
  if (bytes.size() >= kAt + sizeof version) {
    std::memcpy(&version, bytes.data() + kAt, sizeof version);
  }
  if (version == channel::kCaptureVersion) return Ok{};
  return Error{EPROTONOSUPPORT,
               "captures have version " + std::to_string(channel::kCaptureVersion) + " here, not " +
                   std::to_string(version) + ": use the `lyre` that was installed with the daemon"};
}

Result<Request> check_capture(std::span<const uint8_t> bytes) {
  if (Status same = check_capture_version(bytes); !same.ok()) return same.error();
  auto taken = take_whole<channel::CaptureRequest>(bytes);
  if (!taken.ok()) return taken;
  auto& request = std::get<channel::CaptureRequest>(*taken);
  if (request.snap_bytes == 0 || request.snap_bytes > channel::kSnapBytesMax) {
    return malformed("a capture of " + std::to_string(request.snap_bytes) +
                     " bytes of each packet, where 1 to " + std::to_string(channel::kSnapBytesMax) +
                     " are allowed");
  }
  make_printable(request.port);
  return taken;
}

/// The descriptor that came along, if any.
OwnedFd descriptor_of(msghdr& message) {
  const cmsghdr* part = CMSG_FIRSTHDR(&message);
  if (part == nullptr || part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS ||
      part->cmsg_len < CMSG_LEN(sizeof(int))) {
    return OwnedFd();
  }
  int fd;
  std::memcpy(&fd, CMSG_DATA(part), sizeof fd);
  return OwnedFd(fd);
}

}  // namespace

Result<Request> check_request(std::span<const uint8_t> bytes) {
  channel::ControlHeader header;
  if (bytes.size() < sizeof header) {
    return malformed("a request of " + std::to_string(bytes.size()) + " bytes has no header");
  }
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != channel::kControlMagic) return malformed("a request with a wrong magic");
  if (!channel::common_version(channel::kControlVersions, header.versions)) {
    return Error{EPROTONOSUPPORT,
                 channel::no_common_version("control", "this daemon", channel::kControlVersions,
                                            "the client's Lyre", header.versions)
                     .text};
  }
  if (header.bytes != bytes.size()) {
    return malformed("a request of " + std::to_string(bytes.size()) + " bytes that claims " +
                     std::to_string(header.bytes));
  }
  switch (header.type) {
    case channel::Control::kAttach:
      return check_attach(known_part<channel::AttachRequest>(bytes, header));
    case channel::Control::kInfo:
      return take_whole<channel::InfoRequest>(known_part<channel::InfoRequest>(bytes, header));
    case channel::Control::kRegister:
      return check_register(bytes);
    case channel::Control::kDeregister:
      return check_deregister(bytes);
    case channel::Control::kCapture:
      return check_capture(known_part<channel::CaptureRequest>(bytes, header));
    case channel::Control::kUpgrade:
      return take_whole<channel::UpgradeRequest>(
          known_part<channel::UpgradeRequest>(bytes, header));
    default:
      return malformed("a request of unknown type " +
                       std::to_string(static_cast<uint32_t>(header.type)));
  }
}

Result<Packet> receive_packet(int socket, std::span<uint8_t> out) {
  iovec vector{out.data(), out.size()};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  // Exactly one descriptor fits; CMSG_SPACE would leave room for a second one in its padding.
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  message.msg_control = control;
  message.msg_controllen = CMSG_LEN(sizeof(int));
  // Looked at before it is taken: for what has no room the kernel would run the file's close, which
  // may block, in this thread.
  const ssize_t count = ::recvmsg(socket, &message, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (count < 0) return errno_error("cannot receive");
  OwnedFd descriptor = descriptor_of(message);
  // The kernel gives descriptors until one does not fit into the message, or not into this process
  // (EMFILE): where none came, that was the first one, for which the message has room.
  const bool is_cut = (message.msg_flags & MSG_CTRUNC) != 0;
  Packet packet{.bytes = static_cast<size_t>(count),
                .is_too_long = (message.msg_flags & MSG_TRUNC) != 0,
                .has_too_many_descriptors = is_cut && descriptor.is_open(),
                .is_out_of_descriptors = is_cut && !descriptor.is_open(),
                .descriptor = std::move(descriptor)};
  // The descriptor is a second one of its file, so that the first closes nothing.
  if (!is_cut) static_cast<void>(::recv(socket, nullptr, 0, MSG_DONTWAIT));
  return packet;
}

Status send_packet(int socket, std::span<const uint8_t> bytes, std::span<const int> descriptors) {
  alignas(cmsghdr) char control[CMSG_SPACE(kDescriptorsMax * sizeof(int))] = {};
  iovec vector{const_cast<uint8_t*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    if (descriptors.size() > kDescriptorsMax) return Error{E2BIG, "too many descriptors"};
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(part), descriptors.data(), descriptors.size_bytes());
  }
  if (::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
    return errno_error("cannot send");
  return Ok{};
}

void copy_text(std::span<char> out, std::string_view text) {
  const size_t count = std::min(text.size(), out.size() - 1);
  text.copy(out.data(), count);
  out[count] = '\0';
}

}  // namespace lyre
