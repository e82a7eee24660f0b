#pragma once

#include <cstddef>
#include <cstdint>

namespace lyre::nccl_adapter {

/// Copies as memcpy(), with stores in ascending order, and none that a reader could see in part
/// within an aligned word of 8 bytes. For the memory of a receive: with NCCL's protocols LL and
/// LL128 a GPU polls it, and takes data for complete when it sees the flag behind them in the same
/// 8 or 128 bytes. memcpy() stores the end of a block before its middle.
void copy_in_order(uint8_t* to, const uint8_t* from, size_t bytes);

}  // namespace lyre::nccl_adapter
