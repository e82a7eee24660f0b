#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "stack/channel/abi.h"

namespace lyre::worker {

/// The sessions that sent payload last. Thread: the worker.
class RecentSenders {
 public:
  static constexpr size_t kKept = 8;

  void note(channel::SessionName sender) {
    if (sender == kept_[newest_]) return;
    newest_ = (newest_ + 1) % kKept;
    kept_[newest_] = sender;
  }
  /// One after the other. It may be none (its index is that of no session), or be closed.
  channel::SessionName next() {
    given_ = (given_ + 1) % kKept;
    return kept_[given_];
  }

 private:
  std::array<channel::SessionName, kKept> kept_{};
  size_t newest_ = 0;
  size_t given_ = 0;
};

}  // namespace lyre::worker
