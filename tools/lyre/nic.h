#pragma once

#include "tools/lyre/options.h"

namespace CLI {
class App;
}

namespace lyre::tools {

/// Adds `nic` with its sub-commands.
void add_nic(CLI::App& app, const GlobalOptions& globals);

}  // namespace lyre::tools
