#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/lyre/options.h"
#include "tools/lyre/session_filter.h"
#include "tools/lyre/snapshot.h"

namespace lyre::tools {

struct SessionOptions {
  SessionFilter filter;
  bool is_wide = false;           ///< one line a session with everything that fits
  bool has_details = false;       ///< several lines a session, as `ss -ti`
  std::optional<double> watch_s;  ///< prints again after each interval
};

/// `lyre sessions`: as `ss` for the kernel. With `watch_s` it prints until it is interrupted or the
/// daemon has ended. Fails: throws Failure.
void run_sessions(const GlobalOptions& globals, const SessionOptions& options);

/// True for a connection that only waits for stray packets and is not in use.
bool is_time_wait(const channel::SessionView& view);
bool is_established(const channel::SessionView& view);

/// "label/pid"; "-" for a handshake that is not complete, and for a TIME-WAIT whose client was told
/// the end.
std::string owner_of(const channel::SessionView& view);

/// Mean rates of a session between two snapshots, or since it was opened.
struct SessionRates {
  double sent_bits_per_s = 0;
  double received_bits_per_s = 0;
};
/// Of a session that was looked at at `taken_unix_ns`. Since it was opened where `earlier` is
/// nullptr or does not have it.
SessionRates rates_of(const channel::SessionView& view, int64_t taken_unix_ns,
                      const Snapshot* earlier);

/// Name of a tcp::State as the RFC has it; LISTEN for a listener.
const char* session_state_name(const channel::SessionView& view);
/// The same of the number of a tcp::State; "?" for none.
const char* tcp_state_name(uint32_t state);
/// All of these names.
std::vector<std::string> session_state_names();
/// Name of a tcp::CongestionAlgorithm as the configuration has it.
const char* session_congestion_name(const channel::SessionView& view);
/// The share of payload that no processor copied between client and NIC, 0 to 1.
double zero_copy_share(const channel::SessionView& view);

/// A line that says how many open connections a daemon does not show; empty: none.
std::string without_row_text(const Snapshot& snapshot);
std::string sessions_text(const Snapshot& snapshot, const Snapshot* earlier);
/// All of `lyre sessions --json` but the sessions: "sessions" is empty.
nlohmann::ordered_json sessions_json(const Snapshot& snapshot);
/// One of its sessions.
nlohmann::ordered_json session_json(const channel::SessionView& view, int64_t taken_unix_ns,
                                    const Snapshot* earlier);

}  // namespace lyre::tools
