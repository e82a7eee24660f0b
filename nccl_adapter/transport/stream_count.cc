#include "nccl_adapter/transport/stream_count.h"

#include <algorithm>

namespace lyre::nccl_adapter {

size_t StreamCount::add_connection() {
  ++connections_;
  return is_crowded() ? 1 : wanted_;
}

void StreamCount::report(const Report& report) {
  reported_bytes_ += report.acked_bytes;
  is_any_refused_ = is_any_refused_ || report.is_refused;
  // A connection without any stream waits for its peer, and the others need not.
  if (!report.is_busy || report.up == 0) return;
  is_any_busy_ = true;
  if (report.up < wanted_) is_any_incomplete_ = true;
}

void StreamCount::look(int64_t passed_ns) {
  observe(passed_ns);
  reported_bytes_ = 0;
  is_any_busy_ = is_any_incomplete_ = is_any_refused_ = false;
}

void StreamCount::observe(int64_t passed_ns) {
  idle_ns_ = is_any_busy_ ? 0 : idle_ns_ + passed_ns;
  if (idle_ns_ >= kForgetStreamsNs) return forget();
  if (is_refused_for_long(passed_ns)) return halve();
  if (phase_ == Phase::kSettled) return rest(passed_ns);
  if (!is_any_busy_) return;
  if (is_any_incomplete_) {
    restart_measuring();
    waited_ns_ += passed_ns;
    // The peer may not take more of them.
    if (phase_ == Phase::kTry && waited_ns_ >= kStreamTrialWaitNs) judge(0);
    return;
  }
  busy_ns_ += passed_ns;
  // Congestion windows open first (RFC 5681 3.1).
  const int64_t settle_ns = phase_ == Phase::kMeasure ? kStreamBeginNs : kStreamSettleNs;
  if (busy_ns_ <= settle_ns) return;
  bytes_ += reported_bytes_;
  const int64_t measured_ns = busy_ns_ - settle_ns;
  if (measured_ns < kStreamMeasureNs) return;
  if (bytes_ < kStreamMeasureBytes && measured_ns < kStreamTrialWaitNs) return;
  judge(static_cast<double>(bytes_) * kNsPerSecond / static_cast<double>(measured_ns));
}

// Streams on trial may be refused: the trial ends without them.
bool StreamCount::is_refused_for_long(int64_t passed_ns) {
  const bool counts = is_any_refused_ && phase_ != Phase::kTry && wanted_ > 1;
  refused_ns_ = counts ? refused_ns_ + passed_ns : 0;
  return refused_ns_ >= kStreamsRefusedNs;
}

void StreamCount::judge(double bytes_per_s) {
  if (phase_ == Phase::kMeasure) {
    bytes_per_s_ = bytes_per_s;
    return try_more();
  }
  const auto before = static_cast<double>(count_);
  const auto added = static_cast<double>(wanted_ - count_);
  const bool helps = bytes_per_s >= bytes_per_s_ * (1 + added / before * kStreamHelps);
  if (is_again_) return judge_again(bytes_per_s > 0, helps);
  if (helps) {
    bytes_per_s_ = bytes_per_s;
    count_ = wanted_;
    ++grown_;
  }
  const bool is_limited = bytes_per_s > 0 && grown_ >= kStreamsGrownMin;
  if (!helps && (is_limited || bytes_per_s >= bytes_per_s_ * kStreamHelpsSome)) return settle();
  is_doubling_ = is_doubling_ && helps;
  step_ = is_doubling_ ? count_ : step_ / 2;
  try_more();
}

void StreamCount::judge_again(bool has_come, bool helps) {
  if (is_reduced() && has_come) {
    pause_ns_ = kTryAgainNsMin;
    count_ = wanted_;
  } else if (has_come) {
    ++again_;
    if (helps) count_ = wanted_;
  }
  wanted_ = count_;
  settle();
}

void StreamCount::try_more() {
  step_ = std::min(step_, (is_reduced() ? before_full_ : most_) - count_);
  wanted_ = count_ + step_;
  if (step_ == 0) return settle();
  phase_ = Phase::kTry;
  waited_ns_ = 0;
  restart_measuring();
}

void StreamCount::settle() {
  phase_ = Phase::kSettled;
  waited_ns_ = 0;
}

void StreamCount::halve() {
  if (wanted_ == 1) return;  // there is nothing to give back, and its trials go on
  // A shortage that goes on does not shorten the pause.
  if (!is_reduced()) pause_ns_ = kTryAgainNsMin;
  before_full_ = std::max(before_full_, phase_ == Phase::kTry ? count_ : wanted_);
  count_ = wanted_ = std::max<size_t>(wanted_ / 2, 1);
  idle_ns_ = refused_ns_ = 0;
  settle();
}

void StreamCount::rest(int64_t passed_ns) {
  if (wanted_ == most_ || (again_ == kTryAgainMax && !is_reduced())) return;
  waited_ns_ += passed_ns;
  if (waited_ns_ < pause_ns_) return;
  pause_ns_ = std::min(2 * pause_ns_, kTryAgainNsMax);
  is_again_ = true;
  count_ = step_ = wanted_;
  is_doubling_ = true;
  phase_ = Phase::kMeasure;
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
  is_again_ = false;
  grown_ = again_ = 0;
  pause_ns_ = kTryAgainNsMin;
  before_full_ = 0;
  bytes_per_s_ = 0;
  waited_ns_ = idle_ns_ = refused_ns_ = 0;
  restart_measuring();
}

}  // namespace lyre::nccl_adapter
