#include <algorithm>

#include "stack/tcp/congestion.h"

namespace lyre::tcp::newreno {

void grow(Congestion& cc, uint32_t delivered_bytes) {
  // RFC 5681 3.1 with byte counting (RFC 3465): one MSS for each window of acknowledged bytes.
  cc.credit_bytes += delivered_bytes;
  if (cc.credit_bytes < cc.cwnd_bytes) return;
  cc.credit_bytes -= cc.cwnd_bytes;
  cc.cwnd_bytes = std::min(cc.cwnd_bytes + cc.mss_bytes, kCwndBytesMax);
}

uint32_t ssthresh_bytes(const Congestion& cc, uint32_t in_flight_bytes) {
  return std::max(in_flight_bytes / 2, 2 * cc.mss_bytes);  // RFC 5681 equation 4
}

}  // namespace lyre::tcp::newreno
