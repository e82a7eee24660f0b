#pragma once

#include "stack/tcp/core.h"

namespace lyre::tcp {

/// The largest segment that the path carries. ICMP tells it (RFC 1191, RFC 8201), where no box
/// swallows that; so a segment that is lost again and again is tried smaller (RFC 4821 7.7, RFC
/// 8899 4.3), and what was made smaller is tried larger after a while.

/// What every path carries to `peer`; and what a peer takes that does not say (RFC 9293 3.7.1).
uint16_t mss_everywhere(const IpAddress& peer);

/// A router said what fits.
void on_path_mtu(Core& core, Connection& c, uint16_t mss_bytes, Nanos now);
/// The retransmission timer expires: before the segment leaves again.
void suspect_black_hole(Connection& c, Nanos now);
/// Something new was acknowledged.
void recheck_path_mtu(Connection& c, Nanos now);

}  // namespace lyre::tcp
