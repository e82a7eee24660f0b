#include "daemon/workers/progress.h"

#include <utility>

namespace lyre {

Progress::Progress(uint32_t worker_count, Turns turns, Nanos now)
    : turns_(std::move(turns)), seen_(worker_count), seen_at_(now) {}

bool Progress::look(Nanos now) {
  bool all = true;
  for (uint32_t i = 0; i < seen_.size(); ++i) {
    all = std::exchange(seen_[i], turns_(i)) != seen_[i] && all;
  }
  if (all) seen_at_ = now;
  vain_looks_ = all ? 0 : vain_looks_ + 1;
  return all;
}

bool Progress::is_hanging(Nanos now) const { return now - seen_at_ >= kHangAfter; }

bool RareWarning::is_due(uint64_t count, Nanos now) {
  if (count == told_ || now - told_at_ < period_) return false;
  told_ = count;
  told_at_ = now;
  return true;
}

}  // namespace lyre
