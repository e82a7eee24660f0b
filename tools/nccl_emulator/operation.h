#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "tools/nccl_emulator/ring.h"

namespace lyre::nccl_emulator {

/// One collective of float32 values, in place over `data`, which the caller keeps. An all-reduce
/// computes sums.
struct Operation {
  Collective collective = Collective::kAllReduce;
  std::span<float> data;
  Protocol protocol = Protocol::kSimple;
  std::vector<std::vector<Slice>> ring;  // a list for each channel
  uint32_t flag_base = 0;                // the LL flags of this operation are greater
  std::chrono::nanoseconds elapsed{};    // written by the progress thread
};

}  // namespace lyre::nccl_emulator
