#include "stack/io/dpdk/tx_watch.h"

#include <utility>

namespace lyre::io::dpdk {

bool TxWatch::is_stuck(const TxProgress& progress, bool is_link_up, Nanos now) {
  const TxProgress before = std::exchange(last_, progress);
  if (std::exchange(was_link_up_, is_link_up) != is_link_up) forget();
  if (progress.freed != before.freed || progress.waits == before.waits) {
    forget();
    return false;
  }
  if (!is_waiting_) since_ = now;
  is_waiting_ = true;
  return now - since_ >= (is_link_up ? kStuckAfter : kStuckWithoutLinkAfter);
}

}  // namespace lyre::io::dpdk
