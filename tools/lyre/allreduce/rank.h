#pragma once

namespace lyre::allreduce {

/// The main function of a rank process: receives its Job from `launcher_fd`, runs it, reports to
/// the launcher, and returns the exit code.
int run_rank(int launcher_fd);

}  // namespace lyre::allreduce
