#include "daemon/base/clock.h"

#include <cstdint>
#include <ctime>

namespace lyre {

Nanos monotonic_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return nanos(int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec);
}

}  // namespace lyre
