#pragma once

#include <memory>
#include <string>

#include "daemon/config/config.h"
#include "stack/io/backend.h"

namespace lyre {

/// Starts the NIC API for the configured ports. Only backend.cc names one.
/// Fails: one line that says what is missing.
Result<std::unique_ptr<io::Backend>> start_backend(const Config& config);

/// Name and version of that API, as "DPDK 22.11.7".
std::string backend_text();

}  // namespace lyre
