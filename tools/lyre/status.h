#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/lyre/options.h"
#include "tools/lyre/snapshot.h"

namespace lyre::tools {

/// `lyre status`: the daemon, its ports and workers.
void run_status(const GlobalOptions& globals);

std::string status_text(const Snapshot& snapshot);
nlohmann::ordered_json status_json(const Snapshot& snapshot);

}  // namespace lyre::tools
