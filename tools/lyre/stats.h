#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/lyre/options.h"
#include "tools/lyre/snapshot.h"

namespace lyre::tools {

/// `lyre stats`: every counter and drop reason, with its text.
void run_stats(const GlobalOptions& globals, bool has_zeros);

/// Zeros are left out unless `has_zeros`. A column a worker when there are several, and the sum.
std::string stats_text(const Snapshot& snapshot, bool has_zeros);
nlohmann::ordered_json stats_json(const Snapshot& snapshot);

}  // namespace lyre::tools
