#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <variant>

#include "daemon/base/owned_fd.h"
#include "stack/base/result.h"
#include "stack/channel/control.h"

/// Messages of the control socket, in and out. What comes in is checked before it is used.
namespace lyre {

/// Larger than every request, so that a longer message is recognised.
inline constexpr size_t kRequestBytesMax = 512;

using Request =
    std::variant<channel::AttachRequest, channel::InfoRequest, channel::RegisterRequest,
                 channel::DeregisterRequest, channel::CaptureRequest, channel::UpgradeRequest>;

/// A request that is whole and made of known values. The label of an attach is printable and ends.
/// Fails: EPROTO is not the protocol, EPROTONOSUPPORT another version of it; text for the client.
Result<Request> check_request(std::span<const uint8_t> bytes);

/// One received packet. There is room for one descriptor.
struct Packet {
  size_t bytes = 0;  ///< 0: the other side hung up
  bool is_too_long = false;
  bool has_too_many_descriptors = false;  ///< the packet was not taken: end the connection
  bool is_out_of_descriptors = false;     ///< it has one, and was not taken: no number is left here
  OwnedFd descriptor;
};
/// Why a request with a descriptor is refused then.
inline constexpr const char* kOutOfDescriptors = "the daemon has no descriptor left (LimitNOFILE)";
/// Receives one packet without waiting. Closes no descriptor. Fails: EAGAIN nothing there, or what
/// the socket says.
Result<Packet> receive_packet(int socket, std::span<uint8_t> out);

/// Sends one packet with descriptors, without waiting.
/// Fails: EAGAIN the receiver does not read, or what the socket says.
Status send_packet(int socket, std::span<const uint8_t> bytes, std::span<const int> descriptors);

/// A message of this type, zeroed (padding too: it leaves the process) apart from its header.
template <typename Message>
Message make_message(channel::Control type) {
  Message message;
  std::memset(static_cast<void*>(&message), 0, sizeof message);
  message.header.magic = channel::kControlMagic;
  message.header.versions = channel::kControlVersions;
  message.header.type = type;
  message.header.bytes = sizeof(Message);
  return message;
}
template <typename Message>
std::span<const uint8_t> bytes_of(const Message& message) {
  return {reinterpret_cast<const uint8_t*>(&message), sizeof message};
}
/// Copies as much of `text` as fits and ends it.
void copy_text(std::span<char> out, std::string_view text);

}  // namespace lyre
