#include "tools/lyre/sessions.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "tools/lyre/look.h"
#include "tools/lyre/session_table.h"
#include "tools/lyre/units.h"

namespace lyre::tools {
namespace {

constexpr std::array<const char*, 10> kStateNames = {
    "CLOSED",     "SYN-SENT",   "SYN-RECEIVED", "ESTABLISHED", "FIN-WAIT-1",
    "FIN-WAIT-2", "CLOSE-WAIT", "CLOSING",      "LAST-ACK",    "TIME-WAIT"};

std::string percent(double part) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * part);
  return text;
}

/// Payload that was copied, by direction.
struct Copies {
  uint64_t tx_bytes = 0;
  uint64_t rx_bytes = 0;
};

std::string copies_text(const Copies& by_workers, const Copies& by_clients, const char* plural) {
  const auto text = [](const Copies& copies, const char* who, const char* end) {
    return format_bytes(copies.tx_bytes) + " out and " + format_bytes(copies.rx_bytes) +
           " in by the " + who + end;
  };
  return "copied " + text(by_workers, "worker", plural) + ", " + text(by_clients, "client", plural);
}

/// Of all sessions, open and closed.
struct AllCopies {
  Copies by_workers;
  Copies by_clients;
  uint64_t by_ports_bytes = 0;
};

AllCopies all_copies(const Snapshot& snapshot) {
  AllCopies all;
  for (const WorkerSnapshot& worker : snapshot.workers) {
    all.by_workers.tx_bytes += worker[Counter::copied_tx_bytes];
    all.by_workers.rx_bytes += worker[Counter::copied_rx_bytes];
    all.by_clients.tx_bytes += worker[Counter::client_copied_tx_bytes];
    all.by_clients.rx_bytes += worker[Counter::client_copied_rx_bytes];
    all.by_ports_bytes += worker[Counter::tx_linearised_bytes];
  }
  return all;
}

constexpr const char* kWaitingNames[] = {"nothing", "acknowledgement", "tail probe", "window probe",
                                         "end"};

const char* waiting_name(const channel::SessionView& view) {
  return view.waiting < std::size(kWaitingNames) ? kWaitingNames[view.waiting] : "?";
}

std::string options_text(uint8_t options) {
  std::string out;
  for (const auto& [bit, name] : {std::pair(1, "timestamps"), {2, "sack"}, {4, "scaling"}}) {
    if ((options & bit) != 0) out += (out.empty() ? "" : " ") + std::string(name);
  }
  return out.empty() ? "no options" : out;
}

std::string ago_text(int64_t now_unix_ns, int64_t then_unix_ns) {
  return then_unix_ns == 0 ? "never" : format_duration(now_unix_ns - then_unix_ns) + " ago";
}

std::string left_text(int64_t now_unix_ns, int64_t until_unix_ns) {
  return until_unix_ns < now_unix_ns ? "due" : format_duration(until_unix_ns - now_unix_ns);
}

/// What `ss -tie` has besides: timers, segments, options, owner. A worker without work does not
/// write rows, so the time of the look counts; a row may be written just after it.
std::string timing_text(const channel::SessionView& view, int64_t taken_unix_ns) {
  const int64_t now_unix_ns = std::max(taken_unix_ns, view.updated_unix_ns);
  std::string out = "    waits for " + std::string(waiting_name(view));
  if (view.waiting_until_unix_ns != 0) {
    out += " " + left_text(now_unix_ns, view.waiting_until_unix_ns) + " (" +
           std::to_string(view.backoffs) + " backoffs)";
  }
  out += "  ssthresh " +
         (view.ssthresh_bytes == UINT32_MAX ? "none" : format_bytes(view.ssthresh_bytes)) +
         "  rtt var " + format_duration(view.rtt_var_ns) + "  age " +
         format_duration(now_unix_ns - view.opened_unix_ns) + "  sent " +
         ago_text(now_unix_ns, view.last_sent_unix_ns) + "  heard " +
         ago_text(now_unix_ns, view.last_heard_unix_ns) + "\n";
  out += "    segments " + std::to_string(view.segments_sent) + " out, " +
         std::to_string(view.segments_received) + " in, " +
         std::to_string(view.out_of_order_segments) + " out of order, " +
         std::to_string(view.duplicate_segments) + " duplicate  " + options_text(view.options) +
         "  received and kept " + format_bytes(view.receive_charged_bytes) + "  uid " +
         std::to_string(view.uid) + "\n";
  return out;
}

