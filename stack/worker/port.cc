#include "stack/worker/port.h"

#include <algorithm>

namespace lyre::worker {

size_t Port::flush() {
  if (waiting_.empty() || is_full_) return 0;
  if (capture_ != nullptr) [[unlikely]]
    capture_->before_send(waiting());
  const size_t taken = io_->tx_burst(waiting());
  if (capture_ != nullptr) [[unlikely]]
    capture_->after_send(taken);
  const size_t left = waiting_.size() - taken;
  std::copy(waiting_.begin() + taken, waiting_.end(), waiting_.begin());
  while (waiting_.size() > left) waiting_.pop_back();
  is_full_ = left > 0;
  taken_ += taken;
  return taken;
}

}  // namespace lyre::worker
