#pragma once

#include "tools/lyre/allreduce/options.h"

namespace lyre::allreduce {

/// All of `lyre allreduce` but its command line. Prints the result on stdout, or a failure as one
/// line on stderr. Returns the exit code (tools/lyre/failure.h).
int run_command(const Options& options);

}  // namespace lyre::allreduce
