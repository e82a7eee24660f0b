#pragma once

namespace CLI {
class App;
}

namespace lyre::tools {

/// Adds `lyre allreduce`. Its callback prints the result on stdout; on a failure one line on
/// stderr, and throws CLI::RuntimeError with the exit code: 1 for a failed run, 2 for a wrong
/// option.
void add_allreduce(CLI::App& app);

}  // namespace lyre::tools
