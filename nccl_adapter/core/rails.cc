#include "nccl_adapter/core/rails.h"

#include <algorithm>

namespace lyre::nccl_adapter {
namespace {

constexpr uint32_t kAddressBits = 128;
constexpr uint32_t kIpv4PrefixBits = 96;

bool is_ipv4(const Address& address) {
  constexpr std::array<uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::equal(kMapped.begin(), kMapped.end(), address.begin());
}

bool is_on_link(const lyre_port& port, const Address& remote) {
  const Address own = address_of(port);
  if (is_ipv4(own) != is_ipv4(remote)) return false;
  // A port states the prefix of its own family.
  uint32_t bits = port.prefix_bits + (is_ipv4(own) && port.prefix_bits <= 32 ? kIpv4PrefixBits : 0);
  bits = std::min(bits, kAddressBits);
  for (uint32_t i = 0; i < bits; ++i) {
    if (((own[i / 8] ^ remote[i / 8]) >> (7 - i % 8) & 1) != 0) return false;
  }
  return true;
}

}  // namespace

std::vector<RailPair> rail_pairs(std::span<const lyre_port> ports, size_t first,
                                 std::span<const Address> remotes) {
  std::vector<RailPair> pairs;
  for (size_t shift = 0; shift < remotes.size(); ++shift) {
    for (size_t i = 0; i < ports.size(); ++i) {
      pairs.push_back({(first + i) % ports.size(), remotes[(i + shift) % remotes.size()]});
    }
  }
  std::stable_partition(pairs.begin(), pairs.end(), [&](const RailPair& pair) {
    return is_on_link(ports[pair.local], pair.remote);
  });
  return pairs;
}

Address address_of(const lyre_port& port) {
  Address address;
  std::copy(std::begin(port.address), std::end(port.address), address.begin());
  return address;
}

lyre_addr make_addr(const Address& address, uint16_t port) {
  lyre_addr out{};
  std::copy(address.begin(), address.end(), std::begin(out.address));
  out.port = port;
  return out;
}

bool is_none(const Address& address) { return address == Address{}; }

}  // namespace lyre::nccl_adapter
