#include "stack/worker/session_trace.h"

#include <algorithm>
#include <iterator>

#include "stack/worker/session_view.h"

namespace lyre::worker {

namespace {

using channel::TraceKind;
using tcp::Change;
using tcp::ConnectionInfo;

/// What an event says about the connection.
struct Numbers {
  uint32_t first = 0;
  uint32_t second = 0;
};

uint32_t micros_of(Nanos time) {
  return static_cast<uint32_t>(std::clamp<int64_t>(time.value / 1000, 0, UINT32_MAX));
}

Numbers windows_of(const ConnectionInfo& info) {
  return {info.cwnd_bytes, shown_ssthresh_bytes(info)};
}
Numbers send_side_of(const ConnectionInfo& info) {
  return {info.send_queue_bytes, info.send_window_bytes};
}

/// In the order of tcp::Change.
struct Recorded {
  Change change;
  TraceKind kind;
  Numbers (*numbers)(const ConnectionInfo&);
};
constexpr Recorded kRecorded[] = {
    {Change::kTimeout, TraceKind::kTimeout,
     [](const ConnectionInfo& info) {
       return Numbers{micros_of(info.rto), info.timeouts};
     }},
    {Change::kFastRecovery, TraceKind::kFastRecovery, windows_of},
    {Change::kEcnReduction, TraceKind::kEcnReduction, windows_of},
    {Change::kUndone, TraceKind::kUndone, windows_of},
    {Change::kRecovered, TraceKind::kRecovered, windows_of},
    {Change::kTailProbe, TraceKind::kTailProbe,
     [](const ConnectionInfo& info) {
       return Numbers{info.in_flight_bytes, micros_of(info.srtt)};
     }},
    {Change::kRetransmitted, TraceKind::kRetransmitted,
     [](const ConnectionInfo& info) {
       return Numbers{channel::event_bytes(info.bytes_retransmitted), info.in_flight_bytes};
     }},
    {Change::kPathMtu, TraceKind::kPathMtu,
     [](const ConnectionInfo& info) {
       return Numbers{info.mss_bytes, info.cwnd_bytes};
     }},
    {Change::kSendWindowClosed, TraceKind::kSendWindowClosed, send_side_of},
    {Change::kWindowProbe, TraceKind::kWindowProbe, send_side_of},
    {Change::kSendWindowOpen, TraceKind::kSendWindowOpen, send_side_of},
    {Change::kReceiveWindowClosed, TraceKind::kReceiveWindowClosed,
     [](const ConnectionInfo& info) {
       return Numbers{info.receive_charged_bytes, 0};
     }},
    {Change::kReceiveWindowOpen, TraceKind::kReceiveWindowOpen,
     [](const ConnectionInfo& info) {
       return Numbers{info.receive_charged_bytes, info.receive_window_bytes};
     }},
    {Change::kKeepaliveProbe, TraceKind::kKeepaliveProbe,
     [](const ConnectionInfo&) { return Numbers{}; }},
    {Change::kResetSent, TraceKind::kResetSent, [](const ConnectionInfo&) { return Numbers{}; }},
    {Change::kState, TraceKind::kState,
     [](const ConnectionInfo& info) {
       const bool is_news = info.state == tcp::State::kEstablished;
       return Numbers{static_cast<uint32_t>(info.state), is_news ? info.mss_bytes : 0};
     }},
};
static_assert(std::size(kRecorded) == tcp::kChangeCount);

/// The client did not end it, nor did the daemon's stop.
bool is_bad(channel::EndStatus status) {
  using channel::EndStatus;
  return status != EndStatus::kOk && status != EndStatus::kAborted &&
         status != EndStatus::kShutdown;
}

/// Whether it was open. If not, it was an attempt to connect.
bool was_connected(const session::Session& ended) {
  return ended.is_passive || ended.was_announced || ended.must_announce_open;
}

/// The counter of connections that ended so. nullptr: a reset, which SessionLifecycle::end()
/// counts, or no end of a connection.
channel::StatCounter* counter_of(channel::WorkerStats& stats, channel::EndStatus status) {
  switch (status) {
    case channel::EndStatus::kTimedOut:
      return &stats.ended_timed_out;
    case channel::EndStatus::kIcmpError:
      return &stats.ended_icmp_error;
    case channel::EndStatus::kNoNeighbour:
      return &stats.ended_no_neighbour;
    case channel::EndStatus::kAddressLost:
      return &stats.ended_address_lost;
    case channel::EndStatus::kNoResources:
      return &stats.ended_no_resources;
    case channel::EndStatus::kDeregistered:
      return &stats.ended_deregistered;
    default:
      return nullptr;
  }
}

}  // namespace

channel::TraceEvent event_of(Change change, const ConnectionInfo& info, int64_t unix_us) {
  const Recorded& recorded = kRecorded[static_cast<size_t>(change)];
  const Numbers numbers = recorded.numbers(info);
  return {unix_us, recorded.kind, numbers.first, numbers.second};
}

int64_t SessionTrace::unix_us() const {
  return (state_.now.value + state_.config.unix_offset_ns) / 1000;
}

int64_t SessionTrace::opened_unix_ns(uint32_t conn) const {
  return state_.sessions[conn].opened_at.value + state_.config.unix_offset_ns;
}

void SessionTrace::push(uint32_t conn, TraceKind kind, uint32_t first, uint32_t second) {
  state_.stats.traces[conn].push({unix_us(), kind, first, second});
}

void SessionTrace::open(uint32_t conn) {
  if (!has_ring(conn)) return;
  state_.stats.traces[conn].begin(opened_unix_ns(conn));
  const bool is_passive = state_.engine.state(conn) != tcp::State::kSynSent;
  push(conn, TraceKind::kOpened, is_passive ? 1 : 0, state_.engine.info(conn).mss_full_bytes);
}

tcp::Changes SessionTrace::note_changes(uint32_t conn) {
  const tcp::Changes changes = state_.engine.take_changes(conn);
  if (!changes.any()) return changes;
  if (changes.has(Change::kTimeout)) state_.stats.worker->tcp_timeouts.add(1);
  if (!has_ring(conn)) return changes;
  const ConnectionInfo info = state_.engine.info(conn);
  for (const Recorded& recorded : kRecorded) {
    if (!changes.has(recorded.change)) continue;
    state_.stats.traces[conn].push(event_of(recorded.change, info, unix_us()));
  }
  return changes;
}

void SessionTrace::note_drop(uint32_t conn, Drop reason) {
  if (!has_ring(conn)) return;
  state_.stats.traces[conn].push_or_add(
      {unix_us(), TraceKind::kDropped, static_cast<uint32_t>(reason), 1});
}

void SessionTrace::end(uint32_t conn) {
  note_changes(conn);
  const session::Session& ended = state_.sessions[conn];
  if (has_ring(conn)) push(conn, TraceKind::kEnded, static_cast<uint32_t>(ended.end_status), 0);
  // An unauthenticated peer can start any number of handshakes.
  if (!is_bad(ended.end_status) || ended.context == session::kNoContext) return;
  channel::StatCounter* counter = counter_of(*state_.stats.worker, ended.end_status);
  if (counter != nullptr && was_connected(ended)) counter->add(1);
  keep(conn);
}

void SessionTrace::keep(uint32_t conn) {
  if (state_.stats.ended.empty()) return;
  const session::Session& ended = state_.sessions[conn];
  channel::EndedView view{};
  view.session = view_of(state_, conn);
  view.ended_unix_ns = state_.now.value + state_.config.unix_offset_ns;
  view.status = static_cast<uint8_t>(ended.end_status);
  if (has_ring(conn)) {
    view.event_count = state_.stats.traces[conn].read(opened_unix_ns(conn), view.events);
  }
  next_row(was_connected(ended) ? Ended::kConnection : Ended::kAttempt).write(&view);
}

/// The oldest row of its kind: attempts have the last quarter.
channel::EndedRow& SessionTrace::next_row(Ended ended) {
  const auto rows = state_.stats.ended;
  const auto for_attempts = static_cast<uint32_t>(rows.size() / 4);
  const auto for_connections = static_cast<uint32_t>(rows.size()) - for_attempts;
  const uint32_t turn = kept_[static_cast<size_t>(ended)]++;
  if (ended == Ended::kConnection || for_attempts == 0) return rows[turn % for_connections];
  return rows[for_connections + turn % for_attempts];
}

}  // namespace lyre::worker
