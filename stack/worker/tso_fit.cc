#include "stack/worker/tso_fit.h"

#include <algorithm>

namespace lyre::worker {
namespace {

/// Counts the segments of a TSO packet while payload is added to it.
class SegmentCount {
 public:
  SegmentCount(uint32_t mss_bytes, SegmentLimits limits) : mss_bytes_(mss_bytes), limits_(limits) {}

  /// Adds payload that is one segment. False: a limit is exceeded, and whole_cuts_bytes() is what
  /// fitted before.
  bool try_add(uint32_t bytes) {
    if (++packet_segments_ > limits_.packet_max) return false;
    while (bytes > 0) {
      if (++cut_segments_ > limits_.cut_max) return false;
      const uint32_t taken = std::min(bytes, mss_bytes_ - cut_bytes_);
      bytes -= taken;
      cut_bytes_ += taken;
      if (cut_bytes_ < mss_bytes_) continue;
      whole_cuts_bytes_ += mss_bytes_;
      cut_bytes_ = 0;
      cut_segments_ = kHeaders;
    }
    return true;
  }
  uint32_t whole_cuts_bytes() const { return whole_cuts_bytes_; }

 private:
  static constexpr uint32_t kHeaders = 1;

  uint32_t mss_bytes_;
  SegmentLimits limits_;
  uint32_t packet_segments_ = kHeaders;
  uint32_t cut_segments_ = kHeaders;
  uint32_t cut_bytes_ = 0;
  uint32_t whole_cuts_bytes_ = 0;
};

}  // namespace

uint32_t tso_payload_that_fits(std::span<const BufRef> pieces, const uint32_t* segment_bytes,
                               uint32_t mss_bytes, SegmentLimits limits) {
  SegmentCount count(mss_bytes, limits);
  uint32_t all = 0;
  for (const BufRef& piece : pieces) {
    const uint32_t part_bytes = segment_bytes[piece.region];
    if (part_bytes == 0) return count.whole_cuts_bytes();
    for (uint32_t at = 0; at < piece.length;) {
      // Parts start at multiples of their size in the region, as pages do.
      const auto in_part = static_cast<uint32_t>((piece.offset + at) % part_bytes);
      const uint32_t bytes = std::min(piece.length - at, part_bytes - in_part);
      if (!count.try_add(bytes)) return count.whole_cuts_bytes();
      at += bytes;
    }
    all += piece.length;
  }
  return all;
}

uint32_t shorten_pieces(std::span<BufRef> pieces, uint32_t bytes) {
  uint32_t count = 0;
  for (; bytes > 0; ++count) {
    pieces[count].length = std::min(pieces[count].length, bytes);
    bytes -= pieces[count].length;
  }
  return count;
}

}  // namespace lyre::worker
