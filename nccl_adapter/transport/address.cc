#include "nccl_adapter/transport/address.h"

#include <algorithm>
#include <array>

namespace lyre::nccl_adapter {

lyre_addr make_addr(const Address& address, uint16_t port) {
  lyre_addr out{};
  std::copy(address.begin(), address.end(), std::begin(out.address));
  out.port = port;
  return out;
}

bool is_ipv4(const Address& address) {
  constexpr std::array<uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::equal(kMapped.begin(), kMapped.end(), address.begin());
}

bool is_link_local(const Address& address) {
  if (is_ipv4(address)) return address[12] == 169 && address[13] == 254;
  return address[0] == 0xfe && (address[1] & 0xc0) == 0x80;
}

bool is_none(const Address& address) { return address == Address{}; }

std::string to_string(const Address& address) {
  std::string text = to_string(make_addr(address, 0));
  return text.substr(0, text.rfind(':'));
}

std::string to_string(const lyre_addr& address) {
  char text[64];
  return lyre_addr_format(&address, text, sizeof(text)) > 0 ? text : "?";
}

}  // namespace lyre::nccl_adapter
