#include "tools/lyre/session_table.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "tools/lyre/sessions.h"
#include "tools/lyre/text_table.h"
#include "tools/lyre/units.h"

namespace lyre::tools {
namespace {

// With the longest state, and 9 columns for a rate, these give kNarrowColumns.
constexpr size_t kPeerColumns = 21;
constexpr size_t kOwnerColumns = 12;
constexpr const char* kLimitNames[] = {"application", "receiver", "congestion", "port"};

/// The end of a text: what distinguishes addresses is there.
std::string cut_front(const std::string& text, size_t columns) {
  return text.size() <= columns ? text : ".." + text.substr(text.size() - columns + 2);
}

/// The process is not cut.
std::string owner_text(const channel::SessionView& view, bool is_wide) {
  const std::string owner = owner_of(view);
  if (is_wide || owner.size() <= kOwnerColumns) return owner;
  const std::string pid = "/" + std::to_string(view.pid);
  return owner.substr(0, kOwnerColumns - std::min(pid.size(), kOwnerColumns - 1)) + pid;
}

std::vector<std::string> narrow_row(const channel::SessionView& view, const Snapshot* earlier,
                                    int64_t now_unix_ns) {
  const std::string local = ":" + std::to_string(view.local_port);
  if (view.is_listener != 0) {
    return {session_state_name(view), local, "-", owner_text(view, false), "", "", "", ""};
  }
  const SessionRates rates = rates_of(view, now_unix_ns, earlier);
  return {session_state_name(view),
          local,
          cut_front(format_endpoint(view.remote_address, view.remote_port), kPeerColumns),
          owner_text(view, false),
          format_duration(view.srtt_ns),
          format_rate(rates.sent_bits_per_s),
          format_rate(rates.received_bits_per_s),
          send_limit_name(send_limit(view))};
}

std::vector<std::string> wide_row(const channel::SessionView& view, const Snapshot* earlier,
                                  int64_t now_unix_ns) {
  std::vector<std::string> row{session_state_name(view), std::to_string(view.worker),
                               format_endpoint(view.local_address, view.local_port)};
  if (view.is_listener != 0) {
    row.insert(row.end(), {"-", owner_text(view, true)});
    row.resize(row.size() + 10);
    return row;
  }
  const SessionRates rates = rates_of(view, now_unix_ns, earlier);
  row.insert(row.end(),
             {format_endpoint(view.remote_address, view.remote_port), owner_text(view, true),
              format_duration(now_unix_ns - view.opened_unix_ns), format_duration(view.srtt_ns),
              format_duration(view.rto_ns), format_bytes(view.cwnd_bytes),
              format_bytes(view.in_flight_bytes), format_bytes(view.send_queue_bytes),
              format_bytes(view.bytes_retransmitted), format_rate(rates.sent_bits_per_s),
              format_rate(rates.received_bits_per_s), send_limit_name(send_limit(view))});
  return row;
}

}  // namespace

SendLimit send_limit(const channel::SessionView& view) {
  if (view.unsent_bytes == 0) return SendLimit::kApplication;
  // SACKed and lost bytes have room in the congestion window again, and none in the peer's.
  const int64_t outstanding_bytes = int64_t{view.send_queue_bytes} - view.unsent_bytes;
  const int64_t peer_room = view.send_window_bytes - outstanding_bytes;
  const int64_t path_room = int64_t{view.cwnd_bytes} - view.in_flight_bytes;
  if (std::min(peer_room, path_room) >= view.mss_bytes) return SendLimit::kPort;
  return peer_room <= path_room ? SendLimit::kReceiver : SendLimit::kCongestion;
}

const char* send_limit_name(SendLimit limit) { return kLimitNames[static_cast<size_t>(limit)]; }

std::string session_table(const Snapshot& snapshot, const Snapshot* earlier, bool is_wide) {
  using Align = TextTable::Align;
  TextTable table;
  table.add_column("state");
  if (is_wide) table.add_column("worker", Align::kRight);
  for (const char* title : {"local", "peer", "owner"}) table.add_column(title);
  if (is_wide) table.add_column("age", Align::kRight);
  table.add_column("rtt", Align::kRight);
  if (is_wide) {
    for (const char* title : {"rto", "cwnd", "in flight", "queued", "retransmitted"}) {
      table.add_column(title, Align::kRight);
    }
  }
  for (const char* title : {"sent", "received"}) table.add_column(title, Align::kRight);
  table.add_column("limited by");
  for (const channel::SessionView& view : snapshot.sessions) {
    table.add_row(is_wide ? wide_row(view, earlier, snapshot.taken_unix_ns)
                          : narrow_row(view, earlier, snapshot.taken_unix_ns));
  }
  return table.is_empty() ? "" : table.text();
}

}  // namespace lyre::tools
