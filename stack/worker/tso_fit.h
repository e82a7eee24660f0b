#pragma once

#include <cstdint>
#include <span>

#include "stack/base/buf_ref.h"

namespace lyre::worker {

/// Segments (entries of a driver's gather list) that a port takes, headers included.
struct SegmentLimits {
  uint32_t packet_max = UINT32_MAX;  ///< of a whole TSO packet
  uint32_t cut_max = UINT32_MAX;     ///< of each packet that the port cuts from it
};

/// How much of the payload in `pieces` fits into one TSO packet that the port cuts into packets of
/// `mss_bytes`: all of it, or else a multiple of `mss_bytes`; 0 when the first cut does not fit.
/// `segment_bytes`: by region index, the largest part that a port reads as one segment, see
/// PacketMemory::region_segment_bytes().
uint32_t tso_payload_that_fits(std::span<const BufRef> pieces, const uint32_t* segment_bytes,
                               uint32_t mss_bytes, SegmentLimits limits);

/// Shortens `pieces` to their first `bytes` and returns how many remain. REQUIRES: they hold that
/// many.
uint32_t shorten_pieces(std::span<BufRef> pieces, uint32_t bytes);

}  // namespace lyre::worker
