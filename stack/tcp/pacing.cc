#include "stack/tcp/pacing.h"

#include <algorithm>

namespace lyre::tcp {

namespace {

// As in Linux: a rate above one window per round trip, so that pacing never limits growth.
constexpr uint64_t kSlowStartPercent = 200;
constexpr uint64_t kAvoidancePercent = 120;
/// A caller that is late may send this much at once: timers have a resolution, and segments are
/// sent in bursts.
constexpr Nanos kCatchUpMax = millis(1);
constexpr uint64_t kNanosPerSecond = 1'000'000'000;

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

bool is_paced_out(Connection& c, Nanos now) {
  if (c.snd.paced_until <= now) return false;
  c.deadline(Timer::kPace) = c.snd.paced_until;
  return true;
}

void note_paced(Connection& c, uint32_t bytes, Nanos now) {
  const uint64_t rate = pacing_rate(c);
  if (rate == 0) return;
  const auto cost = static_cast<int64_t>(bytes * kNanosPerSecond / rate);
  c.snd.paced_until = later(c.snd.paced_until, now - kCatchUpMax) + nanos(cost);
}

}  // namespace lyre::tcp
