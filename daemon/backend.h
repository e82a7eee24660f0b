#pragma once

#include <memory>

#include "daemon/config/config.h"
#include "stack/io/backend.h"

namespace lyre {

/// Starts the NIC API for the configured ports. Only backend.cc names one.
/// Fails: one line that says what is missing.
Result<std::unique_ptr<io::Backend>> start_backend(const Config& config);

}  // namespace lyre
