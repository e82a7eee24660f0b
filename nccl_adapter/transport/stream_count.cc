#include "nccl_adapter/transport/stream_count.h"

#include <algorithm>

#include "nccl_adapter/limits.h"

namespace lyre::nccl_adapter {

void StreamCount::look(const Look& look) {
  idle_ns_ = look.is_busy ? 0 : idle_ns_ + look.passed_ns;
  if (idle_ns_ >= kForgetStreamsNs) return forget();
  if (!look.is_busy || phase_ == Phase::kSettled) return;
  if (look.up < wanted_) {
    restart_measuring();
    waited_ns_ += look.passed_ns;
    // The peer may not take more of them.
    if (phase_ == Phase::kTry && waited_ns_ >= kStreamTrialWaitNs) judge(0);
    return;
  }
  busy_ns_ += look.passed_ns;
  // Congestion windows open first (RFC 5681 3.1).
  if (busy_ns_ <= kStreamSettleNs) return;
  bytes_ += look.acked_bytes;
  const int64_t measured_ns = busy_ns_ - kStreamSettleNs;
  if (measured_ns < kStreamMeasureNs) return;
  if (bytes_ < kStreamMeasureBytes && measured_ns < kStreamTrialWaitNs) return;
  judge(static_cast<double>(bytes_) * kNsPerSecond / static_cast<double>(measured_ns));
}

void StreamCount::judge(double bytes_per_s) {
  if (phase_ == Phase::kMeasure) {
    bytes_per_s_ = bytes_per_s;
    return try_more();
  }
  const auto before = static_cast<double>(count_);
  const auto added = static_cast<double>(wanted_ - count_);
  const bool helps = bytes_per_s >= bytes_per_s_ * (1 + added / before * kStreamHelps);
  if (helps) {
    bytes_per_s_ = bytes_per_s;
    count_ = wanted_;
    ++grown_;
  }
  // More than help now, if they came at all: they take over what other connections of the port
  // leave while they pause.
  if (!helps && bytes_per_s > 0 && grown_ >= kStreamsGrownMin) {
    phase_ = Phase::kSettled;
    return;
  }
  is_doubling_ = is_doubling_ && helps;
  step_ = is_doubling_ ? count_ : step_ / 2;
  try_more();
}

void StreamCount::try_more() {
  step_ = std::min(step_, most_ - count_);
  wanted_ = count_ + step_;
  phase_ = step_ > 0 ? Phase::kTry : Phase::kSettled;
  waited_ns_ = 0;
  restart_measuring();
}

void StreamCount::restart_measuring() {
  busy_ns_ = 0;
  bytes_ = 0;
}

void StreamCount::forget() {
  count_ = wanted_ = step_ = start_;
  phase_ = start_ < most_ ? Phase::kMeasure : Phase::kSettled;
  is_doubling_ = true;
  grown_ = 0;
  bytes_per_s_ = 0;
  waited_ns_ = idle_ns_ = 0;
  restart_measuring();
}

}  // namespace lyre::nccl_adapter
