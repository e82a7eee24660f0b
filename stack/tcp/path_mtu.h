#pragma once

#include <optional>

#include "stack/tcp/core.h"
#include "stack/tcp/info.h"

namespace lyre::tcp {

/// The largest segment that the path carries. ICMP reports it (RFC 1191, RFC 8201). Some
/// middleboxes drop ICMP, so a segment that is lost repeatedly is retried with a smaller size (RFC
/// 4821 7.7, RFC 8899 4.3). That the small one arrives does not tell a path that drops large ones
/// from one that was away for a moment, or a peer that was: so the full size is tried once more,
/// and the small one is kept only if the full one is lost twice in a row. A test without a result
/// ends after some time.
/// Where the small size is kept, the search for what lies between begins: one segment, the path
/// probe, has the next larger of the usual sizes, and what arrives is the new size (RFC 4821 7.3,
/// RFC 8899 5.3). A probe that is lost twice ends the search. After some time it begins again, with
/// one probe, also where ICMP told the size. A size that is smaller by no more than what options
/// take ends after that time: a probe could not be told from it.

/// The MSS that every path carries to `peer`; also the MSS of a peer that sends no option (RFC 9293
/// 3.7.1).
uint16_t mss_everywhere(const IpAddress& peer);

/// A router reported the path's MTU. REQUIRES: an error that quotes what is in flight, and claims
/// no less than every path carries. False: it is nothing new.
bool on_path_mtu(Core& core, Connection& c, SeqNum quoted, uint32_t mss_bytes, Nanos now);
/// Before the first text: an earlier connection learned this limit of the path at `since`.
void assume_path_mtu(Connection& c, uint16_t mss_bytes, Nanos since);
/// Called when the retransmission timer expires, before the segment is sent again.
void suspect_black_hole(Connection& c, Nanos now);
/// Called when `acked_bytes` of new data were acknowledged at once.
void recheck_path_mtu(Connection& c, uint32_t acked_bytes, Nanos now);

/// What ICMP, the test or the search of this connection has found, or of an earlier one
/// (assume_path_mtu()).
std::optional<BlackHole> black_hole_of(const Connection& c);
/// Whether the next segment of new data should be the path probe. If it is, call note_path_probe().
bool is_path_probe_due(const Connection& c, Nanos now);
/// Units: the MSS of the path probe, of which options take their part. REQUIRES:
/// is_path_probe_due().
uint16_t path_probe_mss(const Connection& c);
void note_path_probe(Connection& c, Nanos now);
/// What is sent again has the small size, and is no probe.
inline bool is_path_probe(const Connection& c, const SentRecord& record) {
  return record.segment_bytes > c.snd.mss_bytes && record.sent_at == c.snd.mss_reduced_at;
}
/// The peer has received the path probe: segments have its size.
void on_path_probe_arrived(Connection& c);

}  // namespace lyre::tcp
