#pragma once

#include <array>
#include <cstdint>

#include "stack/base/drop_reasons.h"
#include "stack/worker/worker_state.h"

namespace lyre::worker {

/// What a trace records of a change of the connection.
channel::TraceEvent event_of(tcp::Change change, const tcp::ConnectionInfo& info, int64_t unix_us);

/// Records what happens to sessions in the rings of the stats segment. Counts sessions that end
/// badly, and keeps them with the events of their ring: with none where there are more sessions
/// than rings. A segment that only carries data records nothing.
/// Thread: the worker.
class SessionTrace {
 public:
  explicit SessionTrace(WorkerState& state) : state_(state) {}

  /// A new connection. Forgets the one that had its place before.
  void open(uint32_t conn);
  /// Records what the engine reports, and returns it. REQUIRES: the connection is open in the
  /// engine.
  tcp::Changes note_changes(uint32_t conn);
  void note_drop(uint32_t conn, Drop reason);
  /// The session is over for its end_status.
  void end(uint32_t conn);

 private:
  /// Attempts to connect have places of their own: a client that dials again and again does not
  /// push out what happened to connections.
  enum class Ended : uint8_t { kConnection, kAttempt };

  bool has_ring(uint32_t conn) const { return conn < state_.stats.traces.size(); }
  void push(uint32_t conn, channel::TraceKind kind, uint32_t first, uint32_t second);
  int64_t unix_us() const;
  int64_t opened_unix_ns(uint32_t conn) const;
  void keep(uint32_t conn);
  channel::EndedRow& next_row(Ended ended);

  WorkerState& state_;
  std::array<uint32_t, 2> kept_{};  ///< of each, so far
};

}  // namespace lyre::worker
