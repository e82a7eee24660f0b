#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tools/lyre/options.h"
#include "tools/lyre/snapshot.h"

namespace CLI {
class App;
}

namespace lyre::tools {

/// `lyre status`: the daemon, its ports and workers.
void add_status(CLI::App& app, const GlobalOptions& globals);

std::string status_text(const Snapshot& snapshot);
nlohmann::ordered_json status_json(const Snapshot& snapshot);

}  // namespace lyre::tools
