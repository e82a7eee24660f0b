#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "tools/lyre/options.h"
#include "tools/lyre/snapshot.h"

namespace lyre::tools {

/// `lyre ports`, `lyre neighbours`, `lyre routes`: what the daemon knows of its networks.
/// Fails: throws Failure.
void run_ports(const GlobalOptions& globals, std::optional<double> watch_s);
void run_neighbours(const GlobalOptions& globals, std::optional<double> watch_s);
void run_routes(const GlobalOptions& globals, std::optional<double> watch_s);

/// "up", "down", or what the daemon does with a device that failed.
std::string link_text(const PortSnapshot& port);
std::string speed_text(uint32_t mbps);
/// A NIC on the VMbus sends and receives through the host, which is slower.
bool is_on_host_path(const PortSnapshot& port);

/// Totals, or rates since `earlier` where that is given.
std::string ports_text(const Snapshot& snapshot, const Snapshot* earlier);
nlohmann::ordered_json ports_json(const Snapshot& snapshot, const Snapshot* earlier);
/// Each worker has neighbours of its own.
std::string neighbours_text(const Snapshot& snapshot);
nlohmann::ordered_json neighbours_json(const Snapshot& snapshot);
/// The first one that contains a destination is used.
std::string routes_text(const Snapshot& snapshot);
nlohmann::ordered_json routes_json(const Snapshot& snapshot);

}  // namespace lyre::tools
