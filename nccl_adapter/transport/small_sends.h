#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "nccl_adapter/limits.h"

namespace lyre::nccl_adapter {

/// Recognises small sends in a row, as of small collectives: each waits for the peer's answer to
/// the one before, so what counts is how soon a worker or another rank gets this core. The first
/// ones after a gap are no such row: their code is in no cache, and a yield costs them more.
/// Thread: under the instance's lock.
class SmallSends {
 public:
  void on_send(uint64_t bytes, int64_t now_ns) {
    if (bytes > kSmallSendBytesMax) return;
    if (now_ns - last_ns_ > kSmallSendsGapNs) in_a_row_ = 0;
    last_ns_ = now_ns;
    in_a_row_ = std::min(in_a_row_ + 1, kSmallSendsInARow);
    is_due_ = in_a_row_ == kSmallSendsInARow;
  }
  /// True once after a send of such a row: the caller should leave its core.
  bool take_due() { return std::exchange(is_due_, false); }

 private:
  int64_t last_ns_ = 0;
  int in_a_row_ = 0;
  bool is_due_ = false;
};

}  // namespace lyre::nccl_adapter
