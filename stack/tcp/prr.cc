#include "stack/tcp/prr.h"

#include <algorithm>

#include "stack/tcp/ecn.h"

namespace lyre::tcp {

namespace {

/// RFC 6937 3.1, pipe > ssthresh: sends ssthresh bytes for each RecoverFS bytes delivered.
uint32_t proportional_bytes(const Connection& c) {
  const RecoveryState& recovery = c.recovery;
  const uint64_t due = (uint64_t{recovery.prr_delivered_bytes} * c.cc.ssthresh_bytes +
                        recovery.recover_flight_bytes - 1) /
                       recovery.recover_flight_bytes;
  return due > recovery.prr_out_bytes ? static_cast<uint32_t>(due - recovery.prr_out_bytes) : 0;
}

/// RFC 6937 3.1, pipe <= ssthresh: sends as much as was delivered, and one segment more (slow
/// start) while the ACKs reveal no new loss, the later heuristic.
uint32_t catch_up_bytes(const Connection& c, uint32_t delivered_bytes, bool is_safe) {
  const RecoveryState& recovery = c.recovery;
  const uint32_t owed = recovery.prr_delivered_bytes > recovery.prr_out_bytes
                            ? recovery.prr_delivered_bytes - recovery.prr_out_bytes
                            : 0;
  const uint32_t limit = std::max(owed, delivered_bytes) + (is_safe ? c.snd.mss_bytes : 0u);
  return std::min(c.cc.ssthresh_bytes - c.in_flight_bytes(), limit);
}

}  // namespace

void begin_reduction(Connection& c, uint32_t pipe_bytes) {
  RecoveryState& recovery = c.recovery;
  recovery.prr_delivered_bytes = 0;
  recovery.prr_out_bytes = 0;
  recovery.recover_flight_bytes = std::max(pipe_bytes, 1u);
  c.ecn.owes_cwr = may_set_ect(c);
}

void reduce_proportionally(Connection& c, uint32_t delivered_bytes, bool is_safe) {
  RecoveryState& recovery = c.recovery;
  const uint32_t mss = c.snd.mss_bytes;
  const uint32_t pipe = c.in_flight_bytes();
  recovery.prr_delivered_bytes += delivered_bytes;
  uint32_t may_send = pipe > c.cc.ssthresh_bytes ? proportional_bytes(c)
                                                 : catch_up_bytes(c, delivered_bytes, is_safe);
  // One segment is sent at once: the retransmission, or the segment with the CWR.
  if (recovery.prr_out_bytes == 0) may_send = std::max(may_send, mss);
  c.cc.cwnd_bytes = std::max(pipe + may_send, mss);
}

bool follows_prr(const Connection& c) {
  return c.recovery.phase == RecoveryPhase::kFastRecovery ||
         c.recovery.phase == RecoveryPhase::kEcnReduction;
}

}  // namespace lyre::tcp
