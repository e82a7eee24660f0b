#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "nccl_adapter/limits.h"

namespace lyre::nccl_adapter {

/// Limits the log lines about one subject, which strangers can cause: so many in an hour on
/// average, and as many at once. Plain data.
class LineBudget {
 public:
  /// REQUIRES: per_hour > 0.
  constexpr explicit LineBudget(uint32_t per_hour)
      : every_ns_(3600 * kNsPerSecond / per_hour), most_(per_hour), left_(per_hour) {}

  /// For a line at `now_ns`: how many were left out since the last one. nullopt: this one is left
  /// out, too.
  std::optional<uint64_t> take(int64_t now_ns) {
    const int64_t earned = (now_ns - refilled_ns_) / every_ns_;
    if (earned > 0) {
      left_ = static_cast<uint32_t>(std::min<int64_t>(most_, left_ + earned));
      refilled_ns_ += earned * every_ns_;
    }
    if (left_ == 0) {
      ++left_out_;
      return std::nullopt;
    }
    --left_;
    return std::exchange(left_out_, 0);
  }

 private:
  int64_t every_ns_;
  uint32_t most_;
  uint32_t left_;
  int64_t refilled_ns_ = 0;
  uint64_t left_out_ = 0;
};

}  // namespace lyre::nccl_adapter
