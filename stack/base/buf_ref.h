#pragma once

#include <cstdint>

namespace lyre {

/// A range of memory that a port can read, in terms that are the same in every process. Units:
/// bytes. Owner: the owner of `region`; a BufRef itself owns nothing.
struct BufRef {
  uint32_t region = 0;  ///< index into the worker's region table
  uint32_t length = 0;
  uint64_t offset = 0;  ///< from the start of the region
};
static_assert(sizeof(BufRef) == 16);

/// A received payload as TCP sees it: an opaque token for the packet that holds the payload. TCP
/// stores the token and never interprets it; the worker turns it back into a packet.
struct PayloadHandle {
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t slot = kNone;
  constexpr bool is_none() const { return slot == kNone; }
  friend constexpr bool operator==(PayloadHandle, PayloadHandle) = default;
};

/// A range of bytes inside a received payload.
struct PayloadSlice {
  PayloadHandle handle;
  uint32_t offset = 0;  ///< from the first byte that arrived in that segment
  uint32_t length = 0;
};

}  // namespace lyre
