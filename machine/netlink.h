#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lyre::machine {

/// A message of rtnetlink(7), or an attribute of one.
struct NetlinkPart {
  uint16_t type = 0;
  std::string_view value;  ///< what follows the header; borrows what it was read from
};

/// All objects of `family` that the request `type` (RTM_GETROUTE and its like) lists, as messages
/// one behind the other. Where they changed during each of several answers, the last of these,
/// which may lack one or have it twice. None: the process may not ask (AF_NETLINK), or this kernel
/// refuses the request.
std::optional<std::string> netlink_dump(uint16_t type, uint8_t family);

/// What the kernel has answered so far.
struct NetlinkDump {
  std::string messages;  ///< one behind the other, without those that end the answer
  bool has_ended = false;
  bool was_interrupted = false;  ///< the objects changed meanwhile
};
/// Adds the messages of one datagram. False: the kernel refuses the request.
bool add_datagram(std::string_view datagram, NetlinkDump& dump);

/// Those that `bytes` begin with, up to one that is not whole.
std::vector<NetlinkPart> messages_in(std::string_view bytes);
std::vector<NetlinkPart> attributes_in(std::string_view bytes);
/// The value of the first attribute of this type; empty: there is none.
std::string_view attribute(const std::vector<NetlinkPart>& attributes, uint16_t type);

/// What `bytes` begin with; zero where they are too few.
template <typename T>
T from_bytes(std::string_view bytes) {
  T out{};
  if (bytes.size() >= sizeof out) std::memcpy(&out, bytes.data(), sizeof out);
  return out;
}

/// The kernel's interfaces by number. Thread: one.
class InterfaceNames {
 public:
  explicit InterfaceNames(std::map<uint32_t, std::string> known = {}) : known_(std::move(known)) {}
  /// Asks the kernel for one that is not known. Empty: there is none.
  const std::string& name_of(uint32_t index);

 private:
  std::map<uint32_t, std::string> known_;
};

}  // namespace lyre::machine
