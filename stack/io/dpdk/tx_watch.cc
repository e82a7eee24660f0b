#include "stack/io/dpdk/tx_watch.h"

#include <utility>

namespace lyre::io::dpdk {

bool TxWatch::is_stuck(const TxProgress& progress, bool is_link_up, Nanos now) {
  const Nanos since = earlier(clock_.look(now), kCountedMax);
  const TxProgress before = std::exchange(last_, progress);
  if (std::exchange(was_link_up_, is_link_up) != is_link_up) forget();
  if (is_link_up) without_link_after_ = kStuckWithoutLinkAfter;
  if (progress.freed != before.freed || progress.waits == before.waits) {
    forget();
    return false;
  }
  waited_ = std::exchange(is_waiting_, true) ? waited_ + since : Nanos();
  return waited_ >= (is_link_up ? kStuckAfter : without_link_after_);
}

void TxWatch::back_off() {
  without_link_after_ = earlier(without_link_after_ * 2, kStuckWithoutLinkAfterMax);
}

}  // namespace lyre::io::dpdk
