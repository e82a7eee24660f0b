#pragma once

#include "stack/tcp/core.h"

namespace lyre::tcp {

/// Aborts the process when an invariant of `c` does not hold. Only tests, the simulator and the
/// fuzzers call it.
void check_connection(const Core& core, const Connection& c);

}  // namespace lyre::tcp
