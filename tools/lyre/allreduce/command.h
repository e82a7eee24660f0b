#pragma once

#include "tools/lyre/allreduce/options.h"

namespace lyre::allreduce {

/// All of `lyre allreduce` but its command line: prints the result on stdout; on a failure one line
/// on stderr. Returns the exit code: 1 for a failed run, 2 for a wrong option.
int run_command(const Options& options);

}  // namespace lyre::allreduce
