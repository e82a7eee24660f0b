#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "tools/lyre/options.h"
#include "tools/lyre/snapshot.h"

namespace lyre::tools {

/// `lyre status`: the daemon, its ports and workers. Fails: throws Failure.
void run_status(const GlobalOptions& globals, std::optional<double> watch_s);

/// Traffic of workers since the daemon started, or its rates since `earlier` where that is given.
std::string status_text(const Snapshot& snapshot, const Snapshot* earlier);
nlohmann::ordered_json status_json(const Snapshot& snapshot, const Snapshot* earlier);

}  // namespace lyre::tools
