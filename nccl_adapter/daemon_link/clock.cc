#include "nccl_adapter/daemon_link/clock.h"

#include <chrono>

namespace lyre::nccl_adapter {

int64_t monotonic_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace lyre::nccl_adapter
