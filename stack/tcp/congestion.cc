#include "stack/tcp/congestion.h"

#include <algorithm>

namespace lyre::tcp {

namespace {

uint32_t reduced_ssthresh(Congestion& cc, uint32_t in_flight_bytes) {
  switch (cc.algorithm) {
    case CongestionAlgorithm::kNewReno:
    case CongestionAlgorithm::kDctcp:  // RFC 8257 3.4: a loss halves
      return newreno::ssthresh_bytes(cc, in_flight_bytes);
    case CongestionAlgorithm::kCubic:
      return cubic::ssthresh_bytes(cc, in_flight_bytes);
  }
  return 2 * cc.mss_bytes;
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
}

void congestion_on_ack(Congestion& cc, const CongestionAck& ack, Nanos now) {
  if (!ack.is_cwnd_limited) {
    cc.cubic.epoch_start = kNever;  // RFC 9438 5.8: time without demand does not count
    return;
  }
  uint32_t acked = ack.acked_bytes;
  if (cc.is_slow_start()) {
    const uint32_t step = std::min(acked, cc.ssthresh_bytes - cc.cwnd_bytes);
    cc.cwnd_bytes = std::min(cc.cwnd_bytes + step, kCwndBytesMax);
    acked -= step;
    if (acked == 0) return;
  }
  switch (cc.algorithm) {
    case CongestionAlgorithm::kNewReno:
    case CongestionAlgorithm::kDctcp:
      newreno::grow(cc, acked);
      break;
    case CongestionAlgorithm::kCubic:
      cubic::grow(cc, {.acked_bytes = acked, .is_cwnd_limited = true, .srtt = ack.srtt}, now);
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
  // RFC 5681 3.1: ssthresh stays when the same segment times out again.
  if (is_first) cc.ssthresh_bytes = reduced_ssthresh(cc, in_flight_bytes);
  cc.cwnd_bytes = cc.mss_bytes;
  cc.credit_bytes = 0;
  cc.cubic.epoch_start = kNever;
}

void congestion_on_idle(Congestion& cc) {
  cc.cwnd_bytes = std::min(cc.cwnd_bytes, initial_window_bytes(cc.mss_bytes));
  cc.cubic.epoch_start = kNever;
}

}  // namespace lyre::tcp