std::string details_text(const channel::SessionView& view, const SessionRates& rates,
                         int64_t taken_unix_ns) {
  std::string out =
      std::string("    ") + session_congestion_name(view) + (view.has_ecn != 0 ? " ecn" : "") +
      "  cwnd " + format_bytes(view.cwnd_bytes) + "  rtt " + format_duration(view.srtt_ns) +
      " (min " + format_duration(view.rtt_min_ns) + ")  rto " + format_duration(view.rto_ns) +
      "  mss " + std::to_string(view.mss_bytes) + "  in flight " +
      format_bytes(view.in_flight_bytes) + "  queued " + format_bytes(view.send_queue_bytes) +
      " (unsent " + format_bytes(view.unsent_bytes) + ")  peer's window " +
      format_bytes(view.send_window_bytes) + "  limited by " + send_limit_name(send_limit(view)) +
      "\n";
  out += "    sent " + format_bytes(view.bytes_sent) + " (acknowledged " +
         format_bytes(view.bytes_acked) + ") at " + format_rate(rates.sent_bits_per_s) +
         "  received " + format_bytes(view.bytes_received) + " at " +
         format_rate(rates.received_bits_per_s) + "  retransmitted " +
         format_bytes(view.bytes_retransmitted) + " (" + std::to_string(view.timeouts) +
         " timeouts, " + std::to_string(view.fast_recoveries) + " recoveries, " +
         std::to_string(view.undone_reductions) + " undone, " +
         std::to_string(view.ecn_reductions) + " marks)\n";
  out += timing_text(view, taken_unix_ns);
  out += "    lent " + std::to_string(view.lent_slots) + " slots  window " +
         format_bytes(view.receive_window_bytes) + "  zero copy " + percent(zero_copy_share(view)) +
         (view.is_lent != 0 ? "" : " (received bytes are copied)") + "\n    " +
         copies_text({view.copied_tx_bytes, view.copied_rx_bytes},
                     {view.client_copied_tx_bytes, view.client_copied_rx_bytes}, "") +
         "\n";
  return out;
}

nlohmann::ordered_json timing_json(const channel::SessionView& view) {
  return {{"uid", view.uid},
          {"mss_full_bytes", view.mss_full_bytes},
          {"ssthresh_bytes", view.ssthresh_bytes},
          {"rtt_var_ns", view.rtt_var_ns},
          {"waits_for", waiting_name(view)},
          {"waiting_until_unix_ns", view.waiting_until_unix_ns},
          {"backoffs", view.backoffs},
          {"has_timestamps", (view.options & 1) != 0},
          {"has_sack", (view.options & 2) != 0},
          {"has_scaling", (view.options & 4) != 0},
          {"segments_sent", view.segments_sent},
          {"segments_received", view.segments_received},
          {"out_of_order_segments", view.out_of_order_segments},
          {"duplicate_segments", view.duplicate_segments},
          {"receive_charged_bytes", view.receive_charged_bytes},
          {"last_sent_unix_ns", view.last_sent_unix_ns},
          {"last_heard_unix_ns", view.last_heard_unix_ns}};
}

JsonItems items_of(std::vector<channel::SessionView> sessions, int64_t taken_unix_ns,
                   const Snapshot* earlier) {
  const size_t count = sessions.size();
  return {.key = "sessions",
          .count = count,
          .item = [sessions = std::move(sessions), taken_unix_ns, earlier](size_t index) {
            return session_json(sessions[index], taken_unix_ns, earlier);
          }};
}

std::string text_of(const Snapshot& snapshot, const Snapshot* earlier,
                    const SessionOptions& options, uint32_t time_waits) {
  if (options.has_details) return sessions_text(snapshot, earlier);
  std::string out = session_table(snapshot, earlier, options.is_wide);
  if (out.empty()) out = "no sessions\n";
  if (time_waits > 0) out += std::to_string(time_waits) + " in TIME-WAIT (--all shows them)\n";
  return out + without_row_text(snapshot);
}

uint64_t sessions_without_row(const Snapshot& snapshot) {
  uint64_t sum = 0;
  for (const WorkerSnapshot& worker : snapshot.workers) sum += worker.sessions_without_row;
  return sum;
}

/// A pass over the rows of a worker with work begins each period, and takes some turns. A row is so
/// many periods old only where the worker had no work.
constexpr int64_t kIdleNs = 10 * channel::kStatsPeriodNs;

