#pragma once

#include <cstddef>
#include <cstdint>

namespace lyre::nccl_adapter {

/// Copies as memcpy(), for the memory of a receive: with NCCL's protocols LL and LL128 a GPU polls
/// it, and takes data for complete when it sees the flag behind them in the same 8 or 128 bytes.
/// memcpy() stores the end of a block before its middle.
/// No store can be seen in part within an aligned word of 8 bytes. Before the last 4 bytes of such
/// a word, which are LL's flag, and before the last 8 of an aligned line of 128, which are
/// LL128's, all that this thread stored before can be seen. Other stores may be seen in any order.
void copy_in_order(uint8_t* to, const uint8_t* from, size_t bytes);

}  // namespace lyre::nccl_adapter
