#include "machine/netlink.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

namespace lyre::machine {
namespace {

constexpr int kDumpsMax = 4;
constexpr size_t kDatagramBytesMax = 1 << 17;  // the kernel's have 32 KiB

/// Takes the first message off `rest`; empty: it does not begin with a whole one.
std::string_view take_message(std::string_view& rest) {
  const auto header = from_bytes<nlmsghdr>(rest);
  if (header.nlmsg_len < sizeof header || header.nlmsg_len > rest.size()) return {};
  const std::string_view message = rest.substr(0, header.nlmsg_len);
  rest.remove_prefix(std::min<size_t>(NLMSG_ALIGN(header.nlmsg_len), rest.size()));
  return message;
}

/// False: the kernel refuses the request.
bool add_message(std::string_view message, NetlinkDump& dump) {
  const auto header = from_bytes<nlmsghdr>(message);
  if (header.nlmsg_type == NLMSG_ERROR) return false;
  dump.was_interrupted |= (header.nlmsg_flags & NLM_F_DUMP_INTR) != 0;
  if (header.nlmsg_type == NLMSG_DONE) {
    dump.has_ended = true;
    return from_bytes<int32_t>(message.substr(sizeof header)) >= 0;
  }
  dump.messages.append(message);
  dump.messages.append(NLMSG_ALIGN(message.size()) - message.size(), '\0');
  return true;
}

bool send_request(int fd, uint16_t type, uint8_t family) {
  // The bodies of all these requests begin with the family and have no more bytes than this one.
  struct {
    nlmsghdr header;
    ifinfomsg body;
  } request = {};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = type;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.body.ifi_family = family;
  return ::send(fd, &request, sizeof request, 0) == static_cast<ssize_t>(sizeof request);
}

/// The kernel writes the first datagram when it is asked, and the next one when one is read.
std::optional<NetlinkDump> dump_once(int fd, uint16_t type, uint8_t family) {
  NetlinkDump dump;
  std::string datagram(kDatagramBytesMax, '\0');
  if (!send_request(fd, type, family)) return std::nullopt;
  while (!dump.has_ended) {
    const ssize_t got = ::recv(fd, datagram.data(), datagram.size(), MSG_DONTWAIT | MSG_TRUNC);
    if (got <= 0 || static_cast<size_t>(got) > datagram.size()) return std::nullopt;
    const std::string_view filled(datagram.data(), static_cast<size_t>(got));
    if (!add_datagram(filled, dump)) return std::nullopt;
  }
  return dump;
}

}  // namespace

bool add_datagram(std::string_view datagram, NetlinkDump& dump) {
  for (auto message = take_message(datagram); !message.empty(); message = take_message(datagram)) {
    if (!add_message(message, dump)) return false;
  }
  return true;
}

std::optional<std::string> netlink_dump(uint16_t type, uint8_t family) {
  const int fd = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (fd < 0) return std::nullopt;
  std::optional<NetlinkDump> dump;
  for (int i = 0; i < kDumpsMax; ++i) {
    dump = dump_once(fd, type, family);
    if (!dump || !dump->was_interrupted) break;
  }
  ::close(fd);
  if (!dump) return std::nullopt;
  return std::move(dump->messages);
}

std::vector<NetlinkPart> messages_in(std::string_view bytes) {
  std::vector<NetlinkPart> out;
  for (auto message = take_message(bytes); !message.empty(); message = take_message(bytes)) {
    const auto header = from_bytes<nlmsghdr>(message);
    out.push_back({header.nlmsg_type, message.substr(sizeof header)});
  }
  return out;
}

std::vector<NetlinkPart> attributes_in(std::string_view bytes) {
  std::vector<NetlinkPart> out;
  for (;;) {
    const auto header = from_bytes<rtattr>(bytes);
    if (header.rta_len < sizeof header || header.rta_len > bytes.size()) return out;
    out.push_back({static_cast<uint16_t>(header.rta_type & NLA_TYPE_MASK),
                   bytes.substr(sizeof header, header.rta_len - sizeof header)});
    bytes.remove_prefix(std::min<size_t>(RTA_ALIGN(header.rta_len), bytes.size()));
  }
}

std::string_view attribute(const std::vector<NetlinkPart>& attributes, uint16_t type) {
  const auto it = std::ranges::find(attributes, type, &NetlinkPart::type);
  return it == attributes.end() ? std::string_view{} : it->value;
}

const std::string& InterfaceNames::name_of(uint32_t index) {
  const auto [it, is_new] = known_.try_emplace(index);
  char name[IF_NAMESIZE] = "";
  if (is_new && ::if_indextoname(index, name) != nullptr) it->second = name;
  return it->second;
}

}  // namespace lyre::machine
