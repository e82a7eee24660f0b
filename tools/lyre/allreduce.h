#pragma once

namespace CLI {
class App;
}

namespace lyre::tools {

/// Adds `lyre allreduce`. Its callback throws CLI::RuntimeError with the exit code of
/// allreduce::run_command when that is not 0.
void add_allreduce(CLI::App& app);

}  // namespace lyre::tools
