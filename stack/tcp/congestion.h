#pragma once

#include <cstdint>
#include <variant>

#include "stack/base/nanos.h"
#include "stack/base/seq_num.h"
#include "stack/tcp/config.h"

namespace lyre::tcp {

inline constexpr uint32_t kCwndBytesMax = 1u << 30;
inline constexpr uint32_t kSsthreshUnset = kCwndBytesMax;

/// CUBIC's state since its last reduction. Units: bytes, where RFC 9438 uses segments, because the
/// segment size may change with the path.
struct CubicState {
  double w_max = 0;       ///< window before the last reduction
  double cwnd_prior = 0;  ///< w_max before fast convergence reduced it
  double w_est = 0;       ///< the window that Reno would have (4.3)
  double k_seconds = 0;   ///< time to grow back to w_max
  Nanos epoch_start = kNever;
};

/// RFC 9406: leaves slow start when the RTT grows, before the queue overflows.
struct HystartState {
  SeqNum round_end;
  uint8_t sample_count = 0;
  uint8_t css_rounds_left = 0;  ///< of conservative slow start; 0: not in it
  Nanos last_round_rtt_min = kNever;
  Nanos round_rtt_min = kNever;
  Nanos css_baseline = kNever;
};

/// RFC 8257 3.3: the fraction of acknowledged bytes that were marked.
struct DctcpState {
  double alpha = 1;  ///< 4.2: initially a mark halves the window
  uint32_t acked_bytes = 0;
  uint32_t marked_bytes = 0;
  SeqNum window_end;
};

/// The congestion window of one connection. The algorithm is a value: a switch, no virtual call.
struct Congestion {
  uint32_t cwnd_bytes = 0;
  uint32_t ssthresh_bytes = kSsthreshUnset;
  uint32_t mss_bytes = 0;
  CongestionAlgorithm algorithm = CongestionAlgorithm::kCubic;
  double credit_bytes = 0;  ///< fractional growth, less than one byte or (NewReno) one MSS
  std::variant<std::monostate, CubicState, DctcpState> own;  ///< of the algorithm; NewReno: none
  HystartState hystart;

  /// Null unless CUBIC is the algorithm. The same holds for dctcp().
  CubicState* cubic() { return std::get_if<CubicState>(&own); }
  const CubicState* cubic() const { return std::get_if<CubicState>(&own); }
  DctcpState* dctcp() { return std::get_if<DctcpState>(&own); }
  const DctcpState* dctcp() const { return std::get_if<DctcpState>(&own); }

