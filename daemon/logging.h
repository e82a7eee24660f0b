#pragma once

#include "daemon/config.h"

namespace lyre {

/// Sends spdlog's lines to standard error: as the journal wants them when it listens there
/// (priority prefix, no time), with the time otherwise.
void start_logging(LogLevel level);

}  // namespace lyre
