#pragma once

#include <cstdint>

#include "stack/base/index_list.h"
#include "stack/worker/inbox.h"

namespace lyre::worker {

/// Memory that a client registered, as one worker knows it: by index in the ports' table of
/// regions. Plain data. Thread: the worker.
struct ClientRegion {
  uint32_t name = 0;  ///< with which the client names it; 0: the index is free
  uint32_t context = UINT32_MAX;
  const uint8_t* base = nullptr;
  uint64_t bytes = 0;
  bool is_leaving = false;  ///< nothing more is sent from it; waits until no port holds a piece
  IndexLink link;           ///< in the list of its context
};

}  // namespace lyre::worker
