#pragma once

#include "stack/tcp/core.h"

namespace lyre::tcp {

/// Copies from `wanted` the options that an open connection may change (Engine::configure()).
void reconfigure(Connection& c, const ConnectionConfig& wanted, Nanos now, Effects& effects);

}  // namespace lyre::tcp
