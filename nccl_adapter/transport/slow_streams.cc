#include "nccl_adapter/transport/slow_streams.h"

#include <algorithm>

#include "nccl_adapter/limits.h"

namespace lyre::nccl_adapter {

std::optional<size_t> SlowStreams::look(std::span<const Look> streams, int64_t passed_ns) {
  for (const Look& look : streams) {
    if (look.stream >= windows_.size()) windows_.resize(look.stream + 1);
    Window& window = windows_[look.stream];
    if (window.session != look.session) window = {.session = look.session};
    window.bytes += look.acked_bytes;
    ++window.looks;
    if (look.is_backlogged) ++window.backlogged;
  }
  ++looks_;
  passed_ns_ += passed_ns;
  if (passed_ns_ < kSlowWindowNs) return std::nullopt;
  const std::optional<size_t> slowest = judge();
  passed_ns_ = 0;
  looks_ = 0;
  for (Window& window : windows_) {
    window.bytes = 0;
    window.looks = window.backlogged = 0;
  }
  return slowest;
}

std::optional<size_t> SlowStreams::judge() {
  std::optional<size_t> slowest;
  for (size_t i = 0; i < windows_.size(); ++i) {
    Window& window = windows_[i];
    // One that carries nothing stalls, which is judged by TCP's timeouts.
    const bool is_slow = window.backlogged == looks_ && window.bytes > 0 &&
                         window.bytes * 100 < median_beside(i) * kSlowPercent;
    window.slow_count = is_slow ? window.slow_count + 1 : 0;
    if (window.slow_count < kSlowWindows) continue;
    if (!slowest || window.bytes < windows_[*slowest].bytes) slowest = i;
  }
  return slowest;
}

// Of those that carried something: the others had nothing to do.
uint64_t SlowStreams::median_beside(size_t stream) const {
  std::vector<uint64_t> bytes;
  for (size_t i = 0; i < windows_.size(); ++i) {
    if (i != stream && windows_[i].looks == looks_ && windows_[i].bytes > 0) {
      bytes.push_back(windows_[i].bytes);
    }
  }
  if (bytes.empty()) return 0;
  const auto middle = bytes.begin() + static_cast<ptrdiff_t>(bytes.size() / 2);
  std::nth_element(bytes.begin(), middle, bytes.end());
  return *middle;
}

}  // namespace lyre::nccl_adapter
