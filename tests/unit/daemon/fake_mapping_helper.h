#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "daemon/memory/mapping_opener.h"
#include "daemon/memory/mapping_protocol.h"
#include "daemon/protocol/control_message.h"

namespace lyre {

/// The other end of a MappingOpener's socket: it answers when a test says so.
class FakeMappingHelper {
 public:
  FakeMappingHelper() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    socket_.reset(ends[0]);
    daemons_.reset(ends[1]);
  }
  /// The daemon's end; once.
  MappingHelperProcess process() { return MappingHelperProcess(std::move(daemons_)); }

  /// The addresses of the requests that have come since the last call.
  std::vector<uint64_t> take() {
    std::vector<uint64_t> begins;
    for (;;) {
      MappingRequest request;
      const auto packet = receive_packet(
          socket_.get(), std::span(reinterpret_cast<uint8_t*>(&request), sizeof request));
      if (!packet.ok() || packet.value().bytes != sizeof request) return begins;
      EXPECT_TRUE(packet.value().descriptor.is_open());
      taken_.emplace_back(request.begin, request.header.id);
      begins.push_back(request.begin);
    }
  }
  /// Answers the request for the mapping that begins there: with `file`, or with EINVAL.
  void answer(uint64_t begin, int file = -1) {
    const MappingReply reply = reply_to(begin, file < 0 ? EINVAL : 0);
    say(bytes_of(reply), std::span(&file, file < 0 ? 0 : 1));
  }
  MappingReply reply_to(uint64_t begin, int32_t error) const {
    MappingReply reply{};
    reply.version = kMappingVersion;
    reply.bytes = sizeof reply;
    reply.error = error;
    for (const auto& [address, id] : taken_) {
      if (address == begin) reply.id = id;
    }
    return reply;
  }
  void say(std::span<const uint8_t> packet, std::span<const int> descriptors = {}) {
    EXPECT_TRUE(send_packet(socket_.get(), packet, descriptors).ok());
  }
  /// The helper's end.
  int socket() const { return socket_.get(); }

 private:
  OwnedFd socket_, daemons_;
  std::vector<std::pair<uint64_t, uint64_t>> taken_;  ///< address and the request's id
};

}  // namespace lyre
