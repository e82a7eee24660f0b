#pragma once

#include "stack/tcp/core.h"

namespace lyre::tcp {

/// The largest segment that the path carries. ICMP reports it (RFC 1191, RFC 8201). Some
/// middleboxes drop ICMP, so a segment that is lost repeatedly is retried with a smaller size (RFC
/// 4821 7.7, RFC 8899 4.3). That the small one arrives does not tell a path that drops large ones
/// from one that was away for a moment, or a peer that was: so the full size is tried once more,
/// and the small one is kept only if the full one is lost twice in a row. After some time a larger
/// size is tried again, and a test without a result ends.

/// The MSS that every path carries to `peer`; also the MSS of a peer that sends no option (RFC 9293
/// 3.7.1).
uint16_t mss_everywhere(const IpAddress& peer);

/// A router reported the path's MTU.
void on_path_mtu(Core& core, Connection& c, uint16_t mss_bytes, Nanos now);
/// Before the first text: an earlier connection learned this limit of the path at `since`.
void assume_path_mtu(Connection& c, uint16_t mss_bytes, Nanos since);
/// Called when the retransmission timer expires, before the segment is sent again.
void suspect_black_hole(Connection& c, Nanos now);
/// Called when `acked_bytes` of new data were acknowledged at once.
void recheck_path_mtu(Connection& c, uint32_t acked_bytes, Nanos now);

}  // namespace lyre::tcp
