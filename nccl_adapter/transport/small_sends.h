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
    is_due_ = in_a_row_ == kSmallSendsInARow && is_worthwhile();
  }
  /// True once after a send of such a row: the caller should leave its core.
  bool take_due() { return std::exchange(is_due_, false); }
  /// It left the core, which was back after that time. Where no other thread is ready to run there,
  /// as on a host with cores to spare, this is tried seldom.
  void on_yield(int64_t took_ns) {
    vain_ = took_ns < kVainYieldNs ? std::min(vain_ + 1, kVainYieldsInARow) : 0;
  }

 private:
  bool is_worthwhile() { return vain_ < kVainYieldsInARow || ++passed_over_ % kSendsPerTrial == 0; }

  int64_t last_ns_ = 0;
  int in_a_row_ = 0;
  bool is_due_ = false;
  int vain_ = 0;  ///< yields in a row that found no other thread
  uint32_t passed_over_ = 0;
};

}  // namespace lyre::nccl_adapter
