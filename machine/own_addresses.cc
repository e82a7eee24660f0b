#include "machine/own_addresses.h"

#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

namespace lyre::machine {
namespace {

/// Of IPv6 only: IFA_F_SECONDARY, of a further address of IPv4, has the bit of IFA_F_TEMPORARY.
constexpr struct {
  uint32_t flag;
  const char* name;
} kPassing[] = {
    {IFA_F_TEMPORARY, "temporary"},
    {IFA_F_DADFAILED, "a duplicate"},
    {IFA_F_TENTATIVE, "tentative"},
    {IFA_F_DEPRECATED, "deprecated"},
};

std::string passing_of(uint32_t flags) {
  for (const auto& row : kPassing) {
    if ((flags & row.flag) != 0) return row.name;
  }
  return {};
}

/// The header has the first eight flags only.
uint32_t flags_of(const ifaddrmsg& header, const std::vector<NetlinkPart>& attributes) {
  const std::string_view value = attribute(attributes, IFA_FLAGS);
  return value.empty() ? header.ifa_flags : from_bytes<uint32_t>(value);
}

void add_address(std::string_view message, InterfaceNames& names, std::vector<OwnAddress>& out) {
  const auto header = from_bytes<ifaddrmsg>(message);
  if (header.ifa_family != AF_INET && header.ifa_family != AF_INET6) return;
  const bool is_of_v4 = header.ifa_family == AF_INET;
  const auto attributes = attributes_in(message.substr(sizeof header));
  // Of a point-to-point interface IFA_ADDRESS is the peer's.
  std::string_view value = attribute(attributes, IFA_LOCAL);
  if (value.empty()) value = attribute(attributes, IFA_ADDRESS);
  if (value.size() != (is_of_v4 ? sizeof(uint32_t) : sizeof(Address))) return;
  const std::string& interface = names.name_of(header.ifa_index);
  if (interface.empty()) return;  // it went since the dump
  out.push_back(
      {.address = is_of_v4 ? mapped(from_bytes<uint32_t>(value)) : from_bytes<Address>(value),
       .interface = interface,
       .bits = (is_of_v4 ? kMappedBits : 0) + header.ifa_prefixlen,
       .passing = is_of_v4 ? "" : passing_of(flags_of(header, attributes))});
}

}  // namespace

std::vector<OwnAddress> own_addresses() {
  InterfaceNames names;
  const auto dump = netlink_dump(RTM_GETADDR, AF_UNSPEC);
  return addresses_in(dump.value_or(""), names);
}

std::vector<OwnAddress> addresses_in(std::string_view dump, InterfaceNames& names) {
  std::vector<OwnAddress> out;
  for (const NetlinkPart& message : messages_in(dump)) {
    if (message.type == RTM_NEWADDR) add_address(message.value, names, out);
  }
  return out;
}

}  // namespace lyre::machine
