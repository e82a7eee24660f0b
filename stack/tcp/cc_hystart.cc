#include <algorithm>

#include "stack/tcp/congestion.h"

namespace lyre::tcp::hystart {

namespace {

// RFC 9406 4.3, recommended values.
constexpr Nanos kRttThreshMin = millis(4);
constexpr Nanos kRttThreshMax = millis(16);
constexpr int64_t kRttDivisor = 8;
constexpr uint8_t kRttSamplesMin = 8;
constexpr uint32_t kCssGrowthDivisor = 4;
constexpr uint8_t kCssRounds = 5;

void start_round(HystartState& state, SeqNum nxt) {
  state.last_round_rtt_min = state.round_rtt_min;
  state.round_rtt_min = kNever;
  state.sample_count = 0;
  state.round_end = nxt;
}

void note_sample(HystartState& state, Nanos rtt) {
  if (rtt <= nanos(0)) return;
  state.round_rtt_min = earlier(state.round_rtt_min, rtt);
  if (state.sample_count < kRttSamplesMin) ++state.sample_count;
}

/// RFC 9406 4.2: a queue is building when the minimum RTT of a round has grown.
bool is_delay_up(const HystartState& state) {
  if (state.sample_count < kRttSamplesMin || state.last_round_rtt_min == kNever) return false;
  const Nanos step =
      later(kRttThreshMin, earlier(state.last_round_rtt_min / kRttDivisor, kRttThreshMax));
  return state.round_rtt_min >= state.last_round_rtt_min + step;
}

/// Conservative slow start: ends when the RTT increase was spurious, or after enough rounds.
void check_conservative(Congestion& cc, bool is_round_over) {
  HystartState& state = cc.hystart;
  const bool has_samples = state.sample_count >= kRttSamplesMin;
  if (has_samples && state.round_rtt_min < state.css_baseline) {
    state.css_rounds_left = 0;
    state.css_baseline = kNever;
    return;
  }
  if (is_round_over && --state.css_rounds_left == 0) cc.ssthresh_bytes = cc.cwnd_bytes;
}

}  // namespace

uint32_t growth_bytes(Congestion& cc, const CongestionAck& ack) {
  HystartState& state = cc.hystart;
  // RFC 9406 4.2: only in the initial slow start, while the path is unknown. The limit L on the
  // growth by one ACK is omitted: it is for senders that send bursts. This sender hands out one
  // segment at a time, and with peers that merge received segments the limit would make it several
  // times slower than Linux.
  if (cc.ssthresh_bytes != kSsthreshUnset) return ack.delivered_bytes;
  note_sample(state, ack.rtt);
  const bool is_round_over = ack.una.after(state.round_end);
  const bool is_conservative = state.css_rounds_left > 0;
  if (is_conservative) {
    check_conservative(cc, is_round_over);
  } else if (is_delay_up(state)) {
    state.css_baseline = state.round_rtt_min;
    state.css_rounds_left = kCssRounds;
  }
  if (is_round_over) start_round(state, ack.nxt);
  return is_conservative ? ack.delivered_bytes / kCssGrowthDivisor : ack.delivered_bytes;
}

}  // namespace lyre::tcp::hystart
