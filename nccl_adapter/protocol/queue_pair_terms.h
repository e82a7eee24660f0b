#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "nccl_adapter/protocol/handle.h"

/// The payload of offer and accept frames: what one side must know of the other's queue pair.
namespace lyre::nccl_adapter {

/// The first version with frames about queue pairs.
inline constexpr uint16_t kQueuePairVersion = 3;

inline constexpr size_t kQueuePairTermsBytes = 48;
/// QueuePairTerms::modes: what the side can do. Each can send.
inline constexpr uint32_t kModeSend = 1;   ///< frames by SEND and RECV
inline constexpr uint32_t kModeWrite = 2;  ///< data by WRITE into exposed receives

inline constexpr uint32_t kSlotsMin = 4;  ///< two of them for credit frames alone
inline constexpr uint32_t kSlotsMax = 4096;
inline constexpr uint32_t kSlotBytesMin = 4096;
inline constexpr uint32_t kSlotBytesMax = 1u << 20;

struct QueuePairTerms {
  uint32_t number = 0;      ///< of the queue pair: 24 bits, not 0
  uint32_t first_psn = 0;   ///< packet sequence number that its first send has: 24 bits
  Address gid{};            ///< of the port; an address, as it is RoCE v2
  uint32_t mtu_bytes = 0;   ///< that the port can take: 256, 512 ... 4096
  uint32_t slots = 0;       ///< receives that are posted: kSlotsMin..kSlotsMax
  uint32_t slot_bytes = 0;  ///< of each: kSlotBytesMin..kSlotBytesMax
  uint32_t modes = kModeSend;
  friend bool operator==(const QueuePairTerms&, const QueuePairTerms&) = default;
};

void encode(const QueuePairTerms& terms, std::span<uint8_t, kQueuePairTermsBytes> out);

/// Takes more bytes than this version knows, and ignores them. Fails: false when there are fewer,
/// or a value is outside of its range.
bool decode(std::span<const uint8_t> in, QueuePairTerms* out);

}  // namespace lyre::nccl_adapter
