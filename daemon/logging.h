#pragma once

#include "daemon/config/config.h"

namespace lyre {

/// Writes spdlog's lines to standard error: with a priority prefix and without time when it is the
/// journal, else with the time.
void start_logging(LogLevel level);

/// Of Lyre's own lines. Those of DPDK keep the level of the start. Thread: any.
void set_log_level(LogLevel level);

}  // namespace lyre
