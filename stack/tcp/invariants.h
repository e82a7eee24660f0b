#pragma once

#include "stack/tcp/core.h"

namespace lyre::tcp {

/// Breaks off the process when something that must hold for `c` does not. Run by tests, the
/// simulator and the fuzzers only.
void check_connection(const Core& core, const Connection& c);

}  // namespace lyre::tcp
