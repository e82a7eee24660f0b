#pragma once

#include <cstdint>

namespace lyre::worker {

/// Who has a received packet after it was processed.
enum class [[nodiscard]] PacketFate : uint8_t{
    kKept,   ///< ownership passed to the engine, the merger, another worker or the memory
    kUnused  ///< still the caller, who releases it
};

}  // namespace lyre::worker
