#pragma once

#include <cstddef>
#include <cstdint>

#include "nccl_adapter/abi/common.h"

/// The bounds of the adapter. Units: the last word of the name.
namespace lyre::nccl_adapter {

/// Requests of one comm that NCCL may have outstanding.
inline constexpr size_t kRequestsPerComm = nccl_abi::kRequestsMax;

/// Sent without the receiver having asked for it, at most, on one comm (DESIGN: eager limit).
inline constexpr uint64_t kEagerBytes = 64 * 1024;

/// A receiver that posted this much since its last grant grants at once; less waits for the next
/// acknowledgement. At most half of kEagerBytes: then what waits always fits the eager budget.
inline constexpr uint64_t kGrantPromptBytes = kEagerBytes / 2;

/// One arena block: frame header and payload. A power of two, so that the arena wastes nothing.
inline constexpr size_t kBlockBytes = 256 * 1024;

/// A comm stops filling blocks beyond this much unacknowledged data: deeper queues only push the
/// bytes out of the cache and starve the other comms of the arena.
inline constexpr uint64_t kStreamUnackedBytesMax = 4 * 1024 * 1024;

/// What NCCL is told it may put into one message: sizes in test() are an int.
inline constexpr size_t kMessageBytesMax = nccl_abi::kNetBytesMaxV8;

/// Slices taken from a session at a time.
inline constexpr int kSlicesPerTake = 32;

/// Rounds of taking slices in one call, so that one busy comm does not keep the others waiting.
inline constexpr int kTakeRoundsMax = 8;

/// Streams of one comm that a hello may announce.
inline constexpr uint16_t kStreamsMax = 64;

/// Strangers and peers between their TCP handshake and their hello, a rail.
inline constexpr size_t kVisitorsMax = 1024;

/// Peers that said hello and wait for accept(), a listen comm.
inline constexpr size_t kArrivalsMax = 256;

/// Lines about strangers that one process logs; the rest is only counted.
inline constexpr uint64_t kStrangerLinesMax = 32;

inline constexpr int kListenBacklog = 1024;

/// A close waits this long for the peer's TCP to acknowledge the goodbye.
inline constexpr int64_t kCloseWaitNs = 1'000'000'000;
/// And finalize this long for all of them together: a lost packet may cost seconds.
inline constexpr int kFinalizeDrainMs = 5000;

/// A handshake that is reset before it is answered is tried again this often.
inline constexpr int kRedialsMax = 2;

}  // namespace lyre::nccl_adapter
