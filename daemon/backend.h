#pragma once

#include <memory>

#include "daemon/config.h"
#include "stack/io/backend.h"

namespace lyre {

/// Starts the NIC API that the configuration's ports need. The only place that knows which there
/// are. Fails: one line that says what is missing.
Result<std::unique_ptr<io::Backend>> start_backend(const Config& config);

}  // namespace lyre
