#pragma once

#include "tools/lyre/options.h"

namespace CLI {
class App;
}

namespace lyre::tools {

/// Adds `doctor`.
void add_doctor(CLI::App& app, const GlobalOptions& globals);

}  // namespace lyre::tools
