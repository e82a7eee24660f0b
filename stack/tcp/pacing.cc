#include "stack/tcp/pacing.h"

#include <algorithm>

namespace lyre::tcp {

namespace {

// As in Linux: a rate above one window per round trip, so that pacing never limits growth.
constexpr uint64_t kSlowStartPercent = 200;
constexpr uint64_t kAvoidancePercent = 120;
/// Workers wake for deadlines in steps of so much: a tick of their TimerWheel.
constexpr Nanos kWakeStep = nanos(65'536);
constexpr Nanos kCatchUpMax = millis(1);
constexpr uint64_t kNanosPerSecond = 1'000'000'000;
/// No path has such a rate. The product with a time of 1.1 ms fits.
constexpr uint64_t kRateMax = 1'000 * kNanosPerSecond;

/// A caller that is late may send what this time allows at once: timers have a resolution, and
/// segments are sent in bursts. A larger part of the round trip would be the burst that pacing is
/// to avoid, a smaller one less than a late timer costs.
Nanos catch_up(const Connection& c) {
  if (!c.config.pacing || !c.rtt.has_sample()) return kCatchUpMax;
  return earlier(later(c.rtt.srtt / 4, kWakeStep * 2), kCatchUpMax);
}

Nanos time_of(uint32_t bytes, uint64_t rate) {
  return nanos(static_cast<int64_t>(bytes * kNanosPerSecond / rate));
}

}  // namespace

uint64_t pacing_rate(const Connection& c) {
  uint64_t rate = c.config.pacing_bytes_per_s_max;
  if (!c.config.pacing || !c.rtt.has_sample()) return rate;
  // As in Linux, the higher rate ends at half of ssthresh: the last round of slow start is the one
  // that overflows queues.
  const bool is_doubling = c.cc.cwnd_bytes < c.cc.ssthresh_bytes / 2;
  const uint64_t percent = is_doubling ? kSlowStartPercent : kAvoidancePercent;
  const uint64_t window = std::max(c.cc.cwnd_bytes, c.in_flight_bytes());
  const auto srtt = static_cast<uint64_t>(c.rtt.srtt.value);
  const uint64_t by_window = window * (kNanosPerSecond / 100) / srtt * percent;
  return rate > 0 ? std::min(rate, by_window) : by_window;
}

uint32_t paced_room(const Connection& c, Nanos now) {
  const uint64_t rate = std::min(pacing_rate(c), kRateMax);
  if (rate == 0) return UINT32_MAX;
  // Up to the next step, at which the caller comes again.
  const Nanos span = now + kWakeStep - later(c.snd.paced_until, now - catch_up(c));
  const uint64_t bytes = rate * static_cast<uint64_t>(span.value) / kNanosPerSecond;
  return static_cast<uint32_t>(std::min<uint64_t>(bytes, UINT32_MAX));
}

bool is_paced_out(Connection& c, Nanos now) {
  if (c.snd.paced_until <= now) return false;
  const uint64_t rate = pacing_rate(c);
  if (rate == 0) return false;  // pacing was turned off
  // What was sent while the round trip was long for a moment cost more than it does now.
  const Nanos wait_max = later(catch_up(c), time_of(c.snd.mss_bytes, rate));
  c.snd.paced_until = earlier(c.snd.paced_until, now + wait_max);
  c.deadline(Timer::kPace) = c.snd.paced_until;
  return true;
}

void note_paced(Connection& c, uint32_t bytes, Nanos now) {
  const uint64_t rate = pacing_rate(c);
  if (rate == 0) return;
  c.snd.paced_until = later(c.snd.paced_until, now - catch_up(c)) + time_of(bytes, rate);
}

}  // namespace lyre::tcp
