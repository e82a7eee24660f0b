#pragma once

#include <algorithm>
#include <cstdint>

namespace lyre::adapter_sim {

/// How much of a connection may be unacknowledged: RFC 5681 3.1, and after a timeout 4 as Tahoe
/// did. That is enough for queues that overflow.
class SendWindow {
 public:
  uint64_t bytes(uint64_t segment_bytes) const { return std::max(cwnd_, segment_bytes); }
  void on_acked(uint64_t bytes, uint64_t segment_bytes) {
    cwnd_ = std::max(cwnd_, segment_bytes);
    cwnd_ += cwnd_ < ssthresh_ ? bytes : bytes * segment_bytes / cwnd_;
  }
  void on_timeout(uint64_t in_flight_bytes, uint64_t segment_bytes) {
    ssthresh_ = std::max(in_flight_bytes / 2, 2 * segment_bytes);
    cwnd_ = segment_bytes;
  }

 private:
  uint64_t cwnd_ = 0;
  uint64_t ssthresh_ = UINT64_MAX;
};

}  // namespace lyre::adapter_sim
