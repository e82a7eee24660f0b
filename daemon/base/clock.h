#pragma once

#include "stack/base/nanos.h"

namespace lyre {

/// Now on the clock that workers are given. Thread: any.
Nanos monotonic_now();

}  // namespace lyre
