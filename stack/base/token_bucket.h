#pragma once

#include <algorithm>
#include <cstdint>

#include "stack/base/nanos.h"

namespace lyre {

/// A token bucket: `per_second` on average, bursts of `burst`. Plain data.
class TokenBucket {
 public:
  constexpr TokenBucket(uint32_t per_second, uint32_t burst)
      : every_(seconds(1) / per_second), burst_(burst), tokens_(burst) {}

  bool take(Nanos now) {
    const int64_t earned = (now - refilled_at_).value / every_.value;
    if (earned > 0) {
      tokens_ = static_cast<uint32_t>(std::min<int64_t>(burst_, tokens_ + earned));
      refilled_at_ += every_ * earned;
    }
    if (tokens_ == 0) return false;
    --tokens_;
    return true;
  }

 private:
  Nanos every_;
  uint32_t burst_;
  uint32_t tokens_;
  Nanos refilled_at_;
};

}  // namespace lyre
