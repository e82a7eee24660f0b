#include "stack/tcp/congestion.h"

#include <algorithm>

namespace lyre::tcp {

namespace {

uint32_t reduced_ssthresh(Congestion& cc, uint32_t flight_size_bytes) {
  // RFC 5681 3.1, 3.2: FlightSize, without segments that Limited Transmit sent beyond the window.
  const uint32_t in_flight_bytes = std::min(flight_size_bytes, cc.cwnd_bytes);
  switch (cc.algorithm) {
    case CongestionAlgorithm::kNewReno:
    case CongestionAlgorithm::kDctcp:  // RFC 8257 3.4: halved on a loss
      return newreno::ssthresh_bytes(cc, in_flight_bytes);
    case CongestionAlgorithm::kCubic:
      return cubic::ssthresh_bytes(cc);
  }
  return 2 * cc.mss_bytes;
}

/// RFC 2861 3: three quarters of a window that was validated, to which slow start may return.
void remember_in_ssthresh(Congestion& cc) {
  if (cc.ssthresh_bytes == kSsthreshUnset) return;
  cc.ssthresh_bytes = std::max(cc.ssthresh_bytes, cc.cwnd_bytes - cc.cwnd_bytes / 4);
}

/// A new CUBIC epoch starts when the window grows the next time.
void end_epoch(Congestion& cc) {
  if (CubicState* cubic = cc.cubic()) cubic->epoch_start = kNever;
}

}  // namespace

uint32_t initial_window_bytes(uint32_t mss_bytes) {
  return std::min(10 * mss_bytes, std::max(2 * mss_bytes, 14600u));
}

void congestion_start(Congestion& cc, CongestionAlgorithm algorithm, uint32_t mss_bytes) {
  cc = Congestion{};
  cc.algorithm = algorithm;
  cc.mss_bytes = mss_bytes;
  cc.cwnd_bytes = initial_window_bytes(mss_bytes);
  if (algorithm == CongestionAlgorithm::kCubic) cc.own = CubicState{};
  if (algorithm == CongestionAlgorithm::kDctcp) cc.own = DctcpState{};
}

void congestion_set_mss(Congestion& cc, uint32_t mss_bytes) {
  if (cc.mss_bytes != mss_bytes) end_epoch(cc);  // RFC 9438 figure 2: K is of the old size
  cc.mss_bytes = mss_bytes;
}

void congestion_start_data(Congestion& cc, SeqNum nxt) {
  if (DctcpState* dctcp = cc.dctcp()) dctcp->window_end = nxt;
  cc.hystart.round_end = nxt;
}

void congestion_on_ack(Congestion& cc, const CongestionAck& ack, Nanos now) {
  if (!ack.is_cwnd_limited) {
    end_epoch(cc);  // RFC 9438 5.8: periods in which the application limits the window do not count
    // HyStart++ does not see these ACKs: a round that is over must stay so for more than 2 GiB.
    if (ack.una.after(cc.hystart.round_end)) cc.hystart.round_end = ack.una - 1;
    return;
  }
  uint32_t delivered = ack.delivered_bytes;
  if (cc.is_slow_start()) {
    const uint32_t growth = hystart::growth_bytes(cc, ack);
    const uint32_t room = std::max(cc.ssthresh_bytes, cc.cwnd_bytes) - cc.cwnd_bytes;
    const uint32_t step = std::min(growth, room);
    cc.cwnd_bytes = std::min(cc.cwnd_bytes + step, kCwndBytesMax);
    if (step == growth) return;
    delivered -= step;
  }
  switch (cc.algorithm) {
    case CongestionAlgorithm::kNewReno:
    case CongestionAlgorithm::kDctcp:
      newreno::grow(cc, delivered);
      break;
    case CongestionAlgorithm::kCubic:
      cubic::grow(cc, {.delivered_bytes = delivered, .is_cwnd_limited = true, .srtt = ack.srtt},
                  now);
      break;
  }
}

void congestion_on_loss(Congestion& cc, uint32_t in_flight_bytes) {
  cc.ssthresh_bytes = reduced_ssthresh(cc, in_flight_bytes);
  cc.credit_bytes = 0;
}

void congestion_note_ecn(Congestion& cc, const EcnAck& ack) {
  if (cc.algorithm == CongestionAlgorithm::kDctcp) dctcp::note_ack(cc, ack);
}

void congestion_on_ecn(Congestion& cc, uint32_t in_flight_bytes) {
  const bool is_dctcp = cc.algorithm == CongestionAlgorithm::kDctcp;
  cc.ssthresh_bytes = is_dctcp ? dctcp::ssthresh_bytes(cc) : reduced_ssthresh(cc, in_flight_bytes);
  cc.credit_bytes = 0;
}

void congestion_on_timeout(Congestion& cc, uint32_t in_flight_bytes, bool is_first) {
  // RFC 5681 3.1: ssthresh is unchanged when the same segment times out again.
  if (is_first) cc.ssthresh_bytes = reduced_ssthresh(cc, in_flight_bytes);
  cc.cwnd_bytes = cc.mss_bytes;
  cc.credit_bytes = 0;
  // RFC 9438 4.8: the first epoch after a timeout starts with w_max at the current window.
  if (CubicState* cubic = cc.cubic()) cubic->w_max = 0;
  end_epoch(cc);
}

void congestion_on_idle(Congestion& cc, Nanos idle, Nanos rto) {
  // RFC 2861 3: halved for each RTO, down to the restart window of RFC 5681; ssthresh keeps the
  // history.
  const uint32_t least = std::min(cc.cwnd_bytes, initial_window_bytes(cc.mss_bytes));
  remember_in_ssthresh(cc);
  for (Nanos left = idle - rto; left > nanos(0) && cc.cwnd_bytes > least; left = left - rto) {
    cc.cwnd_bytes = std::max(cc.cwnd_bytes / 2, least);
  }
  end_epoch(cc);
}

void congestion_on_unused(Congestion& cc, uint32_t used_bytes) {
  const uint32_t used = std::max(used_bytes, initial_window_bytes(cc.mss_bytes));
  if (used >= cc.cwnd_bytes) return;
  remember_in_ssthresh(cc);
  cc.cwnd_bytes = (cc.cwnd_bytes + used) / 2;
}

CongestionMemory congestion_remember(const Congestion& cc) {
  CongestionMemory memory{.cwnd_bytes = cc.cwnd_bytes, .ssthresh_bytes = cc.ssthresh_bytes};
  if (const CubicState* cubic = cc.cubic()) memory.cubic = *cubic;
  return memory;
}

void congestion_undo(Congestion& cc, const CongestionMemory& memory) {
  cc.cwnd_bytes = std::max(cc.cwnd_bytes, memory.cwnd_bytes);
  cc.ssthresh_bytes = std::max(cc.ssthresh_bytes, memory.ssthresh_bytes);
  if (CubicState* cubic = cc.cubic()) *cubic = memory.cubic;
}

bool congestion_is_sound(const Congestion& cc) {
  return cc.cwnd_bytes >= 1 && cc.cwnd_bytes <= kCwndBytesMax + UINT16_MAX &&
         cc.ssthresh_bytes >= 1 && cc.credit_bytes >= 0 &&
         (cc.algorithm != CongestionAlgorithm::kDctcp || dctcp::is_sound(cc));
}

}  // namespace lyre::tcp
