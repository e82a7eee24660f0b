#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/lyre/options.h"
#include "tools/lyre/snapshot.h"

namespace lyre::tools {

/// `lyre clients`: what each client has of what the daemon has for all of them, and its limits.
/// Fails: throws Failure.
void run_clients(const GlobalOptions& globals);

std::string clients_text(const Snapshot& snapshot);
nlohmann::ordered_json clients_json(const Snapshot& snapshot);

}  // namespace lyre::tools
