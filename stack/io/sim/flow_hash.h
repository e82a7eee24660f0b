#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "stack/base/rng.h"
#include "stack/base/siphash.h"

namespace lyre::io::sim {

/// Spreads flows over queues as NICs do: a keyed hash of the addresses and ports, and an
/// indirection table. The hash is not Toeplitz, so that no code can rely on a known one. The two
/// directions of a flow have unrelated hashes.
class FlowHash {
 public:
  explicit FlowHash(uint64_t seed = 0) : key_{seed, ~seed} { redistribute(seed); }

  /// Returns 0 for frames that are not TCP over IPv4.
  uint32_t hash(std::span<const uint8_t> frame) const {
    constexpr size_t kAddressesAt = 26;
    constexpr size_t kPortsEnd = 38;
    if (frame.size() < kPortsEnd || frame[12] != 8 || frame[13] != 0) return 0;
    if (frame[14] != 0x45 || frame[23] != 6) return 0;
    return static_cast<uint32_t>(
        SipHash(key_)(frame.subspan(kAddressesAt, kPortsEnd - kAddressesAt)));
  }
  /// REQUIRES: queue_count > 0.
  uint32_t queue_of(uint32_t hash, uint32_t queue_count) const {
    return hash == 0 ? 0 : table_[hash % table_.size()] % queue_count;
  }
  void redistribute(uint64_t seed) {
    Rng rng(seed);
    for (uint32_t& entry : table_) entry = static_cast<uint32_t>(rng.next() >> 32);
  }

 private:
  SipKey key_;
  std::array<uint32_t, 128> table_{};
};

}  // namespace lyre::io::sim
