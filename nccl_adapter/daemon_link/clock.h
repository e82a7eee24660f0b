#pragma once

#include <cstdint>

namespace lyre::nccl_adapter {

/// Nanoseconds of a clock that only goes forward. Read here and in plugin/ only: whatever is below
/// gets the time as an argument.
int64_t monotonic_ns();

}  // namespace lyre::nccl_adapter
