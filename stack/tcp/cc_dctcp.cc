#include <algorithm>

#include "stack/tcp/congestion.h"

namespace lyre::tcp::dctcp {

namespace {

constexpr double kGain = 1.0 / 16;  // RFC 8257 4.2

}  // namespace

void note_ack(Congestion& cc, const EcnAck& ack) {
  DctcpState& dctcp = *cc.dctcp();
  dctcp.acked_bytes += ack.acked_bytes;
  if (ack.has_echo) dctcp.marked_bytes += ack.acked_bytes;
  if (!ack.ack.after(dctcp.window_end)) return;
  // RFC 8257 3.3: updated once per window of data.
  if (dctcp.acked_bytes > 0) {
    const double fraction = static_cast<double>(dctcp.marked_bytes) / dctcp.acked_bytes;
    dctcp.alpha = dctcp.alpha * (1 - kGain) + kGain * fraction;
  }
  dctcp.acked_bytes = dctcp.marked_bytes = 0;
  dctcp.window_end = ack.nxt;
}

uint32_t ssthresh_bytes(const Congestion& cc) {
  const double cwnd = cc.cwnd_bytes * (1 - cc.dctcp()->alpha / 2);
  return std::max(static_cast<uint32_t>(cwnd), 2 * cc.mss_bytes);
}

bool is_sound(const Congestion& cc) { return cc.dctcp()->alpha >= 0 && cc.dctcp()->alpha <= 1; }

}  // namespace lyre::tcp::dctcp
