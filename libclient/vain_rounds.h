#pragma once

#include <cstdint>

#include "stack/base/core_contention.h"
#include "stack/base/nanos.h"

namespace lyre::client {

/// Whether a caller that yields between two rounds of polls polls in vain: its yields find no
/// thread to run on its core. Either the core is its own, or the threads that wait for a processor
/// are out of reach: those of other groups (cgroups, sessions), and those on other cores. Rounds
/// are those of all threads that share the context: where several poll in turns, each is short.
/// Thread: its owner's.
class VainRounds {
 public:
  /// So many in a row: some 20 to 50 us.
  static constexpr uint32_t kRoundsMin = 16;

  /// After each round that found nothing. True: it polls in vain.
  bool on_round(Nanos now) {
    rounds_ = now - last_ < CoreContention::kHandover ? rounds_ + 1 : 0;
    last_ = now;
    return rounds_ >= kRoundsMin;
  }

 private:
  Nanos last_{INT64_MIN / 2};
  uint32_t rounds_ = 0;  ///< in a row, each of which found no other thread
};

}  // namespace lyre::client
