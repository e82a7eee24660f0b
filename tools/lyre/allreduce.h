#pragma once

#include "tools/lyre/options.h"

namespace CLI {
class App;
}

namespace lyre::tools {

/// Adds `lyre allreduce`. Its callback throws CLI::RuntimeError with the exit code of
/// allreduce::run_command when that is not 0.
void add_allreduce(CLI::App& app, const GlobalOptions& globals);

/// Whether the command line that `app` has parsed is that of a rank process, which
/// `lyre allreduce` starts.
bool is_rank_process(const CLI::App& app);

}  // namespace lyre::tools
