#pragma once

#include <CLI/CLI.hpp>

#include "tools/lyre/options.h"

namespace lyre::tools {

/// Adds `lyre upgrade`. Borrows `globals`.
void add_upgrade(CLI::App& app, const GlobalOptions& globals);

}  // namespace lyre::tools
