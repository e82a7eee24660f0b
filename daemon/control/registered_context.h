#pragma once

#include <atomic>
#include <bitset>
#include <cstdint>
#include <vector>

#include "daemon/base/owned_fd.h"
#include "daemon/base/shared_memory.h"
#include "daemon/control/context_registry.h"
#include "daemon/control/left_memory.h"
#include "stack/channel/abi.h"
#include "stack/channel/ring.h"

namespace lyre {

/// What ContextRegistry knows of a context. For its own files only.
struct ContextRegistry::Context {
  uint32_t index = 0;
  uint64_t generation = 0;
  uint64_t user = UINT64_MAX;  ///< DomainRules::user_of()
  AttachTerms terms;           ///< as they were granted
  channel::ContextLayout layout{};
  uint64_t arena_bytes = 0;
  uint64_t copy_bytes = 0;
  bool is_lent_to = false;
  SharedMemory memory;
  OwnedFd client_memory;  ///< the client's own open of it, while it is attached
  bool can_be_taken_back = false;
  OwnedFd wake_read;   ///< the client's
  OwnedFd wake_write;  ///< the workers'
  std::vector<OwnedFd> worker_rings;
  bool is_attached = false;
  bool is_arena_at_job = false;               ///< a thread maps or unmaps it for the ports
  bool is_unmapped = false;                   ///< the unmapping is done, or under way in a thread
  std::bitset<channel::kWorkersMax> held_by;  ///< workers that have not replied kDetached
  std::atomic<uint32_t> attached_workers{0};  ///< counted by the workers: see worker::Command

  const uint8_t* arena() const { return memory.data() + layout.arena_offset; }
  /// No worker knows it any more, or ever will.
  bool is_gone() const { return !is_attached && held_by.none(); }
  ContextGrant grant() const;
  /// Of its memory when it is over. `copy_bytes_max`: more of a copy area does not count.
  LeftMemory::Facts left_facts(uint64_t copy_bytes_max) const;
};

}  // namespace lyre
