#include "stack/tcp/path_mtu.h"

#include <algorithm>

#include "stack/base/path_mtus.h"
#include "stack/tcp/scoreboard.h"
#include "stack/tcp/send.h"
#include "stack/tcp/state_table.h"
#include "stack/tcp/undo.h"
#include "stack/wire/ipv6.h"

namespace lyre::tcp {

namespace {

/// Every third loss of the same segment tests a smaller size. The two losses before may well be
/// ordinary ones. If the small segment is lost too, the next retransmission is full-sized again.
constexpr uint8_t kLossesPerTest = 3;
/// RFC 1191 6.3, RFC 8201 4: after this time a larger size is tried again.
constexpr Nanos kReducedLife = seconds(600);

/// RFC 6928 2: the number of segments that may be sent at once into an unknown path.
constexpr uint32_t kSegmentsAtStart = 10;

/// RFC 1191 6.4: "too big" is not a sign of congestion, but no reason for a larger burst either.
/// The window allows as many small segments as it did large ones, and grows from there.
void keep_segments(Congestion& cc, uint16_t mss_bytes) {
  const uint32_t segments = std::max(cc.cwnd_bytes / cc.mss_bytes, kSegmentsAtStart);
  cc.cwnd_bytes = std::min(cc.cwnd_bytes, segments * mss_bytes);
}

void set_mss(Connection& c, uint16_t mss_bytes) {
  c.changes.add(Change::kPathMtu);
  c.snd.mss_bytes = mss_bytes;
  congestion_set_mss(c.cc, mss_bytes);
}

/// Payload of a segment that every path carries. RFC 9293 3.7.1: options reduce it as they do that
/// of larger ones.
uint32_t small_payload_bytes(const Connection& c) {
  return full_payload_bytes(c) - (c.snd.mss_bytes - mss_everywhere(c.tuple.remote.address));
}

/// Segments have their full size in the states that end here.
void end_test(SendState& snd) {
  snd.path_test = PathTest::kNone;
  snd.mss_reduced_at = kNever;
}

/// Options reduce a segment's payload by no more (RFC 9293 3.1).
constexpr uint32_t kOptionBytesMax = wire::kTcpHeaderBytesMax - wire::kTcpHeaderBytesMin;

/// Whether losses have yet to tell a path that drops large segments from an outage.
bool is_testing(PathTest test) {
  return test == PathTest::kSmall || test == PathTest::kFull || test == PathTest::kFullLost;
}

/// The path is known to carry less, and path probes find out whether it carries more now. A probe's
/// payload must be larger than the present size, whatever options it has: is_path_probe().
bool is_reduced(const Connection& c) {
  const SendState& snd = c.snd;
  return snd.mss_reduced_at != kNever && !is_testing(snd.path_test) &&
         snd.mss_bytes + kOptionBytesMax < snd.mss_full_bytes;
}

/// Counted from the reduction, or from the last probe.
Nanos probe_wait(const Connection& c) {
  if (c.snd.path_test == PathTest::kSearch) return nanos(0);
  return c.snd.path_test == PathTest::kSearchAgain ? c.rtt.rto * 2 : kReducedLife;
}

/// A router refuses the path probe, and carries what the others have. RFC 4821 7.6.2: the loss of a
/// probe is no sign of congestion. What it tells between the two sizes is not used: the search has
/// fixed steps.
bool is_probe_refused(Core& core, Connection& c, SeqNum quoted, uint32_t mss_bytes) {
  if (!is_reduced(c) || mss_bytes < c.snd.mss_bytes || mss_bytes >= path_probe_mss(c)) return false;
  Scoreboard board(core, c);
  const uint32_t index = board.find(quoted);
  if (index == kNoNode || board[index].place != SentRecord::Place::kInFlight) return false;
  if (!is_path_probe(c, board[index])) return false;
  board.mark_lost(index);
  c.snd.must_retransmit = true;
  c.snd.path_test = PathTest::kNone;
  return true;
}

/// An answer to a test. An ACK of more than the small segment is for large ones that had arrived,
/// or have now.
void conclude_test(Connection& c, uint32_t acked_bytes) {
  SendState& snd = c.snd;
  const uint32_t tested = full_payload_bytes(c);
  const bool was_small = snd.path_test == PathTest::kSmall;
  if (was_small) set_mss(c, snd.mss_full_bytes);
  if (was_small ? acked_bytes > tested : acked_bytes >= tested) return end_test(snd);
  snd.path_test = PathTest::kFull;  // also after kFullLost: the losses were not in a row
}

}  // namespace

uint16_t mss_everywhere(const IpAddress& peer) {
  const uint32_t mtu = peer.is_v4() ? kIpv4PathMtuMin : wire::kIpv6MtuBytesMin;
  return static_cast<uint16_t>(mtu - wire::ip_and_tcp_header_bytes(peer));
}

bool on_path_mtu(Core& core, Connection& c, SeqNum quoted, uint32_t mss_bytes, Nanos now) {
  if (is_probe_refused(core, c, quoted, mss_bytes)) return true;
  if (mss_bytes >= c.snd.mss_bytes) return false;
  const auto mss = static_cast<uint16_t>(mss_bytes);
  keep_segments(c.cc, mss);
  forget_reduction(core, c);  // its memory is of a window of larger segments
  set_mss(c, mss);
  c.snd.mss_reduced_at = now;
  c.snd.path_test = PathTest::kNone;
  Scoreboard(core, c).mark_all_lost();
  c.snd.must_retransmit = true;
  return true;
}

void assume_path_mtu(Connection& c, uint16_t mss_bytes, Nanos since) {
  // Before the peer's SYN has arrived, its MSS is not known: accept_syn() takes the smaller one.
  const bool is_first = c.state == State::kSynSent;
  if (mss_bytes >= (is_first ? c.config.mss_bytes : c.snd.mss_bytes)) return;
  keep_segments(c.cc, mss_bytes);
  set_mss(c, mss_bytes);
  c.snd.mss_reduced_at = since;
  // With this size the search of that connection began: it may have found a larger one since.
  if (mss_bytes == mss_everywhere(c.tuple.remote.address)) c.snd.path_test = PathTest::kSearch;
}

void suspect_black_hole(Connection& c, Nanos now) {
  SendState& snd = c.snd;
  // What a peer has no room for was not lost.
  if (is_one_of(c.state, kOpening) || c.is_window_withdrawn()) return;
  if (snd.path_test == PathTest::kSmall) {  // the small segment was lost as well
    end_test(snd);
    c.changes.add(Change::kPathMtu);
    snd.mss_bytes = snd.mss_full_bytes;  // cwnd counts small segments until one is acknowledged
    return;
  }
  const uint16_t everywhere = mss_everywhere(c.tuple.remote.address);
  const uint8_t losses = static_cast<uint8_t>(c.recovery.backoff + 1);
  const bool was_testing = is_testing(snd.path_test);
  if (was_testing && now - snd.mss_reduced_at >= kReducedLife) end_test(snd);
  if (!is_testing(snd.path_test) && losses % kLossesPerTest != 0) return;
  if (snd.mss_bytes <= everywhere || snd.nxt.since(snd.una) <= small_payload_bytes(c)) return;
  if (snd.path_test == PathTest::kFull) {  // maybe an ordinary loss
    snd.path_test = PathTest::kFullLost;
    return;
  }
  // Where the full size is known to be too large, the search needs no test before it.
  const bool is_confirmed = snd.path_test == PathTest::kFullLost || is_reduced(c);
  snd.path_test = is_confirmed ? PathTest::kSearch : PathTest::kSmall;
  snd.mss_reduced_at = now;
  set_mss(c, everywhere);
}

void recheck_path_mtu(Connection& c, uint32_t acked_bytes, Nanos now) {
  SendState& snd = c.snd;
  if (is_testing(snd.path_test)) return conclude_test(c, acked_bytes);
  if (is_reduced(c)) return;  // until a path probe arrives
  const bool is_barely_smaller = snd.mss_reduced_at != kNever;
  if (is_barely_smaller && now - snd.mss_reduced_at < kReducedLife) return;
  if (!is_barely_smaller && c.cc.mss_bytes == snd.mss_full_bytes) return;
  end_test(snd);
  set_mss(c, snd.mss_full_bytes);
}

std::optional<BlackHole> black_hole_of(const Connection& c) {
  if (!is_reduced(c)) return std::nullopt;
  const uint32_t headers = wire::ip_and_tcp_header_bytes(c.tuple.remote.address);
  return BlackHole{.mtu_bytes = c.snd.mss_bytes + headers, .since = c.snd.mss_reduced_at};
}

bool is_path_probe_due(const Connection& c, Nanos now) {
  // While lost data is repaired, the loss of a probe would look like one of the repair.
  return is_reduced(c) && !c.is_repairing() && now - c.snd.mss_reduced_at >= probe_wait(c);
}

uint16_t path_probe_mss(const Connection& c) {
  const SendState& snd = c.snd;
  const uint32_t headers = wire::ip_and_tcp_header_bytes(c.tuple.remote.address);
  for (const uint32_t mtu : kPathMtuSteps) {
    const uint32_t mss = mtu - headers;
    // No probe would tell a size so near below the full one from it.
    if (mss + kOptionBytesMax >= snd.mss_full_bytes) break;
    if (mss > snd.mss_bytes + kOptionBytesMax) return static_cast<uint16_t>(mss);
  }
  return snd.mss_full_bytes;
}

void note_path_probe(Connection& c, Nanos now) {
  SendState& snd = c.snd;
  snd.path_test = snd.path_test == PathTest::kSearch ? PathTest::kSearchAgain : PathTest::kNone;
  snd.mss_reduced_at = now;
}

void on_path_probe_arrived(Connection& c) {
  if (!is_reduced(c)) return;
  set_mss(c, path_probe_mss(c));
  if (c.snd.mss_bytes == c.snd.mss_full_bytes) return end_test(c.snd);
  c.snd.path_test = PathTest::kSearch;
}

}  // namespace lyre::tcp
