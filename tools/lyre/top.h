#pragma once

#include <CLI/CLI.hpp>

#include "tools/lyre/options.h"

namespace lyre::tools {

/// Defines `lyre top`. Owner: borrows `globals` for the life of `app`.
void add_top(CLI::App& app, const GlobalOptions& globals);

}  // namespace lyre::tools
