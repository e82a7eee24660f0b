#include <algorithm>
#include <cmath>

#include "stack/tcp/congestion.h"

namespace lyre::tcp::cubic {

namespace {

constexpr double kC = 0.4;                                // RFC 9438 5.1
constexpr double kBeta = 0.7;                             // RFC 9438 4.6
constexpr double kAlpha = 3 * (1 - kBeta) / (1 + kBeta);  // RFC 9438 4.3

double to_seconds(Nanos span) { return static_cast<double>(span.value) * 1e-9; }

void start_epoch(Congestion& cc, Nanos now) {
  CubicState& cubic = *cc.cubic();
  const double cwnd = cc.cwnd_bytes;
  cubic.epoch_start = now;
  cubic.w_est = cwnd;
  // RFC 9438 4.8, and 4.10 after slow start without a loss: the curve starts flat at the window.
  if (cubic.w_max == 0) cubic.w_max = cwnd;
  // RFC 9438 figure 2. Negative beyond w_max: after a time without demand the window continues at
  // its place on the curve (5.8).
  cubic.k_seconds = std::cbrt((cubic.w_max - cwnd) / (kC * cc.mss_bytes));
}

double window_at(const Congestion& cc, double at_seconds) {
  const CubicState& cubic = *cc.cubic();
  const double distance = at_seconds - cubic.k_seconds;  // RFC 9438 figure 1
  return kC * cc.mss_bytes * distance * distance * distance + cubic.w_max;
}

}  // namespace

void grow(Congestion& cc, const CongestionAck& ack, Nanos now) {
  CubicState& cubic = *cc.cubic();
  const double cwnd = cc.cwnd_bytes;
  const double acked = ack.delivered_bytes;
  if (cubic.epoch_start == kNever) start_epoch(cc, now);

  const double elapsed = to_seconds(now - cubic.epoch_start);
  // RFC 9438 4.3: once w_est has reached cwnd_prior, the slope is Reno's.
  cubic.w_est += (cubic.w_est >= cubic.cwnd_prior ? 1.0 : kAlpha) * cc.mss_bytes * acked / cwnd;
  double step = 0;
  if (window_at(cc, elapsed) < cubic.w_est) {
    step = cubic.w_est - cwnd;
  } else {
    // RFC 9438 4.2: the target is the value of the curve one round trip from now.
    const double target =
        std::clamp(window_at(cc, elapsed + to_seconds(ack.srtt)), cwnd, 1.5 * cwnd);
    step = (target - cwnd) / cwnd * acked;
  }
  cc.credit_bytes += std::max(step, 0.0);
  const double whole = std::floor(cc.credit_bytes);
  cc.credit_bytes -= whole;
  const double grown = std::min<double>(cc.cwnd_bytes + whole, kCwndBytesMax);
  cc.cwnd_bytes = static_cast<uint32_t>(grown);
}

uint32_t ssthresh_bytes(Congestion& cc) {
  CubicState& cubic = *cc.cubic();
  const double cwnd = cc.cwnd_bytes;
  // RFC 9438 4.7: a second loss below the last maximum releases bandwidth to new flows.
  cubic.w_max = cwnd < cubic.w_max ? cwnd * (1 + kBeta) / 2 : cwnd;
  cubic.cwnd_prior = cwnd;
  cubic.epoch_start = kNever;
  // RFC 9438 4.6 permits cwnd instead of FlightSize where a window that is not used does not grow
  // (CongestionAck::is_cwnd_limited). At the end of a burst FlightSize is its last segments only.
  return std::max(static_cast<uint32_t>(cwnd * kBeta), 2 * cc.mss_bytes);
}

}  // namespace lyre::tcp::cubic
