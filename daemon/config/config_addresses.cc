#include "daemon/config/config_addresses.h"

#include <arpa/inet.h>

#include <algorithm>

#include "stack/base/ipv6_address.h"

namespace lyre {
namespace {

/// The bits after the prefix: all 0, all 1, or mixed.
struct HostBits {
  bool are_zeros = true;
  bool are_ones = true;
};

HostBits host_bits(const InterfaceAddress& interface) {
  HostBits out;
  for (uint32_t bit = interface.prefix_bits; bit < 128; ++bit) {
    const bool is_set = (interface.address.bytes[bit / 8] >> (7 - bit % 8) & 1) != 0;
    (is_set ? out.are_zeros : out.are_ones) = false;
  }
  return out;
}

}  // namespace

std::optional<IpAddress> parse_address(const std::string& text) {
  in_addr v4{};
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) return IpAddress::v4(ntohl(v4.s_addr));
  IpAddress out;
  if (inet_pton(AF_INET6, text.c_str(), out.bytes.data()) != 1 || out.is_v4()) return std::nullopt;
  return out;
}

std::optional<Cidr> parse_cidr(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos || text.size() - slash > 4 || slash + 1 == text.size()) {
    return std::nullopt;
  }
  const std::string digits = text.substr(slash + 1);
  if (!std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    return std::nullopt;
  }
  const auto address = parse_address(text.substr(0, slash));
  const auto prefix_bits = static_cast<uint32_t>(std::stoul(digits));
  if (!address || prefix_bits > (address->is_v4() ? 32u : 128u)) return std::nullopt;
  return Cidr{*address, prefix_bits};
}

std::string address_text(const IpAddress& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.is_v4()) {
    inet_ntop(AF_INET, address.bytes.data() + 12, text, sizeof text);
  } else {
    inet_ntop(AF_INET6, address.bytes.data(), text, sizeof text);
  }
  return text;
}

bool is_unicast(const IpAddress& address) {
  if (address.is_v4()) return is_ipv4_unicast(address.as_v4());
  return !address.is_unspecified() && !is_ipv6_multicast(address) && !is_ipv6_loopback(address);
}

bool is_host_address(const Cidr& cidr) {
  if (!is_unicast(cidr.address) || cidr.prefix_bits == 0) return false;
  const InterfaceAddress interface = cidr.interface();
  if (interface.prefix_bits >= 127) return true;
  const HostBits host = host_bits(interface);
  // All zeros is the network, or any router of it (RFC 4291 2.6.1). IPv6 has no broadcast.
  return !host.are_zeros && !(cidr.address.is_v4() && host.are_ones);
}

bool is_network(const Cidr& cidr) { return host_bits(cidr.interface()).are_zeros; }

}  // namespace lyre