/// Until when a row had the bytes of the time, at a look. A worker without work writes no rows, so
/// its old row is right until one period before the look. The row of a busy worker was right when
/// it was written.
int64_t right_until_ns(int64_t updated_unix_ns, int64_t taken_unix_ns) {
  const bool is_idle = taken_unix_ns - updated_unix_ns >= kIdleNs;
  return is_idle ? taken_unix_ns - channel::kStatsPeriodNs : updated_unix_ns;
}

int64_t begin_of_rate_ns(const ConnectionTotals& before, const channel::SessionView& view,
                         const Snapshot& earlier) {
  const int64_t since_ns = right_until_ns(before.updated_unix_ns, earlier.taken_unix_ns);
  return since_ns < view.updated_unix_ns ? since_ns : before.updated_unix_ns;
}

}  // namespace

std::string owner_of(const channel::SessionView& view) {
  const std::string label(view.label, ::strnlen(view.label, sizeof view.label));
  return label.empty() && view.pid == 0 ? "-" : label + "/" + std::to_string(view.pid);
}

const char* session_state_name(const channel::SessionView& view) {
  return view.is_listener != 0 ? "LISTEN" : tcp_state_name(view.state);
}

const char* tcp_state_name(uint32_t state) {
  return state < kStateNames.size() ? kStateNames[state] : "?";
}

std::vector<std::string> session_state_names() {
  std::vector<std::string> names(kStateNames.begin(), kStateNames.end());
  names.emplace_back("LISTEN");
  return names;
}

const char* session_congestion_name(const channel::SessionView& view) {
  static constexpr const char* kNames[] = {"newreno", "cubic", "dctcp"};
  return view.congestion < std::size(kNames) ? kNames[view.congestion] : "?";
}

double zero_copy_share(const channel::SessionView& view) {
  const uint64_t moved = view.bytes_sent + view.bytes_received;
  const uint64_t copied = view.copied_tx_bytes + view.copied_rx_bytes;
  if (moved == 0 || copied >= moved) return copied == 0 ? 1 : 0;
  return 1 - static_cast<double>(copied) / static_cast<double>(moved);
}

SessionRates rates_of(const channel::SessionView& view, int64_t taken_unix_ns,
                      const Snapshot* earlier) {
  uint64_t sent = 0;
  uint64_t received = 0;
  int64_t since_ns = view.opened_unix_ns;
  if (earlier != nullptr) {
    const auto before = earlier->totals.find(key_of(view));
    if (before != earlier->totals.end()) {
      sent = before->second.bytes_sent;
      received = before->second.bytes_received;
      since_ns = begin_of_rate_ns(before->second, view, *earlier);
    }
  }
  const int64_t interval_ns = right_until_ns(view.updated_unix_ns, taken_unix_ns) - since_ns;
  return {8 * per_second(sent, view.bytes_sent, interval_ns),
          8 * per_second(received, view.bytes_received, interval_ns)};
}

std::string without_row_text(const Snapshot& snapshot) {
  const uint64_t count = sessions_without_row(snapshot);
  if (count == 0) return "";
  return std::to_string(count) + (count == 1 ? " connection has" : " connections have") +
         " no row: a daemon shows a limited number of each worker's (tcp.connections_max in man "
         "lyred.toml)\n";
}

std::string sessions_text(const Snapshot& snapshot, const Snapshot* earlier) {
  std::string out;
  for (const channel::SessionView& view : snapshot.sessions) {
    std::string state = session_state_name(view);
    state.resize(12, ' ');
    out += state + " " + format_endpoint(view.local_address, view.local_port);
    if (view.is_listener == 0) {
      out += " -> " + format_endpoint(view.remote_address, view.remote_port);
    }
    out += "  worker " + std::to_string(view.worker) + "  " + owner_of(view) + "\n";
    if (view.is_listener != 0) continue;
    const int64_t taken_unix_ns = snapshot.taken_unix_ns;
    out += details_text(view, rates_of(view, taken_unix_ns, earlier), taken_unix_ns);
  }
  if (out.empty()) out = "no sessions\n";
  // A domain's segment has no counters, and zeros would be wrong.
  if (snapshot.is_domain) return out;
  out += without_row_text(snapshot);
  const AllCopies copies = all_copies(snapshot);
  return out + "in all, since the daemon started: " +
         copies_text(copies.by_workers, copies.by_clients, "s") + ", " +
         format_bytes(copies.by_ports_bytes) +
         " out by ports (what a virtual wire copies is not counted)\n";
}

