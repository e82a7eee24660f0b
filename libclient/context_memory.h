#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libclient/resources.h"
#include "stack/channel/abi.h"
#include "stack/channel/control.h"

namespace lyre::client {

/// The memory that a context shares with the daemon: header, rings and arena, the workers'
/// doorbells, and the receive pools where the daemon lends them. What the daemon says of its layout
/// is checked once, in map().
/// Thread: any one at a time. Owner: of the mappings.
class ContextMemory {
 public:
  /// Maps what the attach reply describes. `descriptors`: as the reply carries them. Borrows.
  /// Fails: LYRE_E_DAEMON, LYRE_E_VERSION or LYRE_E_NORESOURCES, with the details in
  /// lyre_last_error(); 0 otherwise.
  int map(const channel::AttachReply& reply, const std::vector<UniqueFd>& descriptors);

  // REQUIRES for all that follows: map() answered 0.

  channel::ContextHeader& header() const { return *header_; }
  channel::RingPair* rings() const { return rings_; }
  const channel::WorkerDoorbell* doorbells() const {
    return reinterpret_cast<const channel::WorkerDoorbell*>(doorbells_.data());
  }
  uint8_t* arena() const { return arena_; }
  uint64_t arena_bytes() const { return arena_bytes_; }
  /// The bytes of a slice that the daemon lent; nullptr when they lie outside of what it may lend.
  const uint8_t* lent_bytes(uint8_t pool, const channel::LentSlice& slice) const {
    if (pool == channel::kPoolContext) {
      const uint64_t end = copy_offset_ + copy_bytes_;
      const bool is_inside =
          slice.offset >= copy_offset_ && slice.offset <= end && slice.bytes <= end - slice.offset;
      return is_inside ? memory_.data() + slice.offset : nullptr;
    }
    if (pool >= pools_.size() || !pools_[pool].holds(slice.offset, slice.bytes)) return nullptr;
    return pools_[pool].data() + slice.offset;
  }

 private:
  int check_layout(const channel::AttachReply& reply);
  int map_pools(const channel::AttachReply& reply, const std::vector<UniqueFd>& descriptors);

  Mapping memory_;
  Mapping doorbells_;
  std::vector<Mapping> pools_;
  channel::ContextHeader* header_ = nullptr;
  channel::RingPair* rings_ = nullptr;
  uint8_t* arena_ = nullptr;
  uint64_t arena_bytes_ = 0;
  uint64_t copy_offset_ = 0;
  uint64_t copy_bytes_ = 0;
};

/// Where the descriptors of an attach reply are.
inline constexpr size_t kMemoryDescriptor = 0;
inline constexpr size_t kWakeDescriptor = 1;
inline constexpr size_t kDoorbellDescriptor = 2;
/// The first of one for each worker: its doorbell's eventfd. Those of the pools follow.
inline constexpr size_t kWorkerDescriptor = 3;

/// LYRE_E_DAEMON, and lyre_last_error() names the field of the attach reply.
int bad_attach(const char* what);

}  // namespace lyre::client
