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

  /// Returns 0 for frames that are not TCP right behind an IP header without options.
  uint32_t hash(std::span<const uint8_t> frame) const {
    if (is_tcp(frame, 0x0800, 23, kPortsEnd4) && frame[14] == 0x45) {
      return hash_of(frame.first(kPortsEnd4).last(kPortsEnd4 - kAddressesAt4));
    }
    if (is_tcp(frame, 0x86dd, 20, kPortsEnd6)) {
      return hash_of(frame.first(kPortsEnd6).last(kPortsEnd6 - kAddressesAt6));
    }
    return 0;
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
  // Offsets in a frame of IPv4 and of IPv6. The ports follow the addresses.
  static constexpr size_t kAddressesAt4 = 26;
  static constexpr size_t kPortsEnd4 = 38;
  static constexpr size_t kAddressesAt6 = 22;
  static constexpr size_t kPortsEnd6 = 58;

  static bool is_tcp(std::span<const uint8_t> frame, uint16_t ethernet_type, size_t protocol_at,
                     size_t ports_end) {
    constexpr uint8_t kTcp = 6;
    return frame.size() >= ports_end && frame[12] == ethernet_type >> 8 &&
           frame[13] == (ethernet_type & 0xff) && frame[protocol_at] == kTcp;
  }
  uint32_t hash_of(std::span<const uint8_t> flow) const {
    return static_cast<uint32_t>(SipHash(key_)(flow));
  }

  SipKey key_;
  std::array<uint32_t, 128> table_{};
};

}  // namespace lyre::io::sim
