#include "nccl_adapter/transport/address.h"

#include <algorithm>

namespace lyre::nccl_adapter {

lyre_addr make_addr(const Address& address, uint16_t port) {
  lyre_addr out{};
  std::copy(address.begin(), address.end(), std::begin(out.address));
  out.port = port;
  return out;
}

bool is_none(const Address& address) { return address == Address{}; }

std::string to_string(const lyre_addr& address) {
  char text[64];
  return lyre_addr_format(&address, text, sizeof(text)) > 0 ? text : "?";
}

}  // namespace lyre::nccl_adapter
