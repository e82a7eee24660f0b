#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace lyre {

struct SipKey {
  uint64_t k0 = 0;
  uint64_t k1 = 0;
};

/// SipHash-2-4, a keyed hash: outputs cannot be predicted without the key.
/// Used for initial sequence numbers (RFC 6528), connection tables and ephemeral ports.
class SipHash {
 public:
  constexpr explicit SipHash(SipKey key)
      : v0_(key.k0 ^ 0x736f6d6570736575u),
        v1_(key.k1 ^ 0x646f72616e646f6du),
        v2_(key.k0 ^ 0x6c7967656e657261u),
        v3_(key.k1 ^ 0x7465646279746573u) {}

  uint64_t operator()(std::span<const uint8_t> bytes) {
    const size_t whole = bytes.size() & ~size_t{7};
    for (size_t at = 0; at < whole; at += 8) {
      uint64_t word;
      std::memcpy(&word, bytes.data() + at, 8);
      absorb(word);
    }
    uint64_t last = static_cast<uint64_t>(bytes.size()) << 56;
    for (size_t at = whole; at < bytes.size(); ++at) {
      last |= uint64_t{bytes[at]} << (8 * (at - whole));
    }
    absorb(last);
    v2_ ^= 0xff;
    for (int i = 0; i < 4; ++i) round();
    return v0_ ^ v1_ ^ v2_ ^ v3_;
  }

 private:
  constexpr void absorb(uint64_t word) {
    v3_ ^= word;
    round();
    round();
    v0_ ^= word;
  }
  constexpr void round() {
    v0_ += v1_;
    v1_ = std::rotl(v1_, 13);
    v1_ ^= v0_;
    v0_ = std::rotl(v0_, 32);
    v2_ += v3_;
    v3_ = std::rotl(v3_, 16);
    v3_ ^= v2_;
    v0_ += v3_;
    v3_ = std::rotl(v3_, 21);
    v3_ ^= v0_;
    v2_ += v1_;
    v1_ = std::rotl(v1_, 17);
    v1_ ^= v2_;
    v2_ = std::rotl(v2_, 32);
  }
  uint64_t v0_, v1_, v2_, v3_;
};

}  // namespace lyre
