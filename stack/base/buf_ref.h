#pragma once

#include <cstdint>

namespace lyre {

/// A piece of memory that a port can read, named so that it means the same in every process.
/// Units: bytes. Owner: whoever registered `region`; the name alone owns nothing.
struct BufRef {
  uint32_t region = 0;  ///< index into the worker's region table
  uint32_t length = 0;
  uint64_t offset = 0;  ///< from the start of the region
};
static_assert(sizeof(BufRef) == 16);

/// A received payload as TCP knows it: an opaque token of the packet that holds it.
/// TCP carries it about and never looks inside; the worker turns it back into a packet.
struct PayloadHandle {
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t slot = kNone;
  constexpr bool is_none() const { return slot == kNone; }
  friend constexpr bool operator==(PayloadHandle, PayloadHandle) = default;
};

/// A run of bytes inside a received payload.
struct PayloadSlice {
  PayloadHandle handle;
  uint32_t offset = 0;  ///< from the first byte that arrived in that segment
  uint32_t length = 0;
};

}  // namespace lyre
