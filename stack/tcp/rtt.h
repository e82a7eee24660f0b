#pragma once

#include <algorithm>

#include "stack/base/nanos.h"

namespace lyre::tcp {

/// RFC 6298: the smoothed RTT and the retransmission timeout derived from it.
struct RttEstimator {
  Nanos srtt;  ///< zero: no sample yet
  Nanos rtt_var;
  Nanos rtt_min;  ///< windowed minimum of the last kMinWindow (RFC 8985 6.2 step 1)
  Nanos rtt_min_at;
  Nanos rto = seconds(1);  ///< RFC 6298 2.1: before the first sample

  static constexpr Nanos kMinWindow = seconds(10);
  /// No path takes so long: a peer that echoes false timestamps claims more, or this host slept.
  static constexpr Nanos kMax = seconds(3600);

  bool has_sample() const { return srtt.value != 0; }

  void on_sample(Nanos rtt, Nanos now, Nanos rto_min, Nanos rto_max) {
    rtt = earlier(later(rtt, nanos(1)), kMax);
    if (!has_sample()) {
      srtt = rtt;  // RFC 6298 2.2
      rtt_var = rtt / 2;
    } else {
      const int64_t error = rtt.value - srtt.value;  // RFC 6298 2.3, beta 1/4 and alpha 1/8
      rtt_var.value += ((error < 0 ? -error : error) - rtt_var.value) / 4;
      srtt.value = std::max<int64_t>(srtt.value + error / 8, 1);
    }
    // RFC 6298 2.4 rounds up to a minimum RTO. Like Linux, the minimum is added to the RTT instead,
    // so that a peer's delayed ACK (up to 200 ms) never arrives after the timer.
    rto = earlier(srtt + later(rtt_var * 4, rto_min), rto_max);
    note_min(rtt, now);
  }

  /// The windowed minimum RTT. It also takes samples that RFC 6298 does not use (SACKed later
  /// segments).
  void note_min(Nanos rtt, Nanos now) {
    if (rtt_min.value == 0 || rtt <= rtt_min || now - rtt_min_at > kMinWindow) {
      rtt_min = earlier(later(rtt, nanos(1)), kMax);
      rtt_min_at = now;
    }
  }
};

}  // namespace lyre::tcp
