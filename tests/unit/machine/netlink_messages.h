#pragma once

#include <linux/rtnetlink.h>

#include <cstdint>
#include <string>

namespace lyre::machine {

template <typename T>
std::string raw(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

inline std::string padded(std::string bytes) {
  bytes.resize(NLMSG_ALIGN(bytes.size()), '\0');
  return bytes;
}

/// An attribute as rtnetlink(7) writes it.
inline std::string with_type(uint16_t type, const std::string& value) {
  const rtattr header{.rta_len = static_cast<uint16_t>(sizeof header + value.size()),
                      .rta_type = type};
  return padded(raw(header) + value);
}

/// A next hop of RTA_MULTIPATH. `flags`: RTNH_F_ ones.
inline std::string next_hop(int interface, const std::string& attributes, uint8_t flags = 0) {
  rtnexthop header{};
  header.rtnh_len = static_cast<uint16_t>(sizeof header + attributes.size());
  header.rtnh_flags = flags;
  header.rtnh_ifindex = interface;
  return padded(raw(header) + attributes);
}

/// A message of a dump. `header`: rtmsg, fib_rule_hdr and their like. `flags`: NLM_F_ ones.
template <typename Header>
std::string netlink_message(uint16_t type, const Header& header, const std::string& attributes,
                            uint16_t flags = 0) {
  const std::string body = raw(header) + attributes;
  nlmsghdr message{};
  message.nlmsg_len = static_cast<uint32_t>(sizeof message + body.size());
  message.nlmsg_type = type;
  message.nlmsg_flags = flags;
  return padded(raw(message) + body);
}

}  // namespace lyre::machine
