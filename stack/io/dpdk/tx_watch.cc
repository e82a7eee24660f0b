#include "stack/io/dpdk/tx_watch.h"

#include <utility>

namespace lyre::io::dpdk {

bool TxWatch::is_stuck(const TxProgress& progress, Nanos now) {
  const TxProgress before = std::exchange(last_, progress);
  if (progress.freed != before.freed || progress.waits == before.waits) {
    forget();
    return false;
  }
  if (!is_waiting_) since_ = now;
  is_waiting_ = true;
  return now - since_ >= kStuckAfter;
}

}  // namespace lyre::io::dpdk
