#pragma once

namespace lyre {

/// Whether the CPU keeps its loads in order, and its stores (x86-64). Other CPUs do so only where
/// the program has a barrier, which some drivers leave out.
#if defined(__x86_64__)
inline constexpr bool kKeepsMemoryOrder = true;
#else
inline constexpr bool kKeepsMemoryOrder = false;
#endif

}  // namespace lyre
