#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "stack/base/ip_address.h"
#include "stack/channel/abi.h"
#include "stack/ip/route_table.h"
#include "stack/session/session.h"
#include "stack/tcp/engine.h"
#include "stack/worker/packet_output.h"
#include "stack/worker/port_holds.h"
#include "stack/worker/received_payload.h"
#include "stack/worker/session_trace.h"
#include "stack/worker/worker_state.h"

namespace lyre::worker {

/// Sessions from their open to the release of their place: what the engine's effects, clients and
/// timers change.
/// A call with a conn may release it; engine.is_open() tells.
/// Thread: the worker.
class SessionLifecycle {
 public:
  struct Parts {
    ReceivedPayload& payload;
    PacketOutput& output;
    PortHolds& holds;
  };
  SessionLifecycle(WorkerState& state, const Parts& parts)
      : state_(state),
        payload_(parts.payload),
        output_(parts.output),
        holds_(parts.holds),
        trace_(state) {}

  tcp::ConnectionConfig connection_config(const ip::RouteResult& route) const;
  /// Opens a session for a client. On kOk `conn` is its index. Empty: the ring to the home of the
  /// 4-tuple has no room for the claim now; nothing is changed, and a later turn may ask again.
  std::optional<channel::EndStatus> open(uint32_t context, const Endpoint& local,
                                         const Endpoint& remote, uint64_t cookie, uint32_t& conn);
  /// The home of the 4-tuple says that another worker has it: an open of it here fails.
  void refuse_open(const FourTuple& tuple);
  /// An open that the peer has not answered fails. Its 4-tuple is free at once, unless the client's
  /// ring has no room to tell why. REQUIRES: SYN-SENT, and a client.
  void fail_open(uint32_t conn, channel::EndStatus status);
  /// RFC 6056 3.3.2: a random port of those that are this worker's and free towards `remote`. If
  /// one is found soon, packets that come back to it through `through` are received here: clients
  /// spread their sessions over the workers, and so NICs spread them over their queues. With
  /// `through`, a port that can be claimed now comes first. Empty: all that were tried are used.
  std::optional<uint16_t> choose_port(const IpAddress& local, const Endpoint& remote,
                                      const Port* through = nullptr);
  /// The new connection becomes a session, without a client yet.
  void bind(uint32_t conn, const FourTuple& tuple, const ip::RouteResult& route,
            ConnectionRouter::Claim claim = ConnectionRouter::Claim::kHeld);

  /// True when every place for a connection is taken.
  bool is_full() const;
  /// True when make_room() could give a place.
  bool can_make_room() const;
  /// When every place is taken, the oldest TIME-WAIT ends early: what it guards against is rare,
  /// and timestamps and random sequence numbers guard the next connection as well. Without one, the
  /// oldest session that closes without a client is reset: the peer has acknowledged all of its
  /// bytes, and a client could take every place by such sessions otherwise. Without one of these,
  /// an old handshake that a peer began is dropped.
  void make_room();
  /// RFC 4987 3.4: forgets a handshake that a peer began, if there is one: HalfOpenQueue.
  void cut_half_open(uint32_t for_listener);
  /// Ends a connection in TIME-WAIT or SYN-RECEIVED. Neither the peer nor a client is told.
  void end_silently(uint32_t conn);

  /// Carries out what one call of the engine changed. It calls the engine again itself, with
  /// effects of their own.
  void apply(uint32_t conn, const tcp::Effects& effects);
  /// The session was opened by another worker or daemon: its trace begins anew.
  void begin_trace(uint32_t conn) { trace_.open(conn); }
  /// Records what the engine reports. After a timeout the session's port is waited for: if it frees
  /// nothing, it does not send. After several timeouts in a row the MAC of its next hop is doubted.
  void note_changes(uint32_t conn);
  size_t run_timers();

  void close_by_client(uint32_t conn);
  void abort(uint32_t conn, channel::EndStatus status);
  /// The client loses what it has not been told of the stream, and the end of the stream with it: a
  /// part of the bytes must not look like all of them. REQUIRES: abort().
  void lose_unread(uint32_t conn);
  /// The client of the session is gone. Bytes of its memory that are not acknowledged keep the
  /// session with the context: see leave_if_finished().
  void leave(uint32_t conn, bool resets);
  /// The session finishes without its client when it needs none of the client's memory any more.
  /// False: it does.
  bool leave_if_finished(uint32_t conn);
  /// The session has no client any more, and ends by itself.
  void forget_context(uint32_t conn);
  void leave_listener(uint32_t conn);
  /// Generations are used once: those of another process were used, too.
  uint32_t generations() const { return generations_; }
  void restore_generations(uint32_t used) { generations_ = used; }
  /// Gives the connection's place back once TCP is done with it and the client knows everything.
  void release_if_done(uint32_t conn);

 private:
  bool is_in_use(const FourTuple& tuple) const;
  void queue_orphan(uint32_t conn);
  void on_acked(uint32_t conn, uint32_t bytes);
  void count_finished(const session::Session& sender, uint32_t count);
  void drop_sends(session::Session& sender);
  void release_superseded(uint32_t conn);
  void send_final_reset(uint32_t conn);
  void on_established(uint32_t conn);
  void end_in_time_wait(uint32_t conn);
  void end(uint32_t conn, tcp::EndReason reason);
  void leave_handshake(uint32_t conn);
  void note_arrival(uint32_t conn, const tcp::Effects& effects);
  void doubt_neighbour(uint32_t conn);

  WorkerState& state_;
  ReceivedPayload& payload_;
  PacketOutput& output_;
  PortHolds& holds_;
  SessionTrace trace_;
  uint32_t generations_ = 0;
};

}  // namespace lyre::worker
