#pragma once

#include <CLI/CLI.hpp>

#include "tools/lyre/options.h"

namespace lyre::tools {

/// Adds `lyre help [COMMAND...]`, which prints what `lyre COMMAND --help` does. To be added last:
/// it knows the commands that `app` has.
void add_help(CLI::App& app, const GlobalOptions& globals);

}  // namespace lyre::tools
