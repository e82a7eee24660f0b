#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "tools/lyre/options.h"
#include "tools/lyre/snapshot.h"

namespace lyre::tools {

/// `lyre clients`: what each client holds of shared resources, and its limits.
/// Fails: throws Failure.
void run_clients(const GlobalOptions& globals, std::optional<double> watch_s);

/// The part of its limit of receive slots that a client holds at the worker of `view`; 1: all, or
/// more.
double receive_limit_ratio(const channel::ClientView& view);

/// With the rates of its open sessions since `earlier` where that is given.
std::string clients_text(const Snapshot& snapshot, const Snapshot* earlier);
nlohmann::ordered_json clients_json(const Snapshot& snapshot, const Snapshot* earlier);

}  // namespace lyre::tools
