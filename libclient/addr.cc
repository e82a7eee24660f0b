#include <arpa/inet.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

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

int check_reserved(const lyre_addr& addr) {
  if (addr.reserved_16 == 0 && addr.reserved_32 == 0) return 0;
  return fail(LYRE_E_INVALID,
              "a reserved field of a lyre_addr is not 0; this library (%s) has no "
              "use for it",
              lyre_version());
}

IpAddress address_of(const lyre_addr& addr) {
  IpAddress out;
  std::memcpy(out.bytes.data(), addr.address, sizeof addr.address);
  return out;
}

}  // namespace lyre::client

namespace {

/// Host and port as text; an empty host is any address.
struct Parts {
  std::string_view host;
  const char* port = nullptr;  ///< nullptr: not given
};

/// "[host]:port", "[host]", "host:port", "host" or ":port". More than one colon outside of brackets
/// makes it an address of IPv6. False: brackets that do not match.
bool split(const char* text, Parts& out) {
  const char* end = text + std::strlen(text);
  if (text[0] == '[') {
    const char* close = std::strchr(text, ']');
    if (close == nullptr || (close[1] != '\0' && close[1] != ':')) return false;
    out.host = {text + 1, close};
    if (close[1] == ':') out.port = close + 2;
    return !out.host.empty();
  }
  const char* colon = std::strchr(text, ':');
  const bool is_ipv6 = colon != nullptr && std::strchr(colon + 1, ':') != nullptr;
  if (colon == nullptr || is_ipv6) {
    out.host = {text, end};
    return !out.host.empty();
  }
  out.host = {text, colon};
  out.port = colon + 1;
  return true;
}

bool parse_host(const char* text, bool is_bracketed, uint8_t (&out)[16]) {
  in_addr v4{};
  lyre::IpAddress address;
  if (!is_bracketed && ::inet_pton(AF_INET, text, &v4) == 1) {
    address = lyre::IpAddress::v4(ntohl(v4.s_addr));
  } else if (::inet_pton(AF_INET6, text, address.bytes.data()) != 1) {
    return false;
  }
  std::memcpy(out, address.bytes.data(), sizeof out);
  return true;
}

}  // namespace

int lyre_addr_parse(const char* text, lyre_addr* out) {
  using namespace lyre::client;
  if (text == nullptr || out == nullptr) return fail(LYRE_E_INVALID, "no address given");
  Parts parts;
  char host[INET6_ADDRSTRLEN] = "0.0.0.0";
  if (!split(text, parts) || parts.host.size() >= sizeof host) {
    return fail(LYRE_E_INVALID, "'%s' is not an address like 10.9.0.1:5000 or [fd00::1]:5000",
                text);
  }
  if (!parts.host.empty()) host[parts.host.copy(host, sizeof host - 1)] = '\0';
  lyre_addr parsed{};
  if (!parse_host(host, text[0] == '[', parsed.address)) {
    return fail(LYRE_E_INVALID, "'%s' is not an address of IPv4 or IPv6", host);
  }
  if (parts.port != nullptr && !parse_port(parts.port, parsed.port)) {
    return fail(LYRE_E_INVALID, "'%s' is not a port (0 to 65535)", parts.port);
  }
  *out = parsed;
  return 0;
}

int lyre_addr_format(const lyre_addr* addr, char* out, size_t out_bytes) {
  using namespace lyre::client;
  if (addr == nullptr || out == nullptr || out_bytes == 0) {
    return fail(LYRE_E_INVALID, "no address, or no room for its text");
  }
  if (const int code = check_reserved(*addr); code != 0) return code;
  const lyre::IpAddress address = address_of(*addr);
  char host[INET6_ADDRSTRLEN] = "";
  // All zeros is "any address" of either family; written as 0.0.0.0.
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
