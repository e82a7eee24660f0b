#pragma once

#include <CLI/CLI.hpp>

namespace lyre::tools {

/// Adds `lyre help [COMMAND...]`, which prints what `lyre COMMAND --help` does. To be added last:
/// it knows the commands that `app` has.
void add_help(CLI::App& app);

}  // namespace lyre::tools
