#include "stack/tcp/ecn.h"

#include <algorithm>

#include "stack/tcp/state_table.h"

namespace lyre::tcp {

namespace {

using wire::TcpFlags;

/// A sender that reduced its window may have one segment in flight, so the ACK must not be delayed.
constexpr uint8_t kQuickAcksAfterMark = 2;

bool has_both(wire::TcpFlags flags) {
  return flags.has(TcpFlags::kEce) && flags.has(TcpFlags::kCwr);
}

bool wants_marks(const ConnectionConfig& config) {
  return traits_of(config.congestion).is_driven_by_marks;
}

/// What this side's first SYN asks for.
bool asks_for_ecn(const ConnectionConfig& config) {
  return config.ecn == EcnMode::kOn || wants_marks(config);
}

/// RFC 3168 6.1.1.1: a SYN without answer may have been dropped because of its ECN flags.
bool is_ecn_setup_syn(const Connection& c) {
  return asks_for_ecn(c.config) && !c.recovery.syn_retransmitted;
}

/// RFC 8257 3.2: stores the ACK for the text before the mark changed, because a delayed ACK may
/// cover text of one mark only. Marks change often in a burst: beyond the limit two ranges are
/// acknowledged as one.
void owe_ack_of_last_run(Connection& c) {
  if (c.rcv.unacked_bytes == 0) return;
  EcnState& ecn = c.ecn;
  if (ecn.run_ack_count == kRunAcksMax) {
    --ecn.run_ack_count;
    return;
  }
  ecn.run_acks[ecn.run_ack_count++] = c.rcv.nxt;
  c.rcv.unacked_bytes = 0;
}

/// RFC 8257 3.2.
void note_change_of_mark(Connection& c, bool is_marked, Effects& effects) {
  if (is_marked == c.ecn.last_was_marked) return;
  owe_ack_of_last_run(c);
  c.ecn.last_was_marked = is_marked;
  ack_at_once(c, effects);
}

bool echoes(const Connection& c) {
  return echoes_every_mark(c) ? c.ecn.last_was_marked : c.ecn.owes_echo;
}

}  // namespace

bool echoes_every_mark(const Connection& c) { return c.ecn.is_on && wants_marks(c.config); }

bool may_set_ect(const Connection& c) {
  const bool sent_plain_syn = c.is_active && c.recovery.syn_retransmitted;
  return c.ecn.is_on && !sent_plain_syn;
}

bool agrees_to_ecn(const ConnectionConfig& config, const SegmentIn& syn) {
  // Senders do not set ECT on a SYN, so a path that delivers a marked one is broken.
  const bool is_trusted = syn.ecn == wire::Ecn::kNotEct || wants_marks(config);
  const bool is_willing = config.ecn != EcnMode::kOff || wants_marks(config);
  return has_both(syn.flags) && is_trusted && is_willing;
}

void offer_ecn(const Connection& c, SegmentOut& out) {
  if (c.state == State::kSynReceived) {
    if (c.ecn.is_on) out.flags.set(TcpFlags::kEce);
  } else if (is_ecn_setup_syn(c)) {
    out.flags.set(TcpFlags::kEce | TcpFlags::kCwr);
  }
}

void accept_ecn_offer(Connection& c, const SegmentIn& syn) {
  // The first SYN asked, even if a plain one followed: see may_set_ect().
  if (c.state != State::kSynSent) {
    c.ecn.is_on = agrees_to_ecn(c.config, syn);
  } else if (syn.flags.has(TcpFlags::kAck)) {
    // Both flags in a SYN,ACK mean that the peer reflects reserved bits without implementing ECN.
    c.ecn.is_on =
        asks_for_ecn(c.config) && syn.flags.has(TcpFlags::kEce) && !syn.flags.has(TcpFlags::kCwr);
  } else {
    c.ecn.is_on = asks_for_ecn(c.config) && has_both(syn.flags);
  }
}

void reconsider_ecn_offer(Connection& c, const SegmentIn& syn) {
  // The first SYN,ACK may have been lost after it requested an echo: that state is cleared as well.
  if (!syn.flags.has(TcpFlags::kAck) && !has_both(syn.flags)) c.ecn = EcnState{};
}

void note_ecn_of_text(Connection& c, const SegmentIn& segment, Effects& effects) {
  EcnState& ecn = c.ecn;
  if (!ecn.is_on) return;
  const bool is_marked = segment.ecn == wire::Ecn::kCe;
  if (is_marked) ++c.ce_segments;
  if (echoes_every_mark(c)) return note_change_of_mark(c, is_marked, effects);
  if (segment.flags.has(TcpFlags::kCwr)) {  // RFC 3168 6.1.3
    ecn.owes_echo = false;
    ack_at_once(c, effects);
  }
  if (!is_marked) return;
  if (!ecn.owes_echo) c.rcv.quick_acks = std::max(c.rcv.quick_acks, kQuickAcksAfterMark);
  ecn.owes_echo = true;
}

void mark_departure(Connection& c, bool is_new_text, SegmentOut& out) {
  EcnState& ecn = c.ecn;
  if (!ecn.is_on || is_one_of(c.state, kOpening)) return;
  if (echoes(c)) out.flags.set(TcpFlags::kEce);
  // RFC 8257 3.5: queues that mark early drop packets early that are not ECT. ACKs and
  // retransmissions would be dropped first, so all packets are ECT, as in Linux.
  if (!may_set_ect(c)) return;
  if (is_new_text || echoes_every_mark(c)) out.ecn = wire::Ecn::kEct0;
  if (!is_new_text || !ecn.owes_cwr) return;
  out.flags.set(TcpFlags::kCwr);  // RFC 3168 6.1.2
  ecn.owes_cwr = false;
}

}  // namespace lyre::tcp
