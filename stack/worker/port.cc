#include "stack/worker/port.h"

#include <algorithm>

namespace lyre::worker {

size_t Port::flush() {
  if (is_full_ || !has_unsent()) return 0;
  const size_t offered = waiting_.size();
  if (capture_ != nullptr) [[unlikely]]
    capture_->before_send(waiting());
  const size_t taken = io_->tx_burst(waiting());
  if (capture_ != nullptr) [[unlikely]]
    capture_->after_send(taken);
  io_has_unsent_ = io_->has_unsent();
  const size_t left = offered - taken;
  std::copy(waiting_.begin() + taken, waiting_.end(), waiting_.begin());
  while (waiting_.size() > left) waiting_.pop_back();
  is_full_ = left > 0 || (offered == 0 && io_has_unsent_);
  taken_ += taken;
  return taken;
}

}  // namespace lyre::worker
