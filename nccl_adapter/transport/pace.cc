#include "nccl_adapter/transport/pace.h"

#include "nccl_adapter/limits.h"

namespace lyre::nccl_adapter {

void Pace::add(uint64_t bytes, int64_t passed_ns, int64_t now_ns) {
  bytes_ += bytes;
  passed_ns_ += passed_ns;
  if (passed_ns_ < kSlowBusyNs) return;
  bytes_per_s_ =
      static_cast<uint64_t>(static_cast<double>(bytes_) * 1e9 / static_cast<double>(passed_ns_));
  known_ns_ = now_ns;
  bytes_ = 0;
  passed_ns_ = 0;
}

uint64_t Pace::bytes_per_s(int64_t now_ns) const {
  return now_ns - known_ns_ < kSlowPauseNs ? bytes_per_s_ : 0;
}

}  // namespace lyre::nccl_adapter
