#pragma once

#include "stack/tcp/scoreboard.h"

namespace lyre::tcp {

/// The effect of one acceptable ACK, as input to loss detection.
struct AckOutcome {
  uint32_t acked_bytes = 0;  ///< snd.una moved by this much
  bool is_repeated = false;  ///< the same ACK, window and data as the one before
  bool had_outstanding = false;
  uint32_t pipe_before_bytes = 0;         ///< in flight, by RFC 6675
  uint32_t flight_size_before_bytes = 0;  ///< FlightSize of RFC 5681
  SeqNum ack;
  bool has_echo = false;  ///< RFC 3168: ECE, on a connection with ECN

  /// RFC 5681 2, "duplicate acknowledgment": a segment arrived out of order.
  bool is_duplicate() const { return is_repeated && had_outstanding; }
};

/// RFC 8985 with SACK, RFC 6582 without: finds losses, enters and leaves recovery, and moves cwnd
/// (PRR in fast recovery, the congestion control's growth outside it).
void react_to_ack(Core& core, Connection& c, AckSample& sample, const AckOutcome& outcome,
                  Nanos now);
/// RFC 8985 6.2 step 5, the reordering timer has run out.
void on_reorder_timer(Core& core, Connection& c, Nanos now);
/// RFC 6298 5.4 - 5.6 and RFC 5681 3.1: the retransmission timer has run out.
void on_timeout(Core& core, Connection& c, Nanos now);

}  // namespace lyre::tcp
