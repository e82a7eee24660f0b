#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "tools/lyre/json_document.h"
#include "tools/lyre/options.h"
#include "tools/lyre/snapshot.h"

/// How every command shows a daemon: once or in a watch, as text or as JSON.
namespace lyre::tools {

/// In place of what a domain's segment does not show.
inline constexpr const char* kNotShown = "not shown here: ask at the administrator's socket\n";

/// What a command makes of a snapshot. `earlier` is a snapshot of the same run of the daemon from
/// which rates are computed, or nullptr.
struct Display {
  std::function<std::string(const Snapshot& now, const Snapshot* earlier)> text;
  std::function<nlohmann::ordered_json(const Snapshot& now, const Snapshot* earlier)> json;
  /// Of an array of `json` that may be long; or none. They use both snapshots.
  std::function<JsonItems(const Snapshot& now, const Snapshot* earlier)> json_items = nullptr;
  /// A single text, too, has rates: it takes a second.
  bool measures_rates = false;
};

/// Prints what `display` makes of the daemon. With `watch_s` it prints after each interval until it
/// is interrupted, JSON as one document a line.
/// Fails: throws Failure. A daemon that ends also ends a watch, with kExitNoDaemon.
void show(const GlobalOptions& globals, std::optional<double> watch_s, const Display& display);

/// `earlier` if it is of the same run of the daemon as `now`, else nullptr: counters of two runs
/// are not compared.
const Snapshot* of_same_run(const Snapshot& now, const Snapshot* earlier);

/// Of the daemon that the options name, or of the one before.
StatsSegment segment_of(const GlobalOptions& globals);

/// The daemon of the snapshot and when it ended, if it does not run any longer; else nothing.
std::string past_text(const Snapshot& snapshot);
nlohmann::ordered_json past_json(const Snapshot& snapshot);

/// Growth of a counter a second; 0 for one that shrank.
double per_second(uint64_t before, uint64_t after, int64_t interval_ns);

}  // namespace lyre::tools
