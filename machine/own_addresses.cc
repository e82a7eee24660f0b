#include "machine/own_addresses.h"

#include <ifaddrs.h>
#include <netinet/in.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

namespace lyre::machine {
namespace {

std::optional<Address> address_of(const sockaddr* socket) {
  if (socket == nullptr) return std::nullopt;
  if (socket->sa_family == AF_INET) {
    return mapped(reinterpret_cast<const sockaddr_in*>(socket)->sin_addr.s_addr);
  }
  if (socket->sa_family != AF_INET6) return std::nullopt;
  Address out{};
  std::memcpy(out.data(), &reinterpret_cast<const sockaddr_in6*>(socket)->sin6_addr, out.size());
  return out;
}

}  // namespace

std::vector<OwnAddress> own_addresses() {
  std::vector<OwnAddress> out;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return out;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const std::optional<Address> address = address_of(entry->ifa_addr);
    // IPv4 addresses may have a label, "eth1:0".
    const std::string_view name = entry->ifa_name;
    if (address) out.push_back({*address, std::string(name.substr(0, name.find(':')))});
  }
  return out;
}

}  // namespace lyre::machine
