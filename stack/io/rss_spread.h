#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "stack/base/ip_address.h"

namespace lyre::io {

/// The Toeplitz hash of NICs: for each bit of the input that is set, the 32 bits of the key that
/// begin there. REQUIRES: the key is at least 4 bytes longer than the input.
constexpr uint32_t toeplitz_hash(std::span<const uint8_t> key, std::span<const uint8_t> input) {
  uint32_t window =
      uint32_t{key[0]} << 24 | uint32_t{key[1]} << 16 | uint32_t{key[2]} << 8 | key[3];
  uint32_t hash = 0;
  for (size_t i = 0; i < input.size(); ++i) {
    for (int bit = 7; bit >= 0; --bit) {
      if ((input[i] >> bit & 1) != 0) hash ^= window;
      window = window << 1 | (key[i + 4] >> bit & 1);
    }
  }
  return hash;
}

/// How a NIC spreads the TCP packets that it receives over its queues, as its driver says.
struct RssSpread {
  std::vector<uint8_t> key;
  std::vector<uint16_t> queues;  ///< the redirection table: queues by the lowest bits of the hash
  bool hashes_ipv4 = false;      ///< addresses and ports of TCP over IPv4
  bool hashes_ipv6 = false;

  /// The queue that receives the packets of this connection; nothing where that is not known.
  std::optional<uint32_t> queue_of(const FourTuple& tuple) const {
    const bool is_v4 = tuple.local.address.is_v4();
    const size_t address_bytes = is_v4 ? 4 : 16;
    uint8_t input[2 * 16 + 4];
    const size_t input_bytes = 2 * address_bytes + 4;
    if (!(is_v4 ? hashes_ipv4 : hashes_ipv6) || queues.empty() || key.size() < input_bytes + 4) {
      return std::nullopt;
    }
    // What is received has the remote end as its source, which comes first.
    uint8_t* at = input;
    for (const Endpoint* end : {&tuple.remote, &tuple.local}) {
      at = std::copy(end->address.bytes.end() - static_cast<ptrdiff_t>(address_bytes),
                     end->address.bytes.end(), at);
    }
    for (const Endpoint* end : {&tuple.remote, &tuple.local}) {
      *at++ = static_cast<uint8_t>(end->port >> 8);
      *at++ = static_cast<uint8_t>(end->port);
    }
    return queues[toeplitz_hash(key, {input, input_bytes}) % queues.size()];
  }
};

}  // namespace lyre::io
