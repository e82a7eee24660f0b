#include "stack/worker/session_view.h"

#include <cstring>

#include "stack/session/session.h"
#include "stack/tcp/congestion.h"

namespace lyre::worker {
namespace {

void show_times(const WorkerState& state, const tcp::ConnectionInfo& info,
                channel::SessionView& view) {
  const int64_t offset_ns = state.config.unix_offset_ns;
  view.options = static_cast<uint8_t>((info.has_timestamps ? 1 : 0) | (info.has_sack ? 2 : 0) |
                                      (info.has_scaling ? 4 : 0));
  view.waiting = static_cast<uint8_t>(info.waiting);
  view.backoffs = info.backoffs;
  if (info.waiting != tcp::Waiting::kNothing) {
    view.waiting_until_unix_ns = info.waiting_until.value + offset_ns;
  }
  if (info.bytes_sent > 0) view.last_sent_unix_ns = info.last_sent_at.value + offset_ns;
  view.last_heard_unix_ns = info.last_heard_at.value + offset_ns;
}

void show_repairs(const tcp::ConnectionInfo& info, channel::SessionView& view) {
  view.segments_sent = info.segments_sent;
  view.segments_received = info.segments_received;
  view.out_of_order_segments = info.out_of_order_segments;
  view.duplicate_segments = info.duplicate_segments;
  view.timeouts = info.timeouts;
  view.fast_recoveries = info.fast_recoveries;
  view.ecn_reductions = info.ecn_reductions;
  view.undone_reductions = info.undone_reductions;
}

}  // namespace

channel::SessionView view_of(const WorkerState& state, uint32_t conn) {
  const session::Session& shown = state.sessions[conn];
  const tcp::ConnectionInfo info = state.engine.info(conn);
  const FourTuple& tuple = state.engine.tuple(conn);
  channel::SessionView view{};
  std::memcpy(view.local_address, tuple.local.address.bytes.data(), 16);
  std::memcpy(view.remote_address, tuple.remote.address.bytes.data(), 16);
  view.local_port = tuple.local.port;
  view.remote_port = tuple.remote.port;
  view.state = static_cast<uint8_t>(info.state);
  view.worker = state.config.index;
  show_owner(state, view, shown.context);
  view.mss_bytes = info.mss_bytes;
  view.mss_full_bytes = info.mss_full_bytes;
  view.cwnd_bytes = info.cwnd_bytes;
  view.in_flight_bytes = info.in_flight_bytes;
  view.send_queue_bytes = info.send_queue_bytes;
  view.unsent_bytes = info.unsent_bytes;
  view.send_window_bytes = info.send_window_bytes;
  view.receive_window_bytes = info.receive_window_bytes;
  view.receive_charged_bytes = info.receive_charged_bytes;
  const bool is_lent =
      shown.context != session::kNoContext && state.contexts[shown.context].is_lent;
  view.lent_slots = is_lent ? shown.lent_slots : 0;
  view.ssthresh_bytes = shown_ssthresh_bytes(info);
  view.srtt_ns = info.srtt.value;
  view.rtt_var_ns = info.rtt_var.value;
  view.rtt_min_ns = info.rtt_min.value;
  view.rto_ns = info.rto.value;
  view.bytes_sent = info.bytes_sent;
  view.bytes_acked = info.bytes_acked;
  view.bytes_retransmitted = info.bytes_retransmitted;
  view.bytes_received = info.bytes_received;
  view.copied_tx_bytes = shown.copied_tx_bytes;
  view.copied_rx_bytes = shown.copied_rx_bytes;
  view.client_copied_tx_bytes = shown.client_copied_tx_bytes;
  view.client_copied_rx_bytes = shown.client_copied_rx_bytes;
  show_repairs(info, view);
  view.congestion = static_cast<uint8_t>(info.congestion);
  view.has_ecn = info.has_ecn ? 1 : 0;
  show_times(state, info, view);
  view.opened_unix_ns = shown.opened_at.value + state.config.unix_offset_ns;
  view.updated_unix_ns = state.now.value + state.config.unix_offset_ns;
  return view;
}

uint32_t shown_ssthresh_bytes(const tcp::ConnectionInfo& info) {
  return info.ssthresh_bytes == tcp::kSsthreshUnset ? UINT32_MAX : info.ssthresh_bytes;
}

void show_owner(const WorkerState& state, channel::SessionView& view, uint32_t context) {
  view.context = context;
  if (context == session::kNoContext) return;
  const Context& owner = state.contexts[context];
  view.is_lent = owner.is_lent;
  view.pid = owner.attached.pid;
  view.uid = owner.attached.uid;
  std::memcpy(view.label, owner.attached.label.data(), sizeof view.label);
}

}  // namespace lyre::worker
