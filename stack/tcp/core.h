#pragma once

#include "stack/base/rng.h"
#include "stack/base/siphash.h"
#include "stack/tcp/connection.h"

namespace lyre::tcp {

/// Before every moment that matters.
inline constexpr Nanos kLongAgo = nanos(INT64_MIN / 2);

/// Everything an engine owns. The files beside this one are its verbs; none keeps state elsewhere.
struct Core {
  EngineConfig config;
  SipKey isn_key;
  Nanos last_cookie_at = kLongAgo;  ///< no ACK is looked at for a cookie long after
  Rng rng;
  Slab<Connection> connections;
  Slab<SentRecord> records;
  Slab<ReceivedRun> runs;
  Slab<UndoState> undos;  ///< one a connection at most, so none is ever missing
};

/// Whether the steps of RFC 9293 3.10.7 go on after this one.
enum class Verdict : uint8_t { kGoOn, kDone };

/// The one door for state changes: checks kLegalNext.
void set_state(Connection& c, State to);

/// Ends the connection: every timer off, state CLOSED, the caller is told why.
void finish(Connection& c, EndReason reason, Effects& effects);
/// Asks poll_transmit() for a RST. RFC 9293 3.10.7.1: it carries ACK only when `with_ack`.
void queue_reset(Connection& c, SeqNum seq, bool with_ack, Effects& effects);
/// An ACK that leaves at the next poll_transmit().
void ack_at_once(Connection& c, Effects& effects);
/// The same as an answer to something suspicious: RFC 5961 7 limits how often.
void challenge_ack(Core& core, Connection& c, Nanos now, Effects& effects);

/// The clock of the timestamp option: 1 ms.
inline uint32_t timestamp_at(const Connection& c, Nanos at) {
  return c.snd.ts_offset + static_cast<uint32_t>(at.value / 1'000'000);
}
/// RFC 7323 3.2: the option of a segment that leaves, on a connection that has agreed to it.
void put_timestamps(const Connection& c, Nanos now, wire::TcpOptions& options);

}  // namespace lyre::tcp
