#pragma once

#include <cstdint>

#include "stack/base/nanos.h"
#include "stack/base/seq_num.h"
#include "stack/tcp/config.h"
#include "stack/tcp/state.h"

namespace lyre::tcp {

/// What a connection waits for with a timer.
enum class Waiting : uint8_t {
  kNothing,
  kAcknowledgement,  ///< retransmission timeout (RFC 6298)
  kTailProbe,        ///< RFC 8985 7.2
  kWindow,           ///< the next window probe (RFC 9293 3.8.6.1)
  kEnd,              ///< TIME-WAIT, FIN-WAIT-2 without a reader; or the next keep-alive
};

/// A path that carries packets of `mtu_bytes`, and drops those of the next larger size that was
/// tried. Often it reports nothing (RFC 2923 2.1).
struct BlackHole {
  uint32_t mtu_bytes = 0;
  Nanos since;  ///< when it was found, or tested last
};

/// The observable state of a connection: a copy, like Linux's tcp_info.
struct ConnectionInfo {
  State state = State::kClosed;
  CongestionAlgorithm congestion = CongestionAlgorithm::kCubic;
  bool has_ecn = false;         ///< both sides agreed: this one sets ECT
  bool has_timestamps = false;  ///< as has_sack and has_scaling
  bool has_sack = false;
  bool has_scaling = false;
  Waiting waiting = Waiting::kNothing;
  SeqNum send_next;             ///< SND.NXT
  uint8_t backoffs = 0;         ///< doublings of the timeout or of the time between window probes
  uint32_t mss_bytes = 0;       ///< before options; less if the path carries less
  uint32_t mss_full_bytes = 0;  ///< that both ends can receive; 0: the peer has not answered
  uint32_t cwnd_bytes = 0;
  uint32_t ssthresh_bytes = 0;
  uint32_t in_flight_bytes = 0;
  uint32_t send_window_bytes = 0;      ///< the peer's, scaled
  uint32_t send_window_bytes_max = 0;  ///< the maximum so far
  uint32_t receive_window_bytes = 0;   ///< ours, as last advertised
  uint32_t send_queue_bytes = 0;       ///< unacknowledged and unsent
  uint32_t unsent_bytes = 0;           ///< of them, those that have never been sent
  uint32_t receive_charged_bytes = 0;
  Nanos srtt;
  Nanos rtt_var;
  Nanos rtt_min;
  Nanos rto;
  uint64_t bytes_sent = 0;  ///< payload, first transmissions only
  uint64_t bytes_retransmitted = 0;
  uint64_t bytes_acked = 0;
  uint64_t bytes_received = 0;  ///< payload, in order
  uint64_t segments_sent = 0;
  uint64_t segments_received = 0;
  uint32_t timeouts = 0;
  uint32_t fast_recoveries = 0;
  uint32_t out_of_order_segments = 0;
  uint32_t duplicate_segments = 0;
  uint32_t ce_segments = 0;        ///< arrived with a congestion mark
  uint32_t undone_reductions = 0;  ///< spurious reductions that were reverted
  uint32_t ecn_reductions = 0;     ///< window reductions because of ECN echoes
  Nanos waiting_until = kNever;
  Nanos last_sent_at;   ///< a segment with payload
  Nanos last_heard_at;  ///< a valid segment
};

}  // namespace lyre::tcp