  bool is_slow_start() const { return cwnd_bytes < ssthresh_bytes; }
};

/// One ACK that moved snd.una while no reduction was in progress.
struct CongestionAck {
  uint32_t delivered_bytes = 0;  ///< without bytes that were counted when they were SACKed
  bool is_cwnd_limited = false;  ///< RFC 7661 4.3, RFC 9438 5.8: else the window may not grow
  Nanos srtt;
  Nanos rtt;  ///< this ACK's RTT sample; zero: none
  SeqNum una;
  SeqNum nxt;
};

/// The state before a reduction, to restore if the reduction was spurious.
struct CongestionMemory {
  uint32_t cwnd_bytes = 0;
  uint32_t ssthresh_bytes = 0;
  CubicState cubic;
};

/// One ACK of a connection with ECN, in any phase.
struct EcnAck {
  uint32_t acked_bytes = 0;
  bool has_echo = false;
  SeqNum ack;
  SeqNum nxt;  ///< SND.NXT
};

/// What an algorithm asks of the rest of TCP.
struct CongestionTraits {
  /// It works with marks: it requests ECN in every mode, both sides echo every mark (RFC 8257 3.2)
  /// instead of one a window, and every packet after the handshake is ECT (RFC 8257 3.5).
  bool is_driven_by_marks = false;
  /// RFC 3168 6.1.2 allows one reduction a window, for marks or a loss. RFC 8257 3.4: a loss after
  /// a mark reduces the window again.
  bool reduces_for_loss_after_mark = false;
  /// The algorithm instead of this one towards a peer without ECN.
  CongestionAlgorithm without_ecn = CongestionAlgorithm::kNewReno;
};

/// RFC 6928 2: ten segments, at most 14 600 bytes unless two segments are larger.
uint32_t initial_window_bytes(uint32_t mss_bytes);

void congestion_start(Congestion& cc, CongestionAlgorithm algorithm, uint32_t mss_bytes);
/// The path carries segments of another size. The window stays.
void congestion_set_mss(Congestion& cc, uint32_t mss_bytes);
/// Data transmission starts at `nxt`, which starts the first round of HyStart++ and DCTCP.
void congestion_start_data(Congestion& cc, SeqNum nxt);
/// Grows the window.
void congestion_on_ack(Congestion& cc, const CongestionAck& ack, Nanos now);
/// ACKs revealed a loss: sets ssthresh. PRR then reduces the window. `in_flight_bytes`, FlightSize,
/// limits what RFC 5681 halves; CUBIC does not use it.
void congestion_on_loss(Congestion& cc, uint32_t in_flight_bytes);
/// DCTCP's measurement; does nothing for the other algorithms.
void congestion_note_ecn(Congestion& cc, const EcnAck& ack);
/// RFC 3168 6.1.2: the peer echoed a mark. At most once a window; PRR then reduces the window.
void congestion_on_ecn(Congestion& cc, uint32_t in_flight_bytes);
/// The retransmission timer expired. `is_first`: for the first time for this segment.
void congestion_on_timeout(Congestion& cc, uint32_t in_flight_bytes, bool is_first);
/// RFC 5681 4.1, RFC 2861 3: nothing was sent for `idle`, which is longer than an RTO.
void congestion_on_idle(Congestion& cc, Nanos idle, Nanos rto);
/// RFC 2861 3: at most `used_bytes` were in flight during a whole RTO.
void congestion_on_unused(Congestion& cc, uint32_t used_bytes);
CongestionMemory congestion_remember(const Congestion& cc);
/// RFC 9438 4.9, RFC 4015 4: restores the state before the reduction.
void congestion_undo(Congestion& cc, const CongestionMemory& memory);
/// Whether the values are possible ones (simulator, fuzzers).
bool congestion_is_sound(const Congestion& cc);

/// The parts of the algorithms. Only the functions above call them.
namespace newreno {
inline constexpr CongestionTraits kTraits{};
void grow(Congestion& cc, uint32_t delivered_bytes);
uint32_t ssthresh_bytes(const Congestion& cc, uint32_t in_flight_bytes);
}  // namespace newreno
namespace cubic {
inline constexpr CongestionTraits kTraits{.without_ecn = CongestionAlgorithm::kCubic};
void grow(Congestion& cc, const CongestionAck& ack, Nanos now);
uint32_t ssthresh_bytes(Congestion& cc);
}  // namespace cubic
namespace hystart {
/// The growth in slow start for this ACK. It may end slow start by setting ssthresh.
uint32_t growth_bytes(Congestion& cc, const CongestionAck& ack);
}  // namespace hystart
namespace dctcp {
inline constexpr CongestionTraits kTraits{.is_driven_by_marks = true,
                                          .reduces_for_loss_after_mark = true};
void note_ack(Congestion& cc, const EcnAck& ack);
uint32_t ssthresh_bytes(const Congestion& cc);
bool is_sound(const Congestion& cc);
}  // namespace dctcp

constexpr const CongestionTraits& traits_of(CongestionAlgorithm algorithm) {
  switch (algorithm) {
    case CongestionAlgorithm::kNewReno:
      break;
    case CongestionAlgorithm::kCubic:
      return cubic::kTraits;
    case CongestionAlgorithm::kDctcp:
      return dctcp::kTraits;
  }
  return newreno::kTraits;
}

}  // namespace lyre::tcp
