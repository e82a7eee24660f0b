#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tools/lyre/options.h"
#include "tools/lyre/snapshot.h"

namespace CLI {
class App;
}

namespace lyre::tools {

/// `lyre stats`: every counter and drop reason, with its text.
void add_stats(CLI::App& app, const GlobalOptions& globals);

/// Zeros are left out unless `has_zeros`. A column a worker when there are several, and the sum.
std::string stats_text(const Snapshot& snapshot, bool has_zeros);
nlohmann::ordered_json stats_json(const Snapshot& snapshot);

}  // namespace lyre::tools
