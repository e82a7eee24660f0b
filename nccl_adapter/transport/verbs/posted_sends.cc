#include "nccl_adapter/transport/verbs/posted_sends.h"

#include <algorithm>

namespace lyre::nccl_adapter {

void PostedSends::add(uint32_t bytes, const Memory* memory, bool is_send) {
  under_way_.push_back({bytes, memory, is_send});
  ++count_;
  bytes_ += bytes;
  if (!is_send) return;
  ++sends_;
  ++sends_under_way_;
}

void PostedSends::finish(uint32_t low_bits, uint32_t mask) {
  const uint64_t oldest = count_ - under_way_.size();
  const uint64_t count = ((low_bits - oldest) & mask) + 1;
  for (uint64_t i = 0; i < count && !under_way_.empty(); ++i) {
    bytes_ -= under_way_.front().bytes;
    if (under_way_.front().is_send) --sends_under_way_;
    under_way_.pop_front();
  }
}

bool PostedSends::on_credit(uint64_t posted) {
  if (posted < credited_ || posted > sends_) return false;
  credited_ = posted;
  return true;
}

uint32_t PostedSends::free(uint32_t slots, uint32_t peer_slots) const {
  return static_cast<uint32_t>(
      std::min(slots - sends_under_way_, peer_slots - (sends_ - credited_)));
}

bool PostedSends::reads(const Memory* memory) const {
  return std::any_of(under_way_.begin(), under_way_.end(),
                     [&](const Sent& sent) { return sent.memory == memory; });
}

}  // namespace lyre::nccl_adapter
