#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "tools/lyre/options.h"
#include "tools/lyre/snapshot.h"

namespace lyre::tools {

struct StatsOptions {
  bool has_zeros = false;    ///< also shows counters that are zero
  bool has_workers = false;  ///< a column for each worker, however many there are
};

/// `lyre stats`: the counters and drop reasons, each with its text. Fails: throws Failure.
void run_stats(const GlobalOptions& globals, const StatsOptions& options,
               std::optional<double> watch_s);

/// With more workers only their total and the largest value are shown, within kStatsColumns.
inline constexpr size_t kWorkerColumnsMax = 8;
inline constexpr size_t kStatsColumns = 120;
/// Several workers have a column each, and there is a total and, where `earlier` is given, its
/// growth a second.
std::string stats_text(const Snapshot& snapshot, const Snapshot* earlier,
                       const StatsOptions& options);
nlohmann::ordered_json stats_json(const Snapshot& snapshot, const Snapshot* earlier);

}  // namespace lyre::tools
