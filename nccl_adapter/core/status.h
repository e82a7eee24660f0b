#pragma once

#include <cstdint>
#include <string>

#include "lyre/lyre.h"

namespace lyre::nccl_adapter {

/// "10.9.0.1:5000"
std::string to_string(const lyre_addr& address);

/// Nanoseconds of a clock that only goes forward.
int64_t now_ns();

/// This machine's name, for messages on the other side.
std::string host_name();

}  // namespace lyre::nccl_adapter
