#pragma once

#include <CLI/CLI.hpp>

#include "tools/lyre/options.h"

namespace lyre::tools {

/// Adds the commands that show what a daemon, its clients and NCCL's plugin do.
/// Owner: `app` *shares* `globals`, which outlives it.
void add_look_commands(CLI::App& app, GlobalOptions& globals);

}  // namespace lyre::tools
