#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "stack/base/check.h"
#include "stack/base/siphash.h"

namespace lyre {

/// A key for one use of `secret`. SipHash is a pseudo-random function of the label, so the outputs
/// of one use tell nothing about the secret or about the keys of other uses.
/// REQUIRES: each use has a label of its own, of 31 characters at most.
inline SipKey derive_key(SipKey secret, std::string_view label) {
  std::array<uint8_t, 32> input{};
  LYRE_CHECK(label.size() < input.size());
  for (size_t i = 0; i < label.size(); ++i) input[i + 1] = static_cast<uint8_t>(label[i]);
  const auto half = [&](uint8_t number) {
    input[0] = number;
    return SipHash(secret)(std::span(input).first(label.size() + 1));
  };
  return {.k0 = half(0), .k1 = half(1)};
}

}  // namespace lyre
