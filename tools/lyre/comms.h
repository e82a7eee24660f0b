#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "nccl_adapter/abi/telemetry.h"
#include "tools/lyre/options.h"

namespace lyre::tools {

/// `lyre comms`: what NCCL's connections over Lyre do, and whom they wait for, as the plugin wrote
/// it into `directory`; with `watch_s` again every so many seconds, for ever.
void run_comms(const GlobalOptions& globals, const std::string& directory,
               std::optional<double> watch_s);

/// What one file of the plugin says.
struct CommsOfProcess {
  uint32_t pid = 0;
  std::string program;
  std::string host;
  std::string socket;
  uint64_t strangers = 0;     ///< refused
  std::string last_stranger;  ///< its address
  std::vector<nccl_abi::CommView> comms;
};

/// One look at all processes. Times are CLOCK_MONOTONIC.
struct CommsLook {
  int64_t at_ns = 0;
  std::vector<CommsOfProcess> processes;
};

/// Files that are older than a few seconds belong to processes that are gone and are left out, as
/// is what the caller may not read.
CommsLook look_at_comms(const std::string& directory, int64_t now_ns);

/// Rates are of the time since `earlier`; without it there are none.
std::string comms_text(const CommsLook& look, const CommsLook* earlier);
nlohmann::ordered_json comms_json(const CommsLook& look, const CommsLook* earlier);

}  // namespace lyre::tools
