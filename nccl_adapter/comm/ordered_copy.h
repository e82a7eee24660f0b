#pragma once

#include <cstddef>
#include <cstdint>

namespace lyre::nccl_adapter {

/// Copies as memcpy(), for the memory of a receive: with NCCL's protocols LL and LL128 a GPU polls
/// it, and takes data for complete when it sees the flag behind them in the same 8 or 128 bytes.
/// memcpy() stores the end of a block before its middle.
/// A word of 8 bytes is stored at once, or byte by byte, its last 4 bytes (LL's flag) after the
/// others. Before the last 8 bytes of an aligned line of 128 (LL128's flag), all that this thread
/// stored before can be seen. Else stores may be seen in any order.
void copy_in_order(uint8_t* to, const uint8_t* from, size_t bytes);

}  // namespace lyre::nccl_adapter
