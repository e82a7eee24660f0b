#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "tools/lyre/allreduce/ring.h"

namespace lyre::allreduce {

/// One all-reduce, in place over `data`.
struct Operation {
  std::span<float> data;
  Protocol protocol = Protocol::kSimple;
  std::vector<std::vector<Slice>> ring;  // a list for each channel
  uint32_t flag_base = 0;                // LL flags of this operation start behind it
  std::chrono::nanoseconds elapsed{};    // written by the progress thread
};

}  // namespace lyre::allreduce
