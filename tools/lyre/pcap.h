#pragma once

#include <CLI/CLI.hpp>

#include "tools/lyre/options.h"

namespace lyre::tools {

/// Adds `lyre pcap`. Owner: `app` *shares* `globals`, which outlives it.
void add_pcap(CLI::App& app, const GlobalOptions& globals);

}  // namespace lyre::tools
