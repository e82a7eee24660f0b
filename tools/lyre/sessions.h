#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "tools/lyre/options.h"
#include "tools/lyre/snapshot.h"

namespace lyre::tools {

/// `lyre sessions`: as `ss -ti` for the kernel. With `watch_s` it prints again after each interval,
/// until it is interrupted or the daemon has ended. Fails: throws Failure.
void run_sessions(const GlobalOptions& globals, std::optional<double> watch_s);

/// Mean rates of a session between two snapshots, or since it was opened.
struct SessionRates {
  double sent_bits_per_s = 0;
  double received_bits_per_s = 0;
};
/// Since the session was opened where `earlier` is nullptr or does not have it.
SessionRates rates_of(const channel::SessionView& view, const Snapshot* earlier);

/// Name of a tcp::State as the RFC has it.
const char* session_state_name(const channel::SessionView& view);
/// Name of a tcp::CongestionAlgorithm as the configuration has it.
const char* session_congestion_name(const channel::SessionView& view);
/// The share of payload that no processor copied between client and NIC, 0 to 1.
double zero_copy_share(const channel::SessionView& view);

std::string sessions_text(const Snapshot& snapshot, const Snapshot* earlier);
nlohmann::ordered_json sessions_json(const Snapshot& snapshot, const Snapshot* earlier);

}  // namespace lyre::tools
