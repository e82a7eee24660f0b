#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "tools/lyre/options.h"
#include "tools/lyre/snapshot.h"

namespace lyre::tools {

/// `lyre stats`: the counters and drop reasons, each with its text. Fails: throws Failure.
void run_stats(const GlobalOptions& globals, bool has_zeros, std::optional<double> watch_s);

/// Leaves zeros out unless `has_zeros`. Several workers have a column each, and there is a total
/// and, where `earlier` is given, its growth a second.
std::string stats_text(const Snapshot& snapshot, const Snapshot* earlier, bool has_zeros);
nlohmann::ordered_json stats_json(const Snapshot& snapshot, const Snapshot* earlier);

}  // namespace lyre::tools