nlohmann::ordered_json session_json(const channel::SessionView& view, int64_t taken_unix_ns,
                                    const Snapshot* earlier) {
  nlohmann::ordered_json out = {
      {"state", session_state_name(view)},
      {"local", format_endpoint(view.local_address, view.local_port)},
      {"worker", view.worker},
      {"pid", view.pid},
      {"label", std::string(view.label, ::strnlen(view.label, sizeof view.label))}};
  if (view.is_listener != 0) return out;
  out.update(timing_json(view));
  out.update({{"remote", format_endpoint(view.remote_address, view.remote_port)},
              {"mss_bytes", view.mss_bytes},
              {"congestion", session_congestion_name(view)},
              {"ecn", view.has_ecn != 0},
              {"cwnd_bytes", view.cwnd_bytes},
              {"srtt_ns", view.srtt_ns},
              {"rtt_min_ns", view.rtt_min_ns},
              {"rto_ns", view.rto_ns},
              {"in_flight_bytes", view.in_flight_bytes},
              {"send_queue_bytes", view.send_queue_bytes},
              {"unsent_bytes", view.unsent_bytes},
              {"send_window_bytes", view.send_window_bytes},
              {"receive_window_bytes", view.receive_window_bytes},
              {"lent_slots", view.lent_slots},
              {"bytes_sent", view.bytes_sent},
              {"bytes_acked", view.bytes_acked},
              {"bytes_retransmitted", view.bytes_retransmitted},
              {"bytes_received", view.bytes_received},
              {"timeouts", view.timeouts},
              {"fast_recoveries", view.fast_recoveries},
              {"undone_reductions", view.undone_reductions},
              {"ecn_reductions", view.ecn_reductions},
              {"copied_tx_bytes", view.copied_tx_bytes},
              {"copied_rx_bytes", view.copied_rx_bytes},
              {"client_copied_tx_bytes", view.client_copied_tx_bytes},
              {"client_copied_rx_bytes", view.client_copied_rx_bytes},
              {"zero_copy_share", zero_copy_share(view)},
              {"limited_by", send_limit_name(send_limit(view))},
              {"opened_unix_ns", view.opened_unix_ns}});
  if (earlier == nullptr) return out;
  const SessionRates rates = rates_of(view, taken_unix_ns, earlier);
  out["sent_bits_per_s"] = rates.sent_bits_per_s;
  out["received_bits_per_s"] = rates.received_bits_per_s;
  return out;
}

nlohmann::ordered_json sessions_json(const Snapshot& snapshot) {
  nlohmann::ordered_json out = {{"sessions", nlohmann::ordered_json::array()}};
  if (snapshot.is_domain) return out;
  out["sessions_without_row"] = sessions_without_row(snapshot);
  const AllCopies copies = all_copies(snapshot);
  out["copied"] = {{"workers_tx_bytes", copies.by_workers.tx_bytes},
                   {"workers_rx_bytes", copies.by_workers.rx_bytes},
                   {"clients_tx_bytes", copies.by_clients.tx_bytes},
                   {"clients_rx_bytes", copies.by_clients.rx_bytes},
                   {"ports_tx_bytes", copies.by_ports_bytes}};
  return out;
}

bool is_time_wait(const channel::SessionView& view) {
  return std::strcmp(session_state_name(view), "TIME-WAIT") == 0;
}

bool is_established(const channel::SessionView& view) {
  return std::strcmp(session_state_name(view), "ESTABLISHED") == 0;
}

void run_sessions(const GlobalOptions& globals, const SessionOptions& options) {
  show(globals, options.watch_s,
       {.text =
            [&](const Snapshot& now, const Snapshot* earlier) {
              Snapshot kept = now;
              const uint32_t time_waits =
                  keep_wanted(kept.sessions, options.filter, now.taken_unix_ns, earlier);
              return text_of(kept, earlier, options, time_waits);
            },
        .json = [](const Snapshot& now, const Snapshot*) { return sessions_json(now); },
        .json_items =
            [&](const Snapshot& now, const Snapshot* earlier) {
              auto sessions = now.sessions;
              keep_wanted(sessions, options.filter, now.taken_unix_ns, earlier);
              return items_of(std::move(sessions), now.taken_unix_ns, earlier);
            },
        .measures_rates = true});
}

}  // namespace lyre::tools
