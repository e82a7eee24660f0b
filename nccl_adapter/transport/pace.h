#pragma once

#include <cstdint>

namespace lyre::nccl_adapter {

/// How fast bytes go, over whole seconds of some kind of time, which may have gaps.
class Pace {
 public:
  void add(uint64_t bytes, int64_t passed_ns, int64_t now_ns);
  /// In the last whole second; 0: there was none of late, so nothing is known.
  uint64_t bytes_per_s(int64_t now_ns) const;

 private:
  uint64_t bytes_ = 0;  ///< of the running second
  int64_t passed_ns_ = 0;
  uint64_t bytes_per_s_ = 0;
  int64_t known_ns_ = 0;  ///< since when bytes_per_s_ is
};

}  // namespace lyre::nccl_adapter
