#pragma once

#include "stack/base/rng.h"
#include "stack/base/siphash.h"
#include "stack/tcp/connection.h"
#include "stack/tcp/receive_queue.h"

namespace lyre::tcp {

/// Earlier than every time that occurs.
inline constexpr Nanos kLongAgo = nanos(INT64_MIN / 2);

/// RFC 5961 7: a connection sends about this many challenge ACKs in kChallengePeriod. The exact
/// limit is random, so that an attacker cannot infer it by counting.
inline constexpr uint8_t kChallengeAcksMin = 8;
inline constexpr uint8_t kChallengeAcksSpread = 5;
inline constexpr Nanos kChallengePeriod = seconds(1);
/// So many window probes and keep-alives are answered in kChallengePeriod besides the challenge
/// ACKs. Without a limit two hosts whose numbers differ by one would answer each other for ever.
inline constexpr uint8_t kProbeAnswersMax = 8;

/// All state of an engine. The functions of the other files work on it and keep no state elsewhere.
struct Core {
  EngineConfig config;
  SipKey isn_key;
  Nanos last_cookie_at = kLongAgo;  ///< cookies are checked only for some time after this
  Nanos paused_since = kLongAgo;    ///< the last time before this host stood still at once
  Rng rng;
  Slab<Connection> connections;
  Slab<SentRecord> records;
  Slab<ReceivedRun> runs;
  Slab<UndoState> undos;  ///< at most one a connection, so the slab never runs out
};

/// The runs behind the first gap of `c`.
inline RunIndex run_index(Core& core, Connection& c) {
  return {core.runs, c.rcv.gap_root, core.isn_key.k1};
}
inline ReceiveQueue queue_of(Core& core, Connection& c) {
  return {core.runs, c.rcv, core.isn_key.k1};
}

/// Whether the steps of RFC 9293 3.10.7 continue after this one.
enum class Verdict : uint8_t { kGoOn, kDone };

/// The only function that changes the state. It checks kLegalNext.
void set_state(Connection& c, State to);

/// Ends the connection: all timers are disarmed, the state is CLOSED, the caller gets the reason.
void finish(Connection& c, EndReason reason, Effects& effects);
/// Requests a RST from poll_transmit(). RFC 9293 3.10.7.1: it has an ACK only when `with_ack`.
void queue_reset(Connection& c, SeqNum seq, bool with_ack, Effects& effects);
/// Requests an ACK from the next poll_transmit().
void ack_at_once(Connection& c, Effects& effects);
/// A challenge ACK. RFC 5961 7 limits its rate.
void challenge_ack(Core& core, Connection& c, Nanos now, Effects& effects);
/// RFC 9293 3.8.4 and 3.8.6.1: the answer to a window probe, a keep-alive or a repeated FIN. Hosts
/// that do not know RCV.NXT can use up the challenge ACKs but not these.
void answer_probe(Core& core, Connection& c, Nanos now, Effects& effects);

inline constexpr uint32_t kTimestampOptionBytes = 12;  ///< with two NOPs before it
inline constexpr Nanos kTimestampTick = millis(1);
/// The clock of the timestamp option. Units: kTimestampTick.
inline uint32_t timestamp_at(const Connection& c, Nanos at) {
  return c.snd.ts_offset + static_cast<uint32_t>(at.value / kTimestampTick.value);
}
/// Whether this host stood still after it sent a segment: the time until the ACK is then no RTT. A
/// time of sending that is taken from an echo may be a tick late. A pause is longer.
inline bool was_before_pause(const Core& core, Nanos sent_at) {
  return sent_at <= core.paused_since + kTimestampTick;
}
/// RFC 7323 3.2: writes the option into an outgoing segment, if the connection uses timestamps.
void put_timestamps(const Connection& c, Nanos now, wire::TcpOptions& options);

}  // namespace lyre::tcp
