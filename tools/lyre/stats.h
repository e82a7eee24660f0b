#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/lyre/options.h"
#include "tools/lyre/snapshot.h"

namespace lyre::tools {

/// `lyre stats`: the counters and drop reasons, each with its text.
void run_stats(const GlobalOptions& globals, bool has_zeros);

/// Leaves zeros out unless `has_zeros`. Several workers have a column each, and there is a total.
std::string stats_text(const Snapshot& snapshot, bool has_zeros);
nlohmann::ordered_json stats_json(const Snapshot& snapshot);

}  // namespace lyre::tools
