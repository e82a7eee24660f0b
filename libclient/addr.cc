#include <arpa/inet.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "libclient/address.h"
#include "libclient/errors.h"

namespace lyre::client {
namespace {

/// Digits only, 0..65535. False otherwise.
bool parse_port(const char* text, uint16_t& out) {
  uint32_t value = 0;
  if (*text == '\0') return false;
  for (; *text != '\0'; ++text) {
    if (*text < '0' || *text > '9') return false;
    value = value * 10 + static_cast<uint32_t>(*text - '0');
    if (value > UINT16_MAX) return false;
  }
  out = static_cast<uint16_t>(value);
  return true;
}

}  // namespace

bool is_unspecified(const lyre_addr& addr) { return address_of(addr).is_unspecified(); }

IpAddress address_of(const lyre_addr& addr) {
  IpAddress out;
  std::memcpy(out.bytes.data(), addr.address, sizeof addr.address);
  return out;
}

}  // namespace lyre::client

int lyre_addr_parse(const char* text, lyre_addr* out) {
  using namespace lyre::client;
  if (text == nullptr || out == nullptr) return fail(LYRE_E_INVALID, "no address given");
  const char* colon = std::strchr(text, ':');
  const size_t host_bytes =
      colon != nullptr ? static_cast<size_t>(colon - text) : std::strlen(text);
  char host[INET_ADDRSTRLEN] = "0.0.0.0";
  if (host_bytes >= sizeof host || (host_bytes == 0 && colon == nullptr)) {
    return fail(LYRE_E_INVALID, "'%s' is not an address like 10.9.0.1:5000", text);
  }
  if (host_bytes > 0) {
    std::memcpy(host, text, host_bytes);
    host[host_bytes] = '\0';
  }
  in_addr v4{};
  lyre_addr parsed{};
  if (::inet_pton(AF_INET, host, &v4) != 1) {
    return fail(LYRE_E_INVALID, "'%s' is not an IPv4 address", host);
  }
  if (colon != nullptr && !parse_port(colon + 1, parsed.port)) {
    return fail(LYRE_E_INVALID, "'%s' is not a port (0 to 65535)", colon + 1);
  }
  const lyre::IpAddress address = lyre::IpAddress::v4(ntohl(v4.s_addr));
  std::memcpy(parsed.address, address.bytes.data(), sizeof parsed.address);
  *out = parsed;
  return 0;
}

int lyre_addr_format(const lyre_addr* addr, char* out, size_t out_bytes) {
  using namespace lyre::client;
  if (addr == nullptr || out == nullptr || out_bytes == 0) {
    return fail(LYRE_E_INVALID, "no address, or no room for its text");
  }
  const lyre::IpAddress address = address_of(*addr);
  char host[INET6_ADDRSTRLEN] = "";
  // All zeros is "any address" of either family; people know it as 0.0.0.0.
  const bool is_v4 = address.is_v4() || address.is_unspecified();
  if (is_v4) {
    ::inet_ntop(AF_INET, addr->address + 12, host, sizeof host);
  } else {
    ::inet_ntop(AF_INET6, addr->address, host, sizeof host);
  }
  const int bytes = std::snprintf(out, out_bytes, is_v4 ? "%s:%u" : "[%s]:%u", host, addr->port);
  if (bytes < 0 || static_cast<size_t>(bytes) >= out_bytes) {
    return fail(LYRE_E_INVALID, "no room for the text of an address");
  }
  return bytes;
}
