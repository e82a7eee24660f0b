#pragma once

namespace lyre::allreduce {

/// The rank process: takes its Job from `launcher_fd`, runs it, reports, and returns the exit code.
int run_rank(int launcher_fd);

}  // namespace lyre::allreduce
