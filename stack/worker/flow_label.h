#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "stack/base/ip_address.h"
#include "stack/base/siphash.h"

namespace lyre::worker {

/// RFC 6437 3: one label for a connection, which is unpredictable without the key. 0 for IPv4,
/// which has none.
inline uint32_t flow_label_of(const FourTuple& tuple, SipKey key) {
  if (tuple.local.address.is_v4()) return 0;
  std::array<uint8_t, 36> bytes{};  // by field: padding must not enter the hash
  std::memcpy(bytes.data(), tuple.local.address.bytes.data(), 16);
  std::memcpy(bytes.data() + 16, tuple.remote.address.bytes.data(), 16);
  std::memcpy(bytes.data() + 32, &tuple.local.port, 2);
  std::memcpy(bytes.data() + 34, &tuple.remote.port, 2);
  return static_cast<uint32_t>(SipHash(key)(bytes)) & 0xfffff;
}

}  // namespace lyre::worker
