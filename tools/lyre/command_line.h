#pragma once

#include <CLI/CLI.hpp>

#include "tools/lyre/options.h"

namespace lyre::tools {

/// The options and sub-commands of `lyre`: what is parsed, and from which help, manual pages and
/// completions are made.
/// Owner: `app` *shares* `globals`, which outlives it.
void define_command_line(CLI::App& app, GlobalOptions& globals);

}  // namespace lyre::tools
