#pragma once

#include <memory>
#include <optional>
#include <string>

#include "daemon/config/config.h"
#include "stack/io/backend.h"

namespace lyre {

/// Starts the NIC API for the configured ports. Only backend.cc names one. `owner`: a process that
/// has the NICs now; none: they are free.
/// Fails: one line that says what is missing.
Result<std::unique_ptr<io::Backend>> start_backend(const Config& config,
                                                   const std::optional<io::NicOwner>& owner);

/// Name and version of that API, as "DPDK 22.11.7".
std::string backend_text();

}  // namespace lyre
