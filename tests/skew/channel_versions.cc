// Preloaded into a client or into lyred: it speaks only the versions of the channel that
// LYRE_TEST_CHANNEL_VERSIONS names ("6", or "6-7"), as an older or newer build of it would. Both
// ends learn each other's versions from AttachRequest alone.
#include <dlfcn.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "stack/channel/control.h"

namespace {

using lyre::channel::AttachRequest;
using lyre::channel::VersionRange;

std::optional<VersionRange> spoken() {
  const char* text = std::getenv("LYRE_TEST_CHANNEL_VERSIONS");
  VersionRange range{};
  const int found = text == nullptr ? 0 : std::sscanf(text, "%hu-%hu", &range.min, &range.max);
  if (found < 1) return std::nullopt;
  if (found == 1) range.max = range.min;
  return range;
}

std::optional<AttachRequest> attach_request(const void* data, size_t bytes) {
  AttachRequest request;
  if (bytes < sizeof request) return std::nullopt;
  std::memcpy(&request, data, sizeof request);
  const bool is_attach = request.header.magic == lyre::channel::kControlMagic &&
                         request.header.type == lyre::channel::Control::kAttach;
  return is_attach ? std::optional(request) : std::nullopt;
}

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

/// A client: it says what it speaks.
extern "C" ssize_t send(int socket, const void* data, size_t bytes, int flags) {
  static auto* const original = next<decltype(send)>("send");
  const auto range = spoken();
  auto request = attach_request(data, bytes);
  if (!range || !request) return original(socket, data, bytes, flags);
  request->abi_versions = *range;
  return original(socket, &*request, sizeof *request, flags);
}

/// The daemon: of what the client speaks, it knows its own versions only.
extern "C" ssize_t recvmsg(int socket, msghdr* message, int flags) {
  static auto* const original = next<decltype(recvmsg)>("recvmsg");
  const ssize_t count = original(socket, message, flags);
  const auto range = spoken();
  if (count <= 0 || !range || message->msg_iovlen != 1) return count;
  void* data = message->msg_iov[0].iov_base;
  auto request = attach_request(data, static_cast<size_t>(count));
  if (!request) return count;
  request->abi_versions.min = std::max(request->abi_versions.min, range->min);
  request->abi_versions.max = std::min(request->abi_versions.max, range->max);
  std::memcpy(data, &*request, sizeof *request);
  return count;
}
