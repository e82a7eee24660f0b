#include "nccl_adapter/transport/shortage.h"

#include "nccl_adapter/limits.h"

namespace lyre::nccl_adapter {

bool Shortage::declare(int64_t now_ns) {
  const std::lock_guard lock(mutex_);
  if (declared_ns_ && now_ns - *declared_ns_ < kRedialNsMax) return false;
  declared_ns_ = now_ns;
  declared_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void Shortage::note_reached(const std::string& host, int64_t now_ns) {
  const std::lock_guard lock(mutex_);
  reached_ns_[host] = now_ns;
}

bool Shortage::is_reached(const std::string& host, int64_t now_ns) const {
  const std::lock_guard lock(mutex_);
  const auto found = reached_ns_.find(host);
  return found != reached_ns_.end() && now_ns - found->second <= kReachedNs;
}

}  // namespace lyre::nccl_adapter
